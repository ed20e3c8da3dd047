"""The HTTP side of a server: parts with their own paths, one listener per address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, Protocol

from aiohttp import web

from ...engine.gateway.protocol.address import Address
from ...engine.gateway.server.limits import Limits
from .certificate import Certificate
from .http_connections import CONNECTIONS, HttpConnections

LINGERING: Final = 2.0
"""Seconds during which the unread rest of a body is received, so that the response arrives."""


class HttpPart(Protocol):
    """Paths for one purpose; `title` and `path` describe them to the operator who starts the server."""

    @property
    def title(self) -> str: ...

    @property
    def path(self) -> str: ...

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the paths with their handlers."""
        ...

    def listens_at(self, address: Address) -> None:
        """Set the address of these paths, with its port, before any client can connect."""
        ...


@asynccontextmanager
async def listening(
    address: Address, parts: Sequence[HttpPart], certificate: Certificate | None, limits: Limits
) -> AsyncGenerator[Address]:
    """While the context is open, answer at an address; yields the address, with the actual port for 0.

    Bodies are at most as large as a message. A part reports an admitted request with
    `http_connections.admit`; until then the connection belongs to a stranger. Raises `ValueError` if it
    cannot listen there, and for a Unix socket's path, which no client of these parts can reach.
    """
    if address.path is not None:
        raise ValueError(f"expected HOST:PORT, found '{address}'")
    application = web.Application(client_max_size=limits.frame)
    for part in parts:
        application.add_routes(part.routes())
    runner = web.AppRunner(
        application, access_log=None, handle_signals=False, lingering_time=min(LINGERING, limits.body)
    )
    connections = HttpConnections(lambda: _protocol(runner), limits)
    application[CONNECTIONS] = connections
    application.middlewares.append(connections.middleware())
    await runner.setup()
    server: asyncio.Server | None = None
    try:
        tls = None if certificate is None or address.is_local else certificate.tls
        try:
            server = await asyncio.get_running_loop().create_server(
                connections,
                address.host,
                address.port,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else limits.head,
            )
        except OSError as error:
            raise ValueError(f"cannot listen on {address}: {error.strerror or error}") from error
        port: int = server.sockets[0].getsockname()[1]
        where = replace(address, port=port)
        for part in parts:
            part.listens_at(where)
        yield where
    finally:
        if server is not None:
            server.close()
        await runner.cleanup()


def _protocol(runner: web.AppRunner) -> asyncio.Protocol:
    """Return the library's protocol for a connection, once the runner is set up."""
    assert runner.server is not None
    return runner.server()
