"""State of a journal's files after the last write; only its writer may change them while it runs."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from .file_schema import connect_readonly
from .schema import name_of


class FileState(NamedTuple):
    """Identity, size and times of a file, in nanoseconds; they change when it is replaced or written."""

    device: int
    inode: int
    size: int
    written: int
    changed: int
    """Time of the last change to the file's content, name, owner or times. Programs cannot set it."""


class Footprint(NamedTuple):
    """A journal's database and its write-ahead log; `None` for a file that does not exist."""

    database: FileState | None
    log: FileState | None

    @classmethod
    def of(cls, path: Path) -> Footprint:
        """Read the footprint of the journal at `path`. Runs around every commit, so it must be fast."""
        database = os.fspath(path)
        return cls(_state(database), _state(f"{database}-wal"))

    def same_file(self, other: Footprint) -> bool:
        """Return whether both are of the same database file, whatever was written to it."""
        return _identity(self.database) == _identity(other.database)


def disturbance(path: Path, last: Footprint, found: Footprint) -> str | None:
    """Describe the change to the journal at `path` since its writer took `last`; `None` if harmless.

    If only the owner or the links may have changed, the whole file is checked, because modification times
    can be set back. As root, SQLite sets the owner of a log that it opens, here as well. Callers must
    take the footprint again after this, or every commit checks the whole file.
    """
    fault = _difference(last, found)
    if fault is not None or last == found:
        return fault
    return _fault(path) or _difference(found, Footprint.of(path))


def _difference(last: Footprint, footprint: Footprint) -> str | None:
    for what, before, now in (
        ("file", last.database, footprint.database),
        ("write-ahead log", last.log, footprint.log),
    ):
        if _identity(before) != _identity(now):
            return f"its {what} was moved, deleted or replaced"
        if before is not None and now is not None and before[:4] != now[:4]:
            how = "cut off" if now.size < before.size else "changed by another program"
            return f"its {what} was {how}"
    return None


def _fault(path: Path) -> str | None:
    try:
        with closing(connect_readonly(path)) as connection:
            problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        problem = str(error)
    return None if problem == "ok" else f"its file was damaged: {problem}"


def remedy(path: Path) -> str:
    """Return the remedy for a journal that another program changed."""
    return (
        "Nothing more is recorded or allowed. Stop this process, check the journal "
        f"(interlock history --db {name_of(path)} verify), restore a copy if necessary, and start again."
    )


def _identity(state: FileState | None) -> tuple[int, int] | None:
    return None if state is None else (state.device, state.inode)


def _state(path: str) -> FileState | None:
    try:
        status = os.stat(path)  # `Path.stat` is several times slower
    except OSError:
        return None
    return FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
