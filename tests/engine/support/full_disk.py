"""A disk that refuses what it is told to refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from psycopg.errors import DiskFull

from interlock.engine.history.journal.writer import Writer, Written
from interlock.engine.history.model.events import EventBody
from interlock.engine.history.postgres.writer import PostgresWriter
from tests.support.postgres import is_on


class Disk:
    """A disk that is full for events of one kind, once `after` of them were written."""

    def __init__(self) -> None:
        self.refuses: type[EventBody] | None = None
        self.after = 0
        self.refused = 0

    def full_for(self, kind: type[EventBody] | None, after: int = 0) -> None:
        self.refuses, self.after, self.refused = kind, after, 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()

    def refuse(batch: Sequence[Written]) -> None:
        if disk.refuses is not None and any(type(w.event.body) is disk.refuses for w in batch):
            if disk.after == 0:
                disk.refused += 1
                raise (
                    DiskFull("no space left on device") if is_on() else OSError("no space left on device")
                )
            disk.after -= 1

    before_commits(monkeypatch, refuse)
    return disk


def before_commits(monkeypatch: pytest.MonkeyPatch, look: Callable[[Sequence[Written]], None]) -> None:
    """Have `look` called with each batch that is to be written to a file or a database."""

    def looked(kind: type[Writer | PostgresWriter]) -> Callable[..., object]:
        commit = kind.commit

        def committed(writer: Any, batch: Sequence[Written]) -> object:
            look(batch)
            return commit(writer, batch)

        return committed

    for kind in (Writer, PostgresWriter):
        monkeypatch.setattr(kind, "commit", looked(kind))
