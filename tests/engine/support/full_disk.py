"""A disk that refuses what it is told to refuse."""

from __future__ import annotations

import pytest

from interlock.engine.history.journal.writer import Writer, Written
from interlock.engine.history.model.events import EventBody


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
    commit = Writer.commit

    def committed(writer: Writer, batch: list[Written]) -> None:
        if disk.refuses is not None and any(type(w.event.body) is disk.refuses for w in batch):
            if disk.after == 0:
                disk.refused += 1
                raise OSError("no space left on device")
            disk.after -= 1
        commit(writer, batch)

    monkeypatch.setattr(Writer, "commit", committed)
    return disk
