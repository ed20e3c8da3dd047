"""Reading a model's stream so that an abort can stop it between any two chunks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import cast

from .abort import AbortSignal
from .errors import ModelError
from .model import Chunk, Model, ModelRequest


async def stream_chunks(
    model: Model, request: ModelRequest, abort: AbortSignal
) -> AsyncGenerator[Chunk, None]:
    """The reply's chunks; ends early when aborted. Raises what the model raises.

    One task drives the model's generator from first to last, as cancel scopes inside it require, and is
    never more than one chunk ahead of who listens (A-30).
    """
    channel = _Channel()
    pump = asyncio.ensure_future(_pump(model, request, channel))
    pump.add_done_callback(lambda _: channel.wake())
    forget = abort.on_abort(pump.cancel)
    try:
        while not abort.aborted:
            if channel.chunks:
                yield channel.take()
            elif pump.done():
                break
            else:
                await channel.arrived()
        if not abort.aborted:
            if pump.cancelled():
                raise ModelError(f"{model.name}: the reply was cancelled")
            pump.result()
    finally:
        forget()
        pump.cancel()
        await asyncio.wait({pump})
        if not pump.cancelled():
            pump.exception()


class _Channel:
    """A queue of one chunk that also wakes its reader when nothing more will come."""

    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque()
        self._ready = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self._room.clear()
        self._ready.set()
        await self._room.wait()

    def take(self) -> Chunk:
        self._room.set()
        return self.chunks.popleft()

    def wake(self) -> None:
        self._ready.set()

    async def arrived(self) -> None:
        self._ready.clear()
        await self._ready.wait()


async def _pump(model: Model, request: ModelRequest, channel: _Channel) -> None:
    chunks: AsyncIterator[Chunk] = model.stream(request)
    try:
        async for chunk in chunks:
            await channel.put(chunk)
    finally:
        close = cast("Callable[[], Awaitable[None]] | None", getattr(chunks, "aclose", None))
        if close is not None:
            await close()
