"""Consoles in a separate process, which receive events and do nothing with them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from websockets.asyncio.client import ClientConnection

from .gateway_load import console
from .gateway_server import obeying, run


async def _read(socket: ClientConnection) -> None:
    async for _ in socket:
        pass


async def _main(port: int, token: str, number: int) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(number):
            socket = await stack.enter_async_context(console(port, token))
            reading = asyncio.create_task(_read(socket))
            stack.callback(reading.cancel)
        await obeying({"port": port})


if __name__ == "__main__":
    run(_main(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])), sys.argv[1])
