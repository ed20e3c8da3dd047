"""While a session does not know of a failed commit yet, it records nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.engine.agents import C, T
from interlock.engine.history.journal.journal import JournalError
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    EventBody,
    MessageAdded,
    NetToggled,
    SessionStatus,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.net.net import ToolCall
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.hosted import HostedSession
from interlock.rules import compile_rules

from ..support.approval_world import turns
from ..support.shop import Shop, bodies, bot, check, start, until
from ..support.stepwise import Clock, StepwiseJournal

RM = ToolCall("c1", "rm", {})
NOTE = SessionStatus(status="idle")


@pytest.fixture
async def journal(tmp_path: Path) -> StepwiseJournal:
    return StepwiseJournal.open(tmp_path / "hub.db", clock=Clock()).quick([0])


@pytest.fixture
async def hub(journal: StepwiseJournal) -> AsyncIterator[Hub]:
    hub = Hub(journal)
    yield hub
    journal.refuse = 0
    async with asyncio.timeout(20):
        await hub.close()


async def idle(hub: Hub, shop: Shop) -> tuple[str, HostedSession]:
    """An idle session in which `rm` is blocked, and its host."""
    session = await hub.open_session(
        bot(shop, T("hello")), SessionConfig(compile_rules("block rm").registry)
    )
    return session, hub._live.get(session)[0]


async def loses(journal: StepwiseJournal) -> None:
    """Wait until the next commit has failed; the session learns of that only later."""
    await turns(4)
    assert (journal.refuse, journal.waiting) == (0, True)


def handed(hosted: HostedSession, journal: StepwiseJournal, *lost: EventBody) -> asyncio.Future[None]:
    """Hand over events that will be lost, with a delayed report of the failure."""
    journal.refuse = 1
    journal.quick([0], [30, 0])
    return hosted.hand_over(*lost)


class TestGoingOn:
    async def test_change_based_on_stale_record_is_refused(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """A change based on a record is refused if another writer has added events since."""
        session, hosted = await idle(hub, shop)
        last = hosted.state.seq
        hosted.ledger.follow(last)
        await journal.append(session, NOTE)
        with pytest.raises(JournalError, match=f"has newer events than event {last}"):
            hosted.hand_over(NOTE)
        hub._live._hosted.clear()

    async def test_session_lacking_a_recorded_event_records_nothing(self, hub: Hub, shop: Shop) -> None:
        """A session that lacks a recorded event records nothing more and must be resumed."""
        session, hosted = await idle(hub, shop)
        last = hosted.state.seq
        await hub._journal.append(session, NOTE)
        with pytest.raises(JournalError, match=f"newer events than event {last}"):
            await hosted.record(NOTE)
        assert hosted.ledger.is_behind
        assert hub._journal.reader().session(session, whole=True).events == last + 1
        hub._live._hosted.clear()


class TestDecisions:
    async def test_call_decided_after_lost_switch_is_blocked(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """G-15, G-63: a call decided after a switch was lost, but before that is known, is blocked and
        not recorded.

        Afterwards the gate has its former state, and the next attempt works.
        """
        session, hosted = await idle(hub, shop)
        journal.refuse = 1
        journal.quick([0], [30, 0])
        switching = asyncio.ensure_future(
            hub.toggle_net(session, "block-rm", False, by="ada", reason="a test")
        )
        await loses(journal)
        decision = await hosted.decide(RM)
        assert decision.block
        assert decision.reason is not None
        assert "nothing that depends on it was recorded" in decision.reason
        assert not (await switching).ok
        assert bodies(hub, session, CallDecided) == bodies(hub, session, NetToggled) == []
        blocked = await hosted.decide(RM)
        assert (blocked.outcome, blocked.net) == ("block", "block-rm")
        await check(hub, session)
        assert (await hub.toggle_net(session, "block-rm", False, by="ada", reason="a test")).ok
        assert (await hosted.decide(ToolCall("c2", "rm", {}))).outcome == "allow"
        await check(hub, session)

    async def test_restored_gate_has_the_state_after_the_switch(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """G-63: if a decision cannot be recorded while a switch is being written, the gate is restored to
        the journal's state after the switch."""
        session, hosted = await idle(hub, shop)
        await hub.toggle_net(session, "block-rm", False, by="ada", reason="a test")
        journal.quick([20])
        switching = asyncio.ensure_future(hub.toggle_net(session, "block-rm", True, by="ada"))
        await turns(3)
        unwritable = await hosted.decide(ToolCall("c1", "deploy", {"env": "\ud800"}))
        assert unwritable.block
        blocked = await hosted.decide(RM)
        assert (blocked.outcome, blocked.net) == ("block", "block-rm")
        assert (await switching).ok
        await check(hub, session)


class TestPeople:
    async def test_answer_is_refused_until_loss_is_known(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """G-15: an answer in between is refused and the request stays open; the next answer counts."""
        events = hub.subscribe()
        rules = "require human-approval before deploy"
        session = await start(hub, shop, C(deploy={}), T("done"), rules=rules)
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        lost = handed(hub._live.get(session)[0], journal, NOTE)
        await loses(journal)
        refused = await hub.decide(request.id, approved=True, by="ada")
        assert not refused.ok
        assert "Try again" in refused.message
        with pytest.raises(JournalError, match="disk is full"):
            await lost
        assert [asked.id for asked in await hub.approvals()] == [request.id]
        assert shop.ran == bodies(hub, session, ApprovalDecided) == []
        assert (await hub.decide(request.id, approved=True, by="ada")).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        await check(hub, session)

    async def test_message_is_refused_until_loss_is_known(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """A-63: a message in between is refused; sent again afterwards, it is delivered."""
        session, hosted = await idle(hub, shop)
        lost = handed(hosted, journal, NOTE)
        await loses(journal)
        with pytest.raises(JournalError, match="depends on it"):
            await hub.send(session, "go", by="ada")
        with pytest.raises(JournalError, match="disk is full"):
            await lost
        await hub.send(session, "go", by="ada")
        await hub.wait(session)
        assert [m.text for m in bodies(hub, session, MessageAdded)] == ["go", "hello"]
        await check(hub, session)

    async def test_closing_waits_for_the_record_state(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """A-63: closing a session in between waits for the state of its record and then ends it."""
        session, hosted = await idle(hub, shop)
        lost = handed(hosted, journal, NOTE)
        await loses(journal)
        async with asyncio.timeout(20):
            await hub.close_session(session, by="ada")
        assert isinstance(lost.exception(), JournalError)
        assert [status.status for status in bodies(hub, session, SessionStatus)] == ["done"]
        assert await hub.sessions() == []

    async def test_other_sessions_continue(self, hub: Hub, shop: Shop, journal: StepwiseJournal) -> None:
        """G-63: another session, which lost nothing, is decided and recorded in between."""
        _, hosted = await idle(hub, shop)
        other, neighbour = await idle(hub, shop)
        lost = handed(hosted, journal, NOTE)
        await loses(journal)
        assert (await neighbour.decide(RM)).net == "block-rm"
        assert isinstance(lost.exception(), JournalError)
        assert [decided.net for decided in bodies(hub, other, CallDecided)] == ["block-rm"]


class TestHearing:
    async def test_waiters_resume_after_all_losses_are_known(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """G-63: a task waiting for the first of two lost events resumes when both are known as lost."""
        _, hosted = await idle(hub, shop)
        heard: list[object] = []
        journal.refuse = 1
        first = hosted.ledger.write(NOTE, on_written=heard.append)
        second = hosted.ledger.write(NOTE, on_written=heard.append)
        first.add_done_callback(lambda _: heard.append("goes on"))
        await asyncio.wait([first, second])
        assert heard == [False, False, "goes on"]
        assert isinstance(first.exception(), JournalError)
        assert isinstance(second.exception(), JournalError)
        await hosted.record(NOTE)

    async def test_cancelled_waiter_does_not_prevent_recording(
        self, hub: Hub, shop: Shop, journal: StepwiseJournal
    ) -> None:
        """G-63: an event that was handed over is recorded even if its waiter is cancelled."""
        session, hosted = await idle(hub, shop)
        heard: list[bool] = []
        hosted.ledger.write(NOTE, on_written=heard.append).cancel()
        await hosted.record()
        assert heard == [True]
        assert bodies(hub, session, SessionStatus) == [NOTE]
        await check(hub, session)
