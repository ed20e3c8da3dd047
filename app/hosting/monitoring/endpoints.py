"""HTTP endpoints for monitoring: `/metrics`, and the probes `/healthz` and `/readyz`.

Metrics include names of rules. On a network address they require an operator's token; on a local address
they need none, but are refused to pages in a browser. The probes need no token, and reveal nothing about
the server's content.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from ....engine.gateway.protocol.address import Address
from ....engine.gateway.protocol.tokens import TokenError, TokenFile
from ....engine.gateway.server.limits import Failures, Limits
from ....engine.hub.hub import Hub
from ..certificate import Certificate
from ..http_connections import admit
from ..http_listener import listening
from .metrics import Metrics

WITHIN = 5.0
"""A ready server wrote its journal within this many seconds."""
LARGEST = 1 << 16
"""Maximum bytes of a request; these requests have no body."""
MOST_FAILURES = 20
"""Refused tokens per minute and address before further attempts are refused."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
NEEDED = "An operator's token is needed: Authorization: Bearer TOKEN\n"


class Endpoints:
    """The endpoints at one address."""

    title = "metrics"
    path = "/metrics"

    def __init__(self, hub: Hub, metrics: Metrics, tokens: TokenFile, address: Address) -> None:
        self._hub = hub
        self._metrics = metrics
        self._tokens = tokens
        self._address = address
        self._failures = Failures(MOST_FAILURES)

    def listens_at(self, address: Address) -> None:
        """Set the address, with its port."""
        self._address = address

    def routes(self) -> list[web.RouteDef]:
        """Return the three paths."""
        return [
            web.get("/metrics", self._show_metrics),
            web.get("/healthz", self._show_health),
            web.get("/readyz", self._show_readiness),
        ]

    async def _show_metrics(self, request: web.Request) -> web.Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        admit(request)
        return web.Response(body=self._metrics.text(), headers={"Content-Type": TEXT})

    async def _show_health(self, request: web.Request) -> web.Response:
        return _answer(HTTPStatus.OK, "ok\n")

    async def _show_readiness(self, request: web.Request) -> web.Response:
        obstacle = await self._hub.obstacle(WITHIN)
        if obstacle is None:
            return _answer(HTTPStatus.OK, "ready\n")
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {obstacle}\n")

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self._address.is_local:
            # A host name that was made to resolve to this machine would let a page in a browser read the
            # metrics.
            host = request.headers.get("Host", "")
            own = f"{self._address}", f"localhost:{self._address.port}"
            if host.lower() not in own or "Origin" in request.headers:
                return _answer(HTTPStatus.MISDIRECTED_REQUEST, "This server is not known by that name\n")
            return None
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        peer = request.remote or ""
        try:
            found = self._tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        except TokenError:
            return _answer(HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot read its tokens\n")
        if found is not None and found.with_role(self._hub.operators) is not None and found.rights:
            return None
        if self._failures.too_many(peer):
            return _answer(HTTPStatus.TOO_MANY_REQUESTS, "Too many refused tokens; wait a minute\n")
        self._failures.note(peer)
        return _answer(HTTPStatus.UNAUTHORIZED, NEEDED)


def _answer(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers={"Cache-Control": "no-store"})


@asynccontextmanager
async def answering(
    hub: Hub,
    metrics: Metrics,
    tokens: TokenFile,
    address: Address,
    certificate: Certificate | None,
) -> AsyncGenerator[Address]:
    """While the context is open, answer at an address; yields the address, with the actual port for 0.

    Raises `ValueError` if it cannot listen there.
    """
    endpoints = Endpoints(hub, metrics, tokens, address)
    async with (
        metrics.watching(),
        listening(address, [endpoints], certificate, Limits(frame=LARGEST)) as where,
    ):
        yield where
