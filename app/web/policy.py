"""Checks of a request's headers before anything else, and the headers of every response.

A foreign page may send requests here from the operator's browser, and its name may be made to resolve to
this machine. So a request must name one of this server's own addresses as Host, and one that changes
something or opens a WebSocket must name exactly the same address as Origin.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from multidict import CIMultiDictProxy

from ...engine.gateway.protocol.address import Address, is_bare
from .logins import Login

LOGIN: web.RequestKey[Login] = web.RequestKey("login", Login)
"""Login of a request's cookie. It gives access to nothing until its key was proved."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Programs in the terminal may write to the clipboard, as in any terminal, but never read it.
    "Permissions-Policy": "clipboard-read=(), camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Server": "Interlock",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ANY_ADDRESS = ("0.0.0.0", "::")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ServerNames:
    """Names, with port, by which browsers reach a server, the first for links; `secure` if by TLS.

    With `any_address` also each address of the machine: no DNS record can make one of those point here.
    """

    hosts: tuple[str, ...]
    secure: bool = False
    any_address: bool = False

    @classmethod
    def at(
        cls, host: str, port: int, *, secure: bool = False, certified: Collection[str] = ()
    ) -> ServerNames:
        """Return the names of a server that listens on `host`.

        `certified` are the names in its certificate.
        """
        any_address = host in _ANY_ADDRESS
        own_name = socket.gethostname() if any_address else host
        # A browser rejects every other name. A name of this machine only leads to this machine.
        is_here = Address(host).is_local
        names = (own_name, *certified) if is_here or own_name in certified else (*certified, own_name)
        # Without a certificate a browser may reach somebody else by another name of this machine, and
        # prove to them the key of a login that was made under that name.
        sources = _LOOPBACK if secure else ()
        default = 443 if secure else 80
        hosts = [f"[{name}]" if ":" in name else name.lower() for name in (*names, *sources)]
        return cls(
            tuple(dict.fromkeys(each if port == default else f"{each}:{port}" for each in hosts)),
            secure,
            any_address=any_address,
        )

    @property
    def url(self) -> str:
        """Address that links lead to."""
        return self.page(self.hosts[0])

    def page(self, host: str) -> str:
        """Return the origin of a page that was requested under this name."""
        return f"{'https' if self.secure else 'http'}://{host}"

    def socket(self, host: str) -> str:
        """Return the origin for WebSockets of a page that was requested under this name."""
        return f"{'wss' if self.secure else 'ws'}://{host}"

    def includes(self, host: str) -> bool:
        """Return whether this server has such a name."""
        return host in self.hosts or (self.any_address and is_bare(host))


def find_refusal(
    headers: CIMultiDictProxy[str], names: ServerNames, *, same_origin: bool
) -> HTTPStatus | None:
    """Return the status that refuses a request, or `None`.

    With `same_origin` it must be from our own page.
    """
    hosts = headers.getall("Host", [])
    if len(hosts) != 1 or not names.includes(hosts[0]):
        return HTTPStatus.MISDIRECTED_REQUEST
    if not same_origin:
        return None
    if headers.getall("Origin", []) != [names.page(hosts[0])]:
        return HTTPStatus.FORBIDDEN
    return None if headers.get("Sec-Fetch-Site", "same-origin") == "same-origin" else HTTPStatus.FORBIDDEN


def is_phone(headers: CIMultiDictProxy[str]) -> bool:
    """Return whether a browser says that it is on a phone."""
    return headers.get("Sec-CH-UA-Mobile") == "?1" or "Mobi" in headers.get("User-Agent", "")


def answer_headers(sockets: str, nonce: str | None = None) -> Mapping[str, str]:
    """Return the headers of a response: pages may connect to `sockets`; `nonce` permits style sheets."""
    styles = "'self'" if nonce is None else f"'self' 'nonce-{nonce}'"
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src {styles}",
        "font-src 'self'",
        "img-src 'self'",
        "manifest-src 'self'",
        # Not every browser applies 'self' to WebSockets.
        f"connect-src 'self' {sockets}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {**_HEADERS, "Content-Security-Policy": "; ".join(policy)}
