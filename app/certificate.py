"""The certificate that a server shows: TLS with it, and the names that it vouches for."""

from __future__ import annotations

import ssl
from pathlib import Path

from ..engine.gateway.address import Address


def server_tls(address: Address, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """TLS with the files given, `None` without any. Raises `ValueError`."""
    if certificate is not None and address.path is not None:
        raise ValueError("--certificate is for addresses; a unix: socket does not leave this machine")
    if certificate is None:
        if key is not None:
            raise ValueError("--key without --certificate")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Asks nobody for a password: nobody may be there.
        context.load_cert_chain(certificate.expanduser(), key and key.expanduser(), lambda: b"")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ValueError(f"--certificate {certificate}: cannot be used: {error}") from error
    return context


def names_in(certificate: Path) -> tuple[str, ...]:
    """The names and then the addresses that a certificate is for, but those that stand for several.

    Raises `ValueError`.
    """
    from cryptography import x509

    try:
        # The first in the file is the server's own; those that vouch for it come behind it.
        own = x509.load_pem_x509_certificates(certificate.expanduser().read_bytes())[0]
        said = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    except (OSError, ValueError) as error:
        raise ValueError(f"--certificate {certificate}: cannot be read: {error}") from error
    names = [name.lower() for name in said.get_values_for_type(x509.DNSName) if "*" not in name]
    return (*names, *map(str, said.get_values_for_type(x509.IPAddress)))
