"""Journals in a file whose commits do less than the real ones, to tell what a commit costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from interlock.engine.core.clock import Clock
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.lock import WriteLock
from interlock.engine.history.journal.writer import Writer, Written


class Unsynced(Writer):
    """Writes as the real one and leaves it to the system when that is on the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._connection.execute("PRAGMA synchronous = OFF")


class Unwritten(Writer):
    """Says that it has written."""

    def commit(self, batch: Sequence[Written]) -> None:
        pass


WRITERS: Mapping[str, type[Writer]] = {"durable": Writer, "unsynced": Unsynced, "unwritten": Unwritten}


def journal_of(path: Path, writer: type[Writer]) -> Journal:
    """A journal whose commits are as `writer` makes them."""

    class Measured(Journal):
        def __init__(self, path: Path, lock: WriteLock, usual: Writer, clock: Clock) -> None:
            usual.close()
            super().__init__(path, lock, writer(path), clock)

    return Measured.open(path)
