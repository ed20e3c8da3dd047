"""Calls of external agents that the gate decides at once, without a waiting task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.events import CallDecided, MessageAdded
from interlock.engine.hub.hub import CallAnswer, CallIdUsed, Hub

from ..support.external_agent import check_fold, opened, recorded
from ..support.stepwise import StepwiseJournal

Told = list[CallAnswer | BaseException]


@pytest.fixture
async def journal(tmp_path: Path) -> StepwiseJournal:
    return cast("StepwiseJournal", StepwiseJournal.open(tmp_path / "hub.db")).quick([0])


@pytest.fixture
async def hub(journal: StepwiseJournal) -> AsyncIterator[Hub]:
    hub = Hub(journal)
    yield hub
    await hub.close()


async def wait_for_answers(told: Told, number: int) -> None:
    async with asyncio.timeout(20):
        while len(told) < number:  # noqa: ASYNC110 - another task's list
            await asyncio.sleep(0)


def submit_at_once(hub: Hub, call: str, tool: str, told: Told, **given: str) -> bool:
    """Submit a call that is decided at once; `told` gets its answer. Return false for other calls."""
    answer = hub._live.hosted("robin-1").calls.try_decide(call, tool, {**given})
    if not isinstance(answer, asyncio.Future):
        return False
    answer.add_done_callback(lambda done: told.append(done.exception() or done.result()))
    return True


class TestAtOnce:
    async def test_answer_follows_the_recorded_decision(self, hub: Hub) -> None:
        """G-15: the answer comes only once the record has the decision."""
        await opened(hub, "limit test to 1 per session")
        told: Told = []
        assert submit_at_once(hub, "t", "test", told)
        assert told == []
        await wait_for_answers(told, 1)
        assert [decided.call_id for decided in recorded(hub.database, CallDecided)] == ["t"]
        assert isinstance(told[0], CallAnswer)
        assert told[0].outcome == "allow"
        assert submit_at_once(hub, "t2", "test", told)
        await wait_for_answers(told, 2)
        assert isinstance(told[1], CallAnswer)
        assert told[1].outcome == "block"
        await check_fold(hub)

    async def test_call_needing_approval_leaves_no_trace(self, hub: Hub) -> None:
        """G-15: a call that needs approval leaves no trace until it is submitted as such."""
        await opened(hub, "require human-approval before deploy")
        told: Told = []
        assert not submit_at_once(hub, "d", "deploy", told)
        await hub.record_message("robin-1", "user", "hello")
        assert told == []
        assert recorded(hub.database, CallDecided) == []
        assert [message.text for message in recorded(hub.database, MessageAdded)] == ["hello"]
        assert await hub.approvals() == []
        waiting = asyncio.ensure_future(hub.call("robin-1", "d", "deploy", {}))
        async with asyncio.timeout(20):
            while not (asked := await hub.approvals()):  # noqa: ASYNC110 - another task's state
                await asyncio.sleep(0)
        await hub.decide(asked[0].id, approved=True, by="ada")
        assert (await waiting).outcome == "allow"
        await check_fold(hub)

    async def test_known_call_is_not_decided_again(self, hub: Hub) -> None:
        """A known call is not decided again, and its id is refused with another input."""
        await opened(hub, "limit test to 5 per session")
        told: Told = []
        assert submit_at_once(hub, "t", "test", told)
        assert not submit_at_once(hub, "t", "test", told)
        with pytest.raises(CallIdUsed):
            submit_at_once(hub, "t", "test", told, fast="yes")
        await wait_for_answers(told, 1)
        assert not submit_at_once(hub, "t", "test", told)
        with pytest.raises(CallIdUsed):
            submit_at_once(hub, "t", "test", told, fast="yes")
        assert len(told) == 1
        assert len(recorded(hub.database, CallDecided)) == 1

    async def test_lost_decision_loses_dependent_ones(self, hub: Hub, journal: StepwiseJournal) -> None:
        """G-15: if a decision is lost, so are those based on it, and later calls ignore them."""
        await opened(hub, "limit test to 2 per session")
        journal.refuse = 1
        told: Told = []
        for number in range(2):
            assert submit_at_once(hub, f"t{number}", "test", told)
        await wait_for_answers(told, 2)
        assert all(isinstance(each, JournalError) for each in told)
        assert recorded(hub.database, CallDecided) == []
        answers = [(await hub.call("robin-1", f"n{number}", "test", {})).outcome for number in range(3)]
        assert answers == ["allow", "allow", "block"]
        await check_fold(hub)
