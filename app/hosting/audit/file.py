"""A stream to a file: each batch of lines is on disk before the next is accepted.

A file that was renamed or removed is closed and a new one opened, so `logrotate` needs no signal. A line
cut short by a crash is removed at start: its event is sent again.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ....engine.core.sanitize import visible
from ....engine.history.audit.stream import StreamLine
from .target import TargetError

BLOCK = 1 << 16
BEGINNINGS = (b'{"after":', b'{"action":', b'{"activity_id":')
"""Beginnings of lines; members are sorted by name."""
OTHER = "has lines that no stream wrote; name a separate file"

log = logging.getLogger(__name__)


class FileTarget:
    """A file of lines, readable only by its owner. One process at a time writes it."""

    most = 1 << 20
    largest: int | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self._writing = threading.Lock()
        self._closed = False

    def check(self) -> None:
        """See `Target`. Opens the file, and removes a line cut short by a crash."""
        self._opened()

    async def send(self, lines: Sequence[StreamLine]) -> None:
        """See `Target`."""
        self._closed = False
        data = b"".join(each.data + b"\n" for each in lines)
        await asyncio.to_thread(self._append, data)

    async def close(self) -> None:
        """See `Target`.

        If a thread is still writing to a slow disk, it closes the file when it has finished. Closing the
        descriptor earlier could let the thread write to another file that reuses its number.
        """
        self._closed = True
        self._close()

    def _close(self) -> None:
        if self._writing.acquire(blocking=False):
            try:
                handle, self._handle = self._handle, None
                if handle is not None:
                    os.close(handle)
            finally:
                self._writing.release()

    def _append(self, data: bytes) -> None:
        try:
            with self._writing:
                self._write(data)
        finally:
            if self._closed:
                self._close()

    def _write(self, data: bytes) -> None:
        handle = self._opened()
        size = os.fstat(handle).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(handle, data[written:])
            os.fsync(handle)
        except OSError as error:
            with suppress(OSError):  # a partial line that stays is removed at the next start
                if os.fstat(handle).st_size > size:
                    os.ftruncate(handle, size)
            raise self._error("cannot be written", error) from error

    def _opened(self) -> int:
        """Return a descriptor of the file with this name, reopened if the file was replaced.

        Raises `TargetError`.
        """
        if self._handle is not None:
            with suppress(OSError):
                if os.path.samestat(os.stat(self._path), os.fstat(self._handle)):
                    return self._handle
            os.close(self._handle)
            self._handle = None
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            handle = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise self._error("cannot be opened", error) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise TargetError(f"'{self._shown}' is not a regular file; name one")
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._repair(handle)
            self._sync_directory()
        except BlockingIOError as error:
            os.close(handle)
            raise TargetError(
                f"'{self._shown}' is written by another process; name a file for each"
            ) from error
        except OSError as error:
            os.close(handle)
            raise self._error("cannot be opened", error) from error
        except TargetError:
            os.close(handle)
            raise
        self._handle = handle
        return handle

    def _repair(self, handle: int) -> None:
        """Remove a last line cut short by a crash. Raises `TargetError` if the file has other content."""
        size = os.fstat(handle).st_size
        complete, line = _last_lines(handle, size)
        cut = line.rstrip(b"\0")  # data that had not reached the disk may read as zeros
        beginning = any(cut.startswith(each) or each.startswith(cut) for each in BEGINNINGS)
        if not beginning or not (complete is None or complete.startswith(BEGINNINGS)):
            raise TargetError(f"'{self._shown}' {OTHER}")
        if line:
            os.ftruncate(handle, size - len(line))
            os.fsync(handle)
            log.warning("a line of %d bytes in '%s' was cut short and is removed", len(line), self._shown)

    def _sync_directory(self) -> None:
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @property
    def _shown(self) -> str:
        return visible(str(self._path))

    def _error(self, what: str, error: OSError) -> TargetError:
        return TargetError(
            f"'{self._shown}' {what}: {error.strerror}. "
            "Check the path, the free space and the permissions"
        )


def _last_lines(handle: int, size: int) -> tuple[bytes | None, bytes]:
    """Return the last complete line of a file, if there is one, and the bytes after it."""
    tail, begin = b"", size
    while begin > 0 and tail.count(b"\n") < 2:
        begin = max(0, begin - BLOCK)
        tail = os.pread(handle, BLOCK if begin else size - len(tail), begin) + tail
    *before, rest = tail.split(b"\n")
    return (before[-1] if before else None), rest
