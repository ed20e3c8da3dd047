"""Lines of this process's own stdin and stdout: pipes, sockets, files or a terminal.

Threads read and write them and may block on a full pipe or a silent client: neither the loop nor the end
of the process waits for these threads.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import AsyncGenerator
from typing import Final

CHUNK: Final = 1 << 16
LONGEST: Final = 32 << 20
"""Size of the longest line that a client may send, in bytes."""


class Lines:
    """Splits chunks of bytes into lines with their ends; a line that is too long yields one `None`."""

    def __init__(self, longest: int | None = None) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines completed by `chunk`."""
        lines: list[bytes | None] = []
        *complete, tail = chunk.split(b"\n")
        for each in complete:
            self._keep(each + b"\n")
            lines.append(self._take_line())
        if tail:
            self._keep(tail)
        return lines

    def end(self) -> list[bytes | None]:
        """Return the last line, if it has no end."""
        return [self._take_line()] if self._size else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._longest is not None and self._size > self._longest:
            self._parts.clear()
        else:
            self._parts.append(part)

    def _take_line(self) -> bytes | None:
        too_long = self._longest is not None and self._size > self._longest
        line = None if too_long else b"".join(self._parts)
        self._parts, self._size = [], 0
        return line


async def lines_of(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """Yield the lines of a child's stdout."""
    lines = Lines()
    while chunk := await reader.read(CHUNK):
        for line in lines.feed(chunk):
            assert line is not None
            yield line
    for line in lines.end():
        assert line is not None
        yield line


async def own_lines(descriptor: int = 0) -> AsyncGenerator[bytes | None]:
    """Yield the lines of this process's stdin; `None` for one longer than `LONGEST`."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(4)

    def read() -> None:
        while True:
            try:
                chunk = os.read(descriptor, CHUNK)
            except OSError:
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
            except (RuntimeError, asyncio.CancelledError):
                return
            if not chunk:
                return

    threading.Thread(target=read, daemon=True, name="stdin").start()
    lines = Lines(LONGEST)
    while chunk := await chunks.get():
        for line in lines.feed(chunk):
            yield line
    for line in lines.end():
        yield line


class OwnOutput:
    """This process's stdout. `closed` is set after its reader has closed it."""

    def __init__(self, descriptor: int = 1) -> None:
        self.closed = asyncio.Event()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True, name="stdout").start()

    async def send(self, line: bytes) -> None:
        """Write a whole line; write nothing after the reader has closed."""
        if not self.closed.is_set():
            completion: asyncio.Future[None] = self._loop.create_future()
            self._lines.put((line, completion))
            await asyncio.shield(completion)

    async def wait_closed(self) -> None:
        """Wait until the reader has closed."""
        await self.closed.wait()

    def _write(self) -> None:
        while True:
            line, completion = self._lines.get()
            remaining = memoryview(line)
            try:
                while remaining:
                    remaining = remaining[os.write(self._descriptor, remaining) :]
            except OSError:
                on_written = self._close
            else:
                on_written = _finish
            try:
                self._loop.call_soon_threadsafe(on_written, completion)
            except RuntimeError:
                return

    def _close(self, completion: asyncio.Future[None]) -> None:
        self.closed.set()
        _finish(completion)


def _finish(completion: asyncio.Future[None]) -> None:
    if not completion.done():
        completion.set_result(None)
