"""Long-running work in its own thread, with progress reports."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Generic, TypeVar

EVERY = 1 / 8
"""Seconds between two parts."""

T = TypeVar("T")


class ProgressStream(Generic[T]):
    """Progress parts of such work. Without a listener nothing more is reported, and the work ends."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        """Set when nobody is listening any more."""
        self._loop = asyncio.get_running_loop()
        self._parts: asyncio.Queue[T | Exception | None] = asyncio.Queue()
        self._last = time.monotonic()

    def due(self) -> bool:
        """True if it is time for another part: the last was taken, and some time has passed."""
        return time.monotonic() - self._last >= EVERY and self._parts.empty()

    def tell(self, part: T) -> None:
        """Pass a part on."""
        self._last = time.monotonic()
        self._send(part)

    def _send(self, part: T | Exception | None) -> None:
        if not self.stop.is_set():
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._parts.put_nowait, part)

    def run(self, work: Callable[[ProgressStream[T]], None]) -> None:
        """Do the work; runs in the thread."""
        try:
            work(self)
        except Exception as error:
            self._send(error)
        else:
            self._send(None)

    async def take(self) -> T | None:
        """The next part, `None` at the end. Raises what the work raised."""
        part = await self._parts.get()
        if isinstance(part, Exception):
            raise part
        return part


async def stream_progress(work: Callable[[ProgressStream[T]], None]) -> AsyncGenerator[T, None]:
    """The parts of `work`, as they come; closing the generator ends the work soon.

    The work has its own thread, because the loop's threads are for short work.
    """
    parts: ProgressStream[T] = ProgressStream()
    threading.Thread(target=parts.run, args=(work,), name="progress", daemon=True).start()
    try:
        while (part := await parts.take()) is not None:
            yield part
    finally:
        parts.stop.set()
