"""The HTTP side of a server: parts with paths of their own, one listener for each address."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

from aiohttp import web

from ...engine.gateway.protocol.address import Address
from .certificate import Certificate


class HttpPart(Protocol):
    """Paths of one purpose; `title` and `path` say what is at its address, for whoever starts it."""

    @property
    def title(self) -> str: ...

    @property
    def path(self) -> str: ...

    def routes(self) -> Iterable[web.RouteDef]:
        """The paths with their handlers."""
        ...

    def listens_at(self, address: Address) -> None:
        """Note the address at which they are reached, with its port, before anybody can ask."""
        ...


@asynccontextmanager
async def listening(
    address: Address, parts: Sequence[HttpPart], certificate: Certificate | None, *, largest: int
) -> AsyncGenerator[Address]:
    """Answer at an address meanwhile; gives the address, with the port that was chosen for 0.

    Bodies are at most `largest` bytes. Raises `ValueError` where it cannot listen there, and for a path,
    which no client of these parts can reach.
    """
    if address.path is not None:
        raise ValueError(f"expected HOST:PORT, found '{address}'")
    application = web.Application(client_max_size=largest)
    for part in parts:
        application.add_routes(part.routes())
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        tls = None if certificate is None or address.is_local else certificate.tls
        site = web.TCPSite(runner, address.host, address.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise ValueError(f"cannot listen on {address}: {error.strerror or error}") from error
        port: int = runner.addresses[0][1]
        where = replace(address, port=port)
        for part in parts:
            part.listens_at(where)
        yield where
    finally:
        await runner.cleanup()
