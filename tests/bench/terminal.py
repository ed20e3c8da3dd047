"""A program in a real pseudo-terminal, and the moment a text appears on it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from ..support.terminal_grid import TerminalGrid


PAUSE = 0.02
"""Seconds without anything written after which a program has painted what it had to."""
MOST_PIECES = 100


class Terminal:
    """A child process on a pty of its own; reads what it paints."""

    def __init__(self, command: Sequence[str], *, columns: int = 120, rows: int = 40) -> None:
        self.started = time.monotonic()
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.environ["COLUMNS"], os.environ["LINES"] = str(columns), str(rows)
            os.execvp(command[0], list(command))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._seen = b""
        self._grid = TerminalGrid()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pid:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._fd, keys.encode())

    def lines(self) -> list[str]:
        """The lines on screen once all that was read is painted."""
        self._take(self._seen)
        return [*self._grid.lines()]

    def _take(self, written: bytes) -> None:
        """Fill the grid with what was written; what follows is still to be seen."""
        self._grid.take(written.decode(errors="replace"))
        self._seen = self._seen[len(written) :]

    def count_bytes(self, seconds: float) -> int:
        """The number of bytes that the program writes within so many seconds."""
        deadline = time.monotonic() + seconds
        written = 0
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                written += len(os.read(self._fd, 1 << 16))
        return written

    def wait_for_end(self, *, seconds: float = 20.0) -> int:
        """The exit code, once the program has ended. Raises `TimeoutError`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                self._pid = 0
                return os.waitstatus_to_exitcode(status)
            if select.select([self._fd], [], [], 0.05)[0]:
                with suppress(OSError):
                    os.read(self._fd, 1 << 16)
        raise TimeoutError(f"still running after {seconds} s")

    def _read(self, seconds: float) -> list[tuple[float, bytes]]:
        """What the program writes until it pauses, in pieces, each with the time at which it came.

        To look at a piece takes longer than to write the next, which must not be seen too late for it.
        """
        pieces: list[tuple[float, bytes]] = []
        while select.select([self._fd], [], [], PAUSE if pieces else max(0.0, seconds))[0]:
            written = os.read(self._fd, 1 << 16)
            pieces.append((time.monotonic(), written))
            if len(pieces) == MOST_PIECES:
                break
        return pieces

    def wait_for(self, text: str, *, seconds: float = 20.0) -> float:
        """The monotonic time at which `text` had been painted since the last call, or stands there.

        Only cells that change are written: of a new text perhaps not all of it. Raises `TimeoutError`
        with what was painted instead.
        """
        wanted = text.encode()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pieces = self._read(deadline - time.monotonic())
            for number, (painted, written) in enumerate(pieces):
                self._seen += written
                whole = self._seen
                if wanted in whole:
                    self._take(whole.partition(wanted)[0] + wanted)
                else:
                    self._take(whole[: max(0, whole.rfind(b"\x1b"))])
                if wanted in whole or any(text in line for line in self._grid.lines()):
                    self._seen += b"".join(later for _, later in pieces[number + 1 :])
                    return painted
            if not pieces:
                break
        raise TimeoutError(f"{text!r} was not painted within {seconds} s; last: {self._seen[-300:]!r}")
