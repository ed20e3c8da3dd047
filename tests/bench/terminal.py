"""A program in a real pseudo-terminal, and the time at which a text appears on it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, Queue
from types import TracebackType

from ..support.terminal_grid import TerminalGrid

SWITCH = 0.0005
"""Interval in seconds at which the reading thread gets its turn: the maximum error of its times."""


class Terminal:
    """A child process on its own pty; reads what the process paints."""

    def __init__(self, command: Sequence[str], *, columns: int = 120, rows: int = 40) -> None:
        self.started = time.monotonic()
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.environ["COLUMNS"], os.environ["LINES"] = str(columns), str(rows)
            os.execvp(command[0], list(command))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._seen = b""
        self._painted = 0.0
        self._pieces: Queue[tuple[float, bytes]] = Queue()
        sys.setswitchinterval(SWITCH)
        threading.Thread(target=self._read, daemon=True).start()
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
        """Type keys."""
        os.write(self._fd, keys.encode())

    def lines(self) -> list[str]:
        """Return the lines on screen after everything read so far."""
        self._take(self._seen)
        return [*self._grid.lines()]

    def _take(self, written: bytes) -> None:
        """Fill the grid with this output; later output stays unprocessed."""
        self._grid.take(written.decode(errors="replace"))
        self._seen = self._seen[len(written) :]

    def count_bytes(self, seconds: float) -> int:
        """Return the number of bytes that the program writes within `seconds`."""
        deadline = time.monotonic() + seconds
        written = 0
        while (left := deadline - time.monotonic()) > 0:
            piece = self._next(left)
            written += 0 if piece is None else len(piece[1])
        return written

    def wait_for_end(self, *, seconds: float = 20.0) -> int:
        """Wait until the program has ended; return its exit code. Raises `TimeoutError`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                self._pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        raise TimeoutError(f"still running after {seconds} s")

    def _read(self) -> None:
        """Read the program's output, each piece with the time at which it arrived.

        This runs in a separate thread, because processing a piece takes longer than the program needs for
        the next.
        """
        with suppress(OSError):
            while written := os.read(self._fd, 1 << 16):
                self._pieces.put((time.monotonic(), written))
        self._pieces.put((time.monotonic(), b""))

    def _next(self, seconds: float) -> tuple[float, bytes] | None:
        """Return the next piece and its time; `None` if there is none in time, or no more."""
        try:
            piece = self._pieces.get(timeout=max(0.0, seconds))
        except Empty:
            return None
        return piece if piece[1] else None

    def wait_for(self, text: str, *, seconds: float = 20.0) -> float:
        """Return the monotonic time at which `text` was painted since the last call, or was on screen.

        Only changed cells are written, so a new text may be incomplete in the output. Raises
        `TimeoutError` with what was painted instead.
        """
        wanted = text.encode()
        deadline = time.monotonic() + seconds
        if wanted in self._seen:  # In the piece that ended the last call.
            self._take(self._seen.partition(wanted)[0] + wanted)
            return self._painted
        while time.monotonic() < deadline:
            piece = self._next(deadline - time.monotonic())
            if piece is None:
                break
            painted, written = piece
            self._painted = painted
            self._seen += written
            if wanted in self._seen:
                self._take(self._seen.partition(wanted)[0] + wanted)
                return painted
            self._take(self._seen[: max(0, self._seen.rfind(b"\x1b"))])
            if any(text in line for line in self._grid.lines()):
                return painted
        raise TimeoutError(f"{text!r} was not painted within {seconds} s; last: {self._seen[-300:]!r}")

    def wait_until_shown(self, text: str, *, seconds: float = 20.0) -> None:
        """Wait until `text` is on the screen, whenever it was painted. Raises `TimeoutError`."""
        deadline = time.monotonic() + seconds
        while True:
            self._take(self._seen[: max(0, self._seen.rfind(b"\x1b"))])
            if any(text in line for line in self._grid.lines()):
                return
            piece = self._next(deadline - time.monotonic())
            if piece is None:
                lines = "\n".join(self._grid.lines())
                raise TimeoutError(f"{text!r} is not shown after {seconds} s:\n{lines}")
            self._painted = piece[0]
            self._seen += piece[1]
