"""URLs of a server: for consoles on its machine, and as other servers and their operators see it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import replace

from ...engine.gateway.protocol.address import Address

HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def local_url(address: Address, names: Sequence[str] | None) -> str:
    """Return the URL for consoles on this machine; with TLS, `names` are those of the certificate.

    An address such as 0.0.0.0 is none to connect to, and no certificate covers it.
    """
    if not _is_every_address(address):
        return _url(address, names)
    host = HERE.get(address.host, "127.0.0.1") if names is None else next(iter(names), _machine())
    return _url(replace(address, host=host), names)


def public_url(address: Address, names: Sequence[str] | None) -> str:
    """Return the URL that tells this server from others; see `local_url`.

    A server that listens on all addresses is told by the name of its machine.
    """
    if not _is_every_address(address):
        return _url(address, names)
    label = _machine().split(".")[0]
    host = next((each for each in names or () if each.split(".")[0] == label), _machine())
    return _url(replace(address, host=host), names)


def _machine() -> str:
    return socket.gethostname().lower()


def _is_every_address(address: Address) -> bool:
    if address.path is not None:
        return False
    try:
        return ipaddress.ip_address(address.host).is_unspecified
    except ValueError:
        return False


def _url(address: Address, names: Sequence[str] | None) -> str:
    return address.url if names is None else address.url.replace("ws://", "wss://")
