"""A server's certificate: TLS, and the names that it covers."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.gateway.protocol.address import Address

if TYPE_CHECKING:
    from cryptography import x509


@dataclass(frozen=True, slots=True)
class _Loaded:
    tls: ssl.SSLContext
    names: tuple[str, ...]
    ends: datetime


class Certificate:
    """A certificate and its key, which can be read again after a renewal.

    `tls` uses the latest certificate for new connections; open ones keep theirs. Raises `ValueError` for
    a certificate that no client would accept.
    """

    def __init__(self, file: Path, key: Path | None = None) -> None:
        self._file = file
        self._key = key
        self._loaded = self._load()
        # Loading into a context in use could combine a certificate with another one's key.
        self.tls = self._load().tls
        self.tls.sni_callback = self._show

    @property
    def names(self) -> tuple[str, ...]:
        """DNS names and then IP addresses that the certificate covers, without wildcards."""
        return self._loaded.names

    def renew(self) -> str:
        """Read the files again and return a message on the result.

        After an error the old certificate stays.
        """
        try:
            self._loaded = self._load()
        except ValueError as error:
            return f"{error}; the certificate that was read before stays in use"
        return f"read {self._file} again; it is valid until {self._loaded.ends:%Y-%m-%d %H:%M} UTC"

    def _load(self) -> _Loaded:
        own = _first(self._file)
        names = _names(self._file, own)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        key = None if self._key is None else self._key.expanduser()
        try:
            # An empty password prevents a prompt, which nobody might answer.
            context.load_cert_chain(self._file.expanduser(), key, lambda: b"")
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ValueError(f"--certificate {self._file}: cannot be used: {error}") from error
        return _Loaded(context, names, own.not_valid_after_utc)

    def _show(self, connection: ssl.SSLObject | ssl.SSLSocket, *_: object) -> None:
        """Select the latest certificate at each handshake, also if the client sends no server name."""
        connection.context = self._loaded.tls


def server_certificate(address: Address, file: Path | None, key: Path | None) -> Certificate | None:
    """Return the certificate of a server at `address`, `None` without one. Raises `ValueError`."""
    if file is not None and address.path is not None:
        raise ValueError("--certificate is for addresses; a unix: socket does not leave this machine")
    if file is None:
        if key is not None:
            raise ValueError("--key without --certificate")
        return None
    return Certificate(file, key)


def _first(file: Path) -> x509.Certificate:
    """Return the server's own certificate, the first in the file; its issuers' certificates follow."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(file.expanduser().read_bytes())[0]
    except (OSError, ValueError) as error:
        raise ValueError(f"--certificate {file}: cannot be used: {error}") from error


def _names(file: Path, own: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        extension = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = extension.get_values_for_type(x509.DNSName)
        addresses = list(map(str, extension.get_values_for_type(x509.IPAddress)))
    except x509.ExtensionNotFound:
        names, addresses = [], []
    except ValueError as error:
        raise ValueError(f"--certificate {file}: cannot be read: {error}") from error
    if not names and not addresses:
        raise ValueError(
            f"--certificate {file}: has no subject alternative names, and clients check nothing else; "
            "have one made with the server's names, as `openssl req -addext subjectAltName=DNS:HOST` does"
        )
    return (*(name.lower() for name in names if "*" not in name), *addresses)
