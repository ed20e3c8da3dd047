"""Grants that have ended stay ended after a restart, whatever the clock says (G-74)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import pytest

from interlock.engine.gate.conditions import Timekeeper
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, JournalEvent, MessageAdded
from interlock.engine.hub.hub import Hub
from interlock.engine.recording.resume_checks import latest_time
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.clock import Clock

from ..gateway.served import until
from ..support.external_agent import AGENT, check_fold, opened, resumed

ASK = "require human-approval before deploy"
NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)


async def call_and_approve(
    hub: Hub, session: str, call_id: str, *, grant: GrantTerms | None = None
) -> bool:
    """Make a call and approve a request, with a grant if given; return whether there was a request."""
    call = asyncio.ensure_future(hub.call(session, call_id, "deploy", {"env": "prod"}))
    asked = asyncio.ensure_future(until(hub.approvals))
    await asyncio.wait((call, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    requests = await hub.approvals()
    for request in requests:
        how = {} if grant is None else {"grant": grant, "reason": "often"}
        outcome = await hub.decide(request.id, approved=True, by="jo", digest=request.digest, **how)  # type: ignore[arg-type]
        assert outcome.ok, outcome.message
    assert (await asyncio.wait_for(call, 10)).outcome == "allow"
    return bool(requests)


class TestClockSetBack:
    @pytest.mark.parametrize("asked_after", [True, False])
    async def test_expired_grant_does_not_revive(self, tmp_path: Path, asked_after: bool) -> None:
        """A grant of a minute does not revive once the record has passed its minute."""
        clock = Clock(NOON)
        hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        session = await opened(hub, ASK)
        assert await call_and_approve(hub, session, "c1", grant=GrantTerms("names", seconds=60.0))
        clock.now += timedelta(seconds=30)
        assert not await call_and_approve(hub, session, "c2")
        clock.now += timedelta(seconds=120)
        if asked_after:
            assert await call_and_approve(hub, session, "c3")
        await hub.close_session(session, by="jo")
        await hub.close()
        for back in (timedelta(seconds=20), timedelta(seconds=-86_400)):
            clock.now = NOON + back
            hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
            await resumed(hub, session, ASK)
            assert await call_and_approve(hub, session, f"at {back}")
            await hub.close_session(session, by="jo")
            await hub.close()

    async def test_clock_set_back_does_not_extend_a_grant(self, tmp_path: Path) -> None:
        """A grant continues after a restart; a clock that was set back does not extend it."""
        clock = Clock(NOON)
        hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        session = await opened(hub, ASK)
        assert await call_and_approve(hub, session, "c1", grant=GrantTerms("names", seconds=60.0))
        clock.now += timedelta(seconds=50)
        assert not await call_and_approve(hub, session, "c2")
        await hub.close_session(session, by="jo")
        await hub.close()
        clock.now = NOON
        hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        await resumed(hub, session, ASK)
        assert not await call_and_approve(hub, session, "c3")
        clock.now = NOON + timedelta(seconds=61)
        assert await call_and_approve(hub, session, "c4")
        await hub.close()


class TestLatestTime:
    def test_is_the_later_of_event_and_decision_clock(self) -> None:
        """The latest time is the later of an event's time and the clock of its decision."""

        def event(seq: int, at: datetime, clock: float | None = None) -> JournalEvent:
            body = CallDecided(
                call_id="c",
                tool="t",
                input={},
                names=("t",),
                outcome="allow",
                mode="enforce",
                clock=clock,
            )
            shown = body if clock is not None else MessageAdded(role="user", text="x")
            return JournalEvent(cursor=seq, session="s", seq=seq, at=at, body=shown)

        noon = NOON.timestamp()
        assert latest_time([]) == -inf
        assert latest_time([event(1, NOON), event(2, NOON - timedelta(hours=1))]) == noon
        assert latest_time([event(1, NOON, noon + 5), event(2, NOON)]) == noon + 5
        assert latest_time([event(1, NOON, noon - 5)]) == noon

    def test_timekeeper_returns_no_earlier_time(self) -> None:
        """A timekeeper returns no time before the one it begins at."""
        times = iter([10.0, 30.0, 20.0])
        keeper = Timekeeper(lambda: next(times))
        keeper.begin_at(25.0)
        assert [keeper.read() for _ in range(3)] == [25.0, 30.0, 30.0]
        keeper.begin_at(5.0)
        times = iter([7.0])
        assert keeper.read() == 7.0


class TestAnotherAgent:
    async def test_other_agent_name_loses_grants(self, tmp_path: Path) -> None:
        """G-74: an agent of another name that resumes a session does not keep its grants."""
        hub = Hub(Journal.open(tmp_path / "hub.db"))
        session = await opened(hub, ASK)
        assert await call_and_approve(hub, session, "c1", grant=GrantTerms("names"))
        assert not await call_and_approve(hub, session, "c2")
        await hub.close_session(session, by="jo")
        raven = AGENT.model_copy(update={"name": "raven"})
        await hub.resume_external(session, raven, SessionConfig(compile_rules(ASK).registry))
        assert await call_and_approve(hub, session, "c3")
        assert not any(grant.net.active for grant in (await hub.session(session)).grants.values())
        await check_fold(hub)
        await hub.close()

    async def test_same_agent_name_keeps_grants(self, tmp_path: Path) -> None:
        """G-63: an agent of the same name keeps the grants, even with another model or tools."""
        hub = Hub(Journal.open(tmp_path / "hub.db"))
        session = await opened(hub, ASK)
        assert await call_and_approve(hub, session, "c1", grant=GrantTerms("names"))
        await hub.close_session(session, by="jo")
        same = AGENT.model_copy(update={"model": "newer", "tools": ("deploy",)})
        await hub.resume_external(session, same, SessionConfig(compile_rules(ASK).registry))
        assert not await call_and_approve(hub, session, "c2")
        await hub.close()
