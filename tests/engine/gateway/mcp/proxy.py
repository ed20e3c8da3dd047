"""A network between a server and its clients that can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from ..served import Served


class Proxy:
    """Forwards bytes to a local port, and can hold them or cut the connections."""

    def __init__(self) -> None:
        self.target = 0
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"ws://{self.name}"

    def cut(self) -> None:
        """Break every connection without a closing message."""
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Stop forwarding bytes."""
        self._open.clear()

    def let_go(self) -> None:
        """Forward held and later bytes."""
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client's connection."""
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, back}
        self._writers |= pair
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def proxy() -> AsyncGenerator[Proxy, None]:
    """Yield a network that ends with the block."""
    made = Proxy()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.let_go()
        made.cut()
        listening.close()


def through(network: Proxy, server: Served) -> None:
    """Set the server as the network's target."""
    network.target = server.address.port
