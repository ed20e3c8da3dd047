"""Addresses that a server listens on, and URLs that clients connect to."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    import ssl

PORT = 8737
URL = "INTERLOCK_URL"
TOKEN = "INTERLOCK_TOKEN"
CA = "INTERLOCK_CA"
_NEXT_URL = re.compile(r",(?=\s*(?:wss?|unix):)")


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address, or the path of a Unix socket; port 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int = PORT
    path: Path | None = None

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path is not None else _join(self.host, self.port)

    @property
    def is_local(self) -> bool:
        """True if only clients on this machine can reach the address."""
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """URL for clients on this machine, without TLS."""
        return str(self) if self.path is not None else f"ws://{self}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `127.0.0.1:8737`, `[::1]:8737`, `:8737` (loopback), `unix:PATH`. Raises `ValueError`."""
        if text.startswith("unix:"):
            if not text[5:]:
                raise ValueError("expected a path after 'unix:'")
            return cls(path=Path(text[5:]))
        host, colon, port = text.rpartition(":")
        if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
            raise ValueError(f"expected HOST:PORT or unix:PATH, found '{text}'")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise ValueError(f"an IPv6 address needs brackets, as in [::1]:{port}; found '{text}'")
        return cls(host.strip("[]") or "127.0.0.1", int(port))


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_bare(host: str) -> bool:
    """Return whether a Host header holds an IP address, with or without a port, and not a name."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?", host)
    try:
        return match is not None and bool(ipaddress.ip_address(match[1] or match[2]))
    except ValueError:
        return False


def server_url(chosen_url: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the server: the given one, `INTERLOCK_URL`, or the default address.

    The text may hold several URLs, separated by commas, of servers that share a database: see `each_url`.
    Raises `ValueError` for an invalid URL.
    """
    urls = chosen_url or environ.get(URL) or Address().url
    return ",".join(_checked(each.strip()) for each in each_url(urls))


def each_url(urls: str) -> list[str]:
    """Split a text of comma-separated URLs; a path in a URL may itself contain commas."""
    return _NEXT_URL.split(urls)


def _checked(url: str) -> str:
    if url.startswith("unix:"):
        return f"unix:{Address.parse(url).path}"
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    else:
        fits = fits and not (parts.username or parts.query or parts.fragment) and parts.path in ("", "/")
    if not fits:
        # Of several addresses one may lack its scheme.
        wrong = next(
            (each for each in url.split(",") if not each.strip().startswith(("ws://", "wss://"))), url
        )
        raise ValueError(
            f"expected ws://HOST:PORT, wss://HOST:PORT or unix:PATH, found '{wrong}'"
            + (f" in '{url}'" if wrong != url else "")
        )
    return addressed(url.rstrip("/"))


def addressed(url: str) -> str:
    """Replace `localhost` by an IP address in a URL without TLS.

    `localhost` resolves to several addresses, and a server may listen on only some of them. A program
    that listens on another one could relay the proof request to the real server.
    """
    parts = urlsplit(url)
    if parts.scheme != "ws" or parts.hostname != "localhost":
        return url
    return parts._replace(netloc=_join("127.0.0.1", parts.port or 80)).geturl()


def is_safe(url: str) -> bool:
    """Return whether nobody can eavesdrop on the way to an HTTP URL, or answer in its place."""
    parts = _split(url)
    if parts is None:
        return False
    return bool(parts.hostname) if parts.scheme == "https" else is_loopback_url(url)


def is_loopback_url(url: str) -> bool:
    """Return whether an HTTP URL, with TLS or without, leads to this machine."""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        return False
    host = parts.hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.hostname, parts.port
    except ValueError:
        return None
    return parts


def check_private(url: str) -> None:
    """Raise `ValueError` for a URL that would send an operator's token unencrypted over a network."""
    for each in each_url(url):
        _check_private(each)


def _check_private(url: str) -> None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "ws" and not Address(host).is_local:
        raise ValueError(
            f"{url} would send your token unencrypted; connect to wss://{parts.netloc}, or use an SSH "
            f"tunnel: ssh -L {parts.port or 80}:127.0.0.1:{parts.port or 80} {host}"
        )


def trusting(ca: Path | None, environ: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """TLS context that trusts the certificates in `ca` or in `INTERLOCK_CA`; `None` if neither is given.

    Raises `ValueError` for a file without certificates.
    """
    ca_path = environ.get(CA)
    path = ca or (Path(ca_path) if ca_path else None)
    if path is None:
        return None
    import ssl  # loaded late: a hook's command has no time for it if there is nothing to check

    try:
        return ssl.create_default_context(cafile=path.expanduser())
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path}: expected certificates to trust, in PEM: {error}") from error
