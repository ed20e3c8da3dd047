"""Journals in a file whose commits do less than the real ones, to determine the cost of a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from interlock.engine.core.clock import Clock
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.lock import WriteLock
from interlock.engine.history.journal.writer import Writer, Written


class Unsynced(Writer):
    """Writes like the real one, but does not wait until the data is on disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._connection.execute("PRAGMA synchronous = OFF")


class Unwritten(Writer):
    """Reports success without writing."""

    def commit(self, batch: Sequence[Written]) -> None:
        pass


WRITERS: Mapping[str, type[Writer]] = {"durable": Writer, "unsynced": Unsynced, "unwritten": Unwritten}


def journal_of(path: Path, writer: type[Writer]) -> Journal:
    """Return a journal whose commits are done by `writer`."""

    class Measured(Journal):
        def __init__(self, path: Path, lock: WriteLock, usual: Writer, clock: Clock) -> None:
            usual.close()
            super().__init__(path, lock, writer(path), clock)

    return Measured.open(path)
