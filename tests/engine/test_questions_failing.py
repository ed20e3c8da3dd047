"""Requests while the journal refuses to write: nothing runs unrecorded, and afterwards all goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.engine import questions, withdrawing
from interlock.engine.agents import C, T
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.encoded import Encoded
from interlock.engine.history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    EventBody,
    GrantGiven,
    GrantRevoked,
    MessageAdded,
    ModeChanged,
    NetToggled,
)
from interlock.engine.history.journal import Journal
from interlock.engine.history.state import ApprovalState
from interlock.engine.history.writer import Writer, Written
from interlock.engine.hub import Hub, Outcome
from tests.engine.shop import Shop, bodies, check, start, until

ASK = "require human-approval before deploy"
TWO = "require 2 human-approvals before deploy"
DEPLOYED = ["deploy staging"]


class Disk:
    """A disk that is full whenever an event of a certain kind is to be written."""

    def __init__(self) -> None:
        self.refuses: type[EventBody] | None = None
        self.times = 0
        self.refused = asyncio.Event()

    @contextmanager
    def full_for(self, kind: type[EventBody], times: int = 1000) -> Iterator[None]:
        self.refuses, self.times = kind, times
        self.refused.clear()
        try:
            yield
        finally:
            self.refuses = None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    loop = asyncio.get_event_loop_policy().get_event_loop()
    commit = Writer.commit

    def committed(writer: Writer, batch: list[Written]) -> None:
        kind = disk.refuses
        if kind is not None and disk.times and any(type(w.event.body) is kind for w in batch):
            disk.times -= 1
            loop.call_soon_threadsafe(disk.refused.set)
            raise OSError("no space left on device")
        commit(writer, batch)

    monkeypatch.setattr(Writer, "commit", committed)
    monkeypatch.setattr(questions, "RETRY", 0.01)
    monkeypatch.setattr(withdrawing, "RETRY", 0.01)
    return disk
