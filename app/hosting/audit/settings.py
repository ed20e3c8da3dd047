"""`[audit]`: streams of the whole record to other programs, such as a SIEM."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, ValidationInfo, model_validator

from ....engine.core.sanitize import visible
from ....engine.gateway.aap.receiver import private_url, signing_key
from ....engine.history.audit.stream import Begin, StreamFormat
from ...config.loader import Key
from ...config.paths import resolve_in
from ...config.quantities import one_or_more
from ...config.tables import BASE, SettingsTable

Kind: TypeAlias = Literal["file", "syslog", "https"]
Transport: TypeAlias = Literal["udp", "tcp", "tls", "unix"]

FORMS = "file:PATH, syslog:udp://HOST, syslog:tcp://HOST, syslog:tls://HOST, syslog:PATH or https://…"
PORTS: Mapping[str, int] = {"udp": 514, "tcp": 601, "tls": 6514}
"""Default syslog ports: RFC 5426, RFC 6587, RFC 5425."""
SYSLOG_BYTES = 8192
"""Size of a syslog message that receivers accept in their default configuration."""
LEAST_BYTES = 2048
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """The receiver of a stream. `path` is that of a file or a local socket."""

    kind: Kind
    text: str
    transport: Transport | None = None
    host: str = ""
    port: int = 0
    path: Path = Path()

    @property
    def name(self) -> str:
        """Name for messages and metrics, without what follows the host: that is often a secret."""
        if self.kind != "https":
            return self.text
        parts = urlsplit(self.text)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def id(self) -> str:
        """Key under which the stream's position is stored; another address has its own position."""
        return f"{self.kind}-{hashlib.sha256(self.text.encode()).hexdigest()[:16]}"


def stream_address(text: str, base: Path | None = None) -> StreamAddress:
    """Parse the address of a receiver; files are relative to `base`. Raises `ValueError`."""
    scheme, _, rest = text.partition(":")
    match scheme:
        case "file" if rest:
            path = _path(rest, base)
            return StreamAddress("file", f"file:{path}", path=path)
        case "syslog" if rest.startswith(("/", "~")):
            path = _path(rest, base)
            return StreamAddress("syslog", f"syslog:{path}", "unix", path=path)
        case "syslog" if rest:
            return _syslog(text, rest)
        case "https" | "http":
            return StreamAddress("https", private_url(text))
        case _:
            raise ValueError(f"expected {FORMS}, found {text!r:.60}")


def _path(text: str, base: Path | None) -> Path:
    path = Path(text).expanduser() if base is None else Path(resolve_in(base, text))
    if not path.is_absolute():
        raise ValueError(f"expected an absolute path like /var/log/interlock.jsonl, found '{text:.60}'")
    return path


def _syslog(text: str, address: str) -> StreamAddress:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = None, None, None
    plain = parts is not None and not (parts.path.strip("/") or parts.query or parts.username)
    if parts is None or parts.scheme not in PORTS or not host or not plain:
        raise ValueError(f"expected {FORMS}, found {text!r:.60}")
    transport = cast("Transport", parts.scheme)
    port = PORTS[transport] if port is None else port
    shown = f"[{host}]" if ":" in host else host
    return StreamAddress("syslog", f"syslog:{transport}://{shown}:{port}", transport, host, port)


def _checked(texts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    context: Mapping[str, Path | None] = info.context or {}
    found = [stream_address(text, context.get(BASE)).text for text in texts]
    if len(set(found)) < len(found):
        raise ValueError("names one receiver twice; name each once")
    return tuple(found)


def _file(text: str | None, info: ValidationInfo) -> str | None:
    context: Mapping[str, Path | None] = info.context or {}
    base = context.get(BASE)
    if text is None:
        return None
    path = Path(text).expanduser() if base is None else Path(resolve_in(base, text))
    if not path.is_file():
        raise ValueError(f"there is no file '{path}'; name one in PEM")
    return str(path)


def _signing(secret: str | None) -> str | None:
    if secret is not None:
        signing_key(secret)
    return secret


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Validate that the headers can be sent: the client's own error would include the value, a secret."""
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise ValueError(f"expected names of headers like Authorization, found '{visible(name):.60}'")
        if not re.fullmatch(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?", value):
            raise ValueError(
                f"the value of {name} cannot be sent; expected printable ASCII, and no space or line "
                "break at its ends"
            )
    return headers


Text = Annotated[str, Field(pattern=r"\S")]


class AuditSettings(SettingsTable):
    """Streams of the record.

    A working directory's file may not set them: they decide where the record goes.
    """

    table: ClassVar = "audit"

    stream: Annotated[
        tuple[Text, ...],
        BeforeValidator(one_or_more),
        Field(min_length=1),
        AfterValidator(_checked),
        Key(f"where every event goes, one of them or a list: {FORMS}"),
    ]
    format: Annotated[
        StreamFormat,
        Key('`"events"` (default), as an export has them, or `"ocsf"` for security programs'),
    ] = "events"
    begin: Annotated[
        Begin,
        Key('where a new stream begins: `"start"` (default) of the journal, or `"now"`'),
    ] = "start"
    unmasked: Annotated[StrictBool, Key("`true`: passwords and keys as they are")] = False
    secret: Annotated[
        str | None,
        AfterValidator(_signing),
        Field(repr=False),
        Key("`whsec_` and 32 bytes in base64: the key that signs what is posted"),
    ] = None
    headers: Annotated[
        Mapping[str, str],
        AfterValidator(_headers),
        Field(repr=False),
        Key('headers of each post, `{ Authorization = "Bearer …" }`'),
    ] = {}
    ca: Annotated[
        str | None,
        AfterValidator(_file),
        Key(
            "a file with the certificates, in PEM, that may vouch for receivers; by default the system's"
        ),
    ] = None
    certificate: Annotated[
        str | None,
        AfterValidator(_file),
        Key("a file with the certificate, and its key, that is shown to receivers over TLS"),
    ] = None
    largest: Annotated[
        int,
        Field(strict=True, ge=LEAST_BYTES, le=MOST_BYTES),
        Key(
            f"largest syslog message in bytes, {SYSLOG_BYTES} by default; a larger event is sent without "
            "its content, but with the content's hash"
        ),
    ] = SYSLOG_BYTES

    @property
    def addresses(self) -> tuple[StreamAddress, ...]:
        """Addresses of the receivers."""
        return tuple(stream_address(text) for text in self.stream)

    @model_validator(mode="after")
    def _used(self) -> Self:
        kinds = {each.kind for each in self.addresses}
        tls = "https" in kinds or any(each.transport == "tls" for each in self.addresses)
        posted = [name for name in ("secret", "headers") if getattr(self, name)]
        if posted and "https" not in kinds:
            raise ValueError(f"has {' and '.join(posted)}, which are for a stream to https://…")
        if (self.ca or self.certificate) and not tls:
            raise ValueError("has ca or certificate, which are for streams over TLS")
        return self


def audit_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> AuditSettings | None:
    """Read `[audit]` from the user's settings, or from a settings file that is named.

    Raises `SettingsError`.
    """
    return AuditSettings.read(environ, directory)[1]
