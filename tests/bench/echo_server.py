"""A bare WebSocket server that echoes messages: the cost of the library without a gate."""

from __future__ import annotations

import sys

from websockets.asyncio.server import ServerConnection, serve

from .gateway_server import obeying, run


async def _echo(socket: ServerConnection) -> None:
    async for frame in socket:
        await socket.send(frame)


async def _main() -> None:
    async with serve(_echo, "127.0.0.1", 0, compression=None, server_header=None) as server:
        await obeying({"port": server.sockets[0].getsockname()[1]})


if __name__ == "__main__":
    run(_main(), sys.argv[1])
