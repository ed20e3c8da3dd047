"""What a request must show before anything is done for it, and what every answer tells the browser.

A page of somebody else may send requests here from the operator's browser, and its name may be made to
point here by DNS. So a request names one of this server's own addresses as Host, and whatever changes
something or opens a WebSocket names exactly the same one as Origin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from http import HTTPStatus

from multidict import CIMultiDictProxy

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Programs in the terminal may write to the clipboard, as in any other, and never read it.
    "Permissions-Policy": "clipboard-read=(), camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Server": "Interlock",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def refused(
    headers: CIMultiDictProxy[str], hosts: Collection[str], *, same_origin: bool
) -> HTTPStatus | None:
    """Why a request is not looked at, if it is not; `same_origin` where it has to come from our page."""
    given = headers.getall("Host", [])
    if len(given) != 1 or given[0] not in hosts:
        return HTTPStatus.MISDIRECTED_REQUEST
    if not same_origin:
        return None
    if headers.getall("Origin", []) != [f"http://{given[0]}"]:
        return HTTPStatus.FORBIDDEN
    return None if headers.get("Sec-Fetch-Site", "same-origin") == "same-origin" else HTTPStatus.FORBIDDEN


def hosts_of(port: int) -> frozenset[str]:
    """The names under which a server on loopback is reached from its own machine."""
    names = ("localhost", "127.0.0.1", "[::1]")
    return frozenset(name if port == 80 else f"{name}:{port}" for name in names)


def answer_headers(host: str, nonce: str | None = None) -> Mapping[str, str]:
    """What an answer carries. `host` is the name it was asked under; `nonce` admits style sheets."""
    styles = "'self'" if nonce is None else f"'self' 'nonce-{nonce}'"
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src {styles}",
        "font-src 'self'",
        "img-src 'self'",
        # Not every browser takes 'self' for WebSockets too.
        f"connect-src 'self' ws://{host}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {**_HEADERS, "Content-Security-Policy": "; ".join(policy)}
