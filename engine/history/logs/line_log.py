"""Append-only logs of lines that belong to a journal as a whole.

They hold what is part of no session's record. For an SQLite file each is a file beside it; in PostgreSQL
it is rows of a table, to which several servers append.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal, TypeAlias

from ..database.location import Location, absolute
from ..journal.schema import name_of

LogName: TypeAlias = Literal["freeze", "keys"]
LOGS: tuple[LogName, ...] = ("freeze", "keys")


class LineLog(ABC):
    """A log of lines. Methods raise `OSError` if it cannot be read or written."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in messages."""

    @abstractmethod
    def read(self, most: int) -> bytes | None:
        """Return the last `most` bytes of its lines, with line ends; `None` if there is no log yet."""

    @abstractmethod
    def append(self, line: str) -> None:
        """Append a line; durable when this returns."""

    @abstractmethod
    def append_to(self, lines: int, line: str) -> bool:
        """Append a line if the log has `lines` lines; otherwise do nothing and return false.

        For a file the number is not checked: only the process that has its journal open appends to it.
        """

    @abstractmethod
    def has_grown(self, lines: int) -> bool:
        """Return whether others have appended to its first `lines` lines; nobody does so to a file."""


def line_log(journal: str | Location, log: LogName) -> LineLog:
    """Return the log of this name of a journal. Raises `JournalError` for an invalid location."""
    place = absolute(journal)
    if isinstance(place, Path):
        return FileLines(place.with_name(f"{place.name}.{log}"))
    from ..postgres.lines import PostgresLines

    return PostgresLines(place, log)


class FileLines(LineLog):
    """A log in a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return name_of(self.path)

    def read(self, most: int) -> bytes | None:
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
                return file.read()
        except FileNotFoundError:
            return None

    def append(self, line: str) -> None:
        append_line(self.path, line)

    def append_to(self, lines: int, line: str) -> bool:
        append_line(self.path, line)
        return True

    def has_grown(self, lines: int) -> bool:
        return False


def append_line(path: Path, line: str) -> None:
    """Append a line to a file that only its owner can read; durable when this returns.

    Raises `OSError`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        size = os.fstat(handle).st_size
        # Start a new line after one that a crash cut short.
        cut = size and os.pread(handle, 1, size - 1) != b"\n"
        data = (("\n" if cut else "") + line + "\n").encode()
        if os.write(handle, data) != len(data):
            raise OSError(f"only a part of a line was written to '{name_of(path)}'")
        os.fsync(handle)
    finally:
        os.close(handle)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
