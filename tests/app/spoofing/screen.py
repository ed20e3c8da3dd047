"""A program on a pseudo-terminal of fixed size: its bytes, and the screen that they produce."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyte
from pyte.screens import wcwidth

CSI = re.compile(r"\x1b\[([<=>?!]?[0-9;:]*[ $\"']?)([@-~])")
OSC = re.compile(r"\x1b\]([^\x1b\x07]*)(?:\x1b\\|\x07)")
TOKEN = re.compile(rf"{CSI.pattern}|{OSC.pattern}|(\x1b.?)|([^\x1b]+)", re.DOTALL)
DRAWN = frozenset("HJKABCDGdLMPX@r")
"""Final bytes of sequences that put or remove text. The screen model ignores all others."""


@dataclass(frozen=True)
class Meant:
    """The screen that a program intends: its lines, its frames, and the screen's name."""

    screen: str
    rows: list[str]
    frames: list[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Sent:
    """The output of a program: the final bytes of its sequences, its titles, and its text."""

    sequences: frozenset[str]
    commands: tuple[str, ...]
    others: tuple[str, ...]
    text: str


def parsed(stream: str) -> Sent:
    """Split a stream into its parts, without loss."""
    sequences: set[str] = set()
    commands: list[str] = []
    others: list[str] = []
    text: list[str] = []
    for found in TOKEN.finditer(stream):
        parameters, final, command, other, plain = found.groups()
        if final is not None:
            private = parameters[:1] if parameters[:1] in ("<", "=", ">", "?", "!") else ""
            sequences.add(private + final)
        elif command is not None:
            commands.append(command)
        elif other is not None:
            others.append(other)
        else:
            text.append(plain)
    return Sent(frozenset(sequences), tuple(commands), tuple(others), "".join(text))


def unmarked(text: str) -> str:
    """A text without zero-width characters."""
    return "".join(c for c in text if c < " " or wcwidth(c) != 0)


class ScreenOf:
    """A child process on a pty, with the screen that a terminal would show."""

    def __init__(self, command: Sequence[str], *, columns: int = 100, rows: int = 30) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.environ.update(
                TERM="xterm-256color", COLUMNS=str(columns), LINES=str(rows), LANG="C.UTF-8"
            )
            os.environ.pop("NO_COLOR", None)
            os.execvp(command[0], list(command))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._model = pyte.Screen(columns, rows)
        self._feed = pyte.Stream(self._model)
        self._bytes = b""
        self._fed = 0

    def __enter__(self) -> ScreenOf:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pid:
            os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    @property
    def stream(self) -> str:
        """All complete sequences and letters of the output. Raises `UnicodeDecodeError` if not UTF-8."""
        return self._bytes[: self._fed].decode()

    def rows(self) -> list[str]:
        """The screen's lines, without zero-width characters."""
        return self._model.display

    def cell(self, x: int, y: int) -> str:
        """The content of a cell, empty for the second cell of a wide character."""
        return self._model.buffer[y][x].data

    def send(self, keys: str) -> None:
        """Type these keys."""
        os.write(self._fd, keys.encode())

    def read(self, seconds: float) -> bool:
        """Read for at most so many seconds. Tell whether the program still runs."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return True
        try:
            self._bytes += os.read(self._fd, 1 << 16)
        except OSError:
            return False
        self._draw()
        return True

    def _draw(self) -> None:
        """Feed the model the complete sequences that draw."""
        stream = self._bytes[self._fed :].decode(errors="ignore")
        last = max(0, stream.rfind("\x1b"))
        whole = CSI.match(stream, last) or OSC.match(stream, last) or stream[last : last + 1] != "\x1b"
        cut = len(stream) if whole else last
        for found in TOKEN.finditer(stream[:cut]):
            plain, final = found[5], found[2]
            if plain is not None:
                # The model loses text after some marks; other tests check where marks may be.
                self._feed.feed(unmarked(plain))
            elif final in DRAWN:
                self._feed.feed(found[0])
        self._fed += len(stream[:cut].encode())

    def until(self, text: str, *, seconds: float = 40.0) -> None:
        """Wait until the screen shows `text`. Raises `TimeoutError`."""
        deadline = time.monotonic() + seconds
        while text not in "\n".join(self.rows()):
            if time.monotonic() > deadline or not self.read(0.2):
                raise TimeoutError(f"{text!r} was not shown:\n" + "\n".join(self.rows()))

    def meant(self, folder: Path, screen: str, *, seconds: float = 40.0) -> Meant:
        """Wait until the program intends `screen` and the terminal shows it; return what it intends.

        Raises `AssertionError` with the differences if this does not happen.
        """
        deadline = time.monotonic() + seconds
        path = folder / "meant.json"
        wanted: list[str] = []
        there = ""
        while time.monotonic() < deadline:
            path.unlink(missing_ok=True)
            (folder / "asked").touch()
            while not path.exists() and time.monotonic() < deadline:
                self.read(0.05)
            told = Meant(**json.loads(path.read_text()))
            wanted, there = [unmarked(row) for row in told.rows], told.screen
            for _ in range(20):
                if there == screen and wanted == self.rows():
                    return told
                self.read(0.02)
        wrong = [
            f"{number}: meant {a!r}\n    shows {b!r}"
            for number, (a, b) in enumerate(zip(wanted, self.rows(), strict=False))
            if a != b
        ]
        raise AssertionError("\n".join([f"expected {screen}, is {there}", *wrong]))

    def wait_for_end(self, *, seconds: float = 40.0) -> int:
        """The exit code after the program has ended. Raises `TimeoutError`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read(0.05)
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                self._pid = 0
                return os.waitstatus_to_exitcode(status)
        raise TimeoutError(f"still running after {seconds} s")
