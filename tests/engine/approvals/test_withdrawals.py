"""Withdrawals that the journal refuses: tried again, but where another server has the session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.engine.approvals.withdrawals import Tasks, Withdrawals
from interlock.engine.history.errors import JournalError, ServerEnded
from interlock.engine.history.fold.fold import new_state
from interlock.engine.history.model.events import EventBody


class Host:
    """A session whose journal refuses everything with `error`."""

    id = "s"

    def __init__(self, error: JournalError) -> None:
        self.state = new_state("s")
        self._error = error

    async def record(self, *bodies: EventBody, on_written: Callable[[bool], None] | None = None) -> None:
        raise self._error

    def hand_over(self, *bodies: EventBody) -> None:
        raise self._error

    def end_reason(self, call_id: str) -> str:
        return "its client has gone"


@pytest.mark.parametrize(
    ("error", "again", "traces"),
    [(JournalError("the disk is full"), True, True), (ServerEnded("its lease is over"), False, False)],
)
async def test_a_refused_withdrawal(
    error: JournalError, again: bool, traces: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that was ended has nothing more to withdraw, and its log says so without a traceback."""
    withdrawals = Withdrawals(Host(error), Tasks(), ())
    await withdrawals.withdraw("a1", "c1", "its client has gone")
    assert [*withdrawals._retries] == (["a1"] if again else [])
    assert any(record.exc_info for record in caplog.records) is traces
    for timer in withdrawals._retries.values():
        timer.cancel()
