"""Calls of external agents while the journal refuses to write: unrecorded calls are not answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.events import CallDecided, MessageAdded
from interlock.engine.hub.hub import CallWithdrawn, Hub

from ..support.external_agent import check_fold, opened, ran, recorded
from ..support.stepwise import StepwiseJournal


@pytest.fixture
async def journal(tmp_path: Path) -> StepwiseJournal:
    return cast("StepwiseJournal", StepwiseJournal.open(tmp_path / "hub.db")).quick([0])


@pytest.fixture
async def hub(journal: StepwiseJournal) -> AsyncIterator[Hub]:
    hub = Hub(journal)
    yield hub
    await hub.close()


class TestUnrecordedCall:
    """A call and its decision are recorded together or lost together."""

    async def test_is_not_answered_and_moves_nothing(self, hub: Hub, journal: StepwiseJournal) -> None:
        """G-15: neither the call nor its decision is recorded, and the nets keep their marking."""
        await opened(hub, "limit test to 1 per session")
        journal.refuse = 1
        with pytest.raises(JournalError, match="disk is full"):
            await hub.call("robin-1", "t", "test", {})
        assert recorded(hub.database, MessageAdded) == []
        assert recorded(hub.database, CallDecided) == []
        assert (await hub.call("robin-1", "t2", "test", {})).outcome == "allow"
        assert (await hub.call("robin-1", "t3", "test", {})).outcome == "block"
        await check_fold(hub)

    async def test_leaves_its_id_free(self, hub: Hub, journal: StepwiseJournal) -> None:
        """G-15: an unrecorded id can be used for another input."""
        await opened(hub)
        journal.refuse = 1
        with pytest.raises(JournalError):
            await hub.call("robin-1", "t", "test", {"fast": True})
        again = await hub.call("robin-1", "t", "test", {"fast": False})
        assert (again.outcome, again.repeated, again.input) == ("allow", False, {"fast": False})
        [call] = [call for message in recorded(hub.database, MessageAdded) for call in message.calls]
        assert call.input == {"fast": False}
        await check_fold(hub)

    async def test_is_neither_requested_nor_blocked(self, hub: Hub, journal: StepwiseJournal) -> None:
        """G-15: a call that could not be recorded is neither requested nor blocked."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        journal.refuse = 1
        with pytest.raises(JournalError):
            await hub.call("robin-1", "d", "deploy", {"env": "prod"})
        assert await hub.approvals() == []
        assert [decided.call_id for decided in recorded(hub.database, CallDecided)] == ["t"]
        again = asyncio.ensure_future(hub.call("robin-1", "d", "deploy", {"env": "staging"}))
        async with asyncio.timeout(20):
            while not (asked := await hub.approvals()):  # noqa: ASYNC110 - another task's state
                await asyncio.sleep(0)
        assert asked[0].input == {"env": "staging"}
        await hub.decide(asked[0].id, approved=True, by="ada")
        assert (await again).outcome == "allow"
        await check_fold(hub)

    @pytest.mark.parametrize("turns", range(8))
    async def test_withdrawn_unrecorded_call_ends(
        self, hub: Hub, journal: StepwiseJournal, turns: int
    ) -> None:
        """G-15: a call that is withdrawn while it cannot be recorded ends, in either order."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        journal.quick([turns % 3], [turns % 2])
        journal.refuse = 1
        asked = asyncio.ensure_future(hub.call("robin-1", "d", "deploy", {}))
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        withdrawn = asyncio.ensure_future(hub.withdraw_call("robin-1", "d", "timeout"))
        answers = await asyncio.gather(asked, withdrawn, return_exceptions=True)
        assert isinstance(answers[0], JournalError | CallWithdrawn)
        assert await hub.approvals() == []
        assert [decided.call_id for decided in recorded(hub.database, CallDecided)] == ["t"]
        await check_fold(hub)


class TestStop:
    @pytest.mark.parametrize("turns", range(10))
    @pytest.mark.parametrize("approved", [True, False])
    async def test_stop_during_an_answer_needs_no_retry(
        self, hub: Hub, journal: StepwiseJournal, turns: int, approved: bool
    ) -> None:
        """G-15: stopping while an answer is recorded blocks the call or comes too late; no retry is
        needed."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        call = asyncio.ensure_future(hub.call("robin-1", "d", "deploy", {"env": "prod"}))
        async with asyncio.timeout(20):
            while not (asked := await hub.approvals()):  # noqa: ASYNC110 - another task's state
                await asyncio.sleep(0)
        journal.quick([3], [3])
        deciding = asyncio.ensure_future(hub.decide(asked[0].id, approved=approved, by="mia"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await hub.abort("robin-1", "stopped by mia")
        await deciding
        decided = await call
        assert decided.outcome == "block" or (approved and decided.approved_by == ("mia",))
        assert await hub.approvals() == []
        [only] = [each for each in recorded(hub.database, CallDecided) if each.call_id == "d"]
        assert only.outcome == decided.outcome
        await check_fold(hub)


class TestTogether:
    """A call that is decided at once needs one commit."""

    async def test_call_and_decision_are_one_commit(
        self, hub: Hub, journal: StepwiseJournal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The call and its decision are in the same commit."""
        await opened(hub)
        batches: list[list[str]] = []
        commit = journal._writer.commit

        def committed(batch: list[object]) -> None:
            batches.append([each.event.body.type for each in batch])  # type: ignore[attr-defined]
            commit(batch)  # type: ignore[arg-type]

        monkeypatch.setattr(journal._writer, "commit", committed)
        await hub.call("robin-1", "t", "test", {})
        assert batches == [["message", "call.decided"]]
