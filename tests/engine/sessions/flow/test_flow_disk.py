"""Flows under the hub when the journal refuses events: they stop with a reason and can be resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from interlock.engine.agents import C
from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    CallResult,
    EventBody,
    MessageAdded,
    SessionStatus,
)
from interlock.engine.history.model.records import FlowStepped
from interlock.engine.hub.hub import Hub

from ...support.flow_hosts import asked, begin, bodies, checked, ended, go_on, hubs
from ...support.full_disk import Disk, disk
from ...support.release import Release, ran

__all__ = ["disk", "hubs"]

ASK = "require human-approval before deploy\n"
SUBMIT = C(submit={"text": "notes"})
SIGNED = {"by": "ada"}


class TestFullDisk:
    async def test_unrecorded_step_stops_the_run(self, hubs: Callable[[], Hub], disk: Disk) -> None:
        """P-56: if a step cannot be recorded, the run fails with the reason, and can be resumed later."""
        hub = hubs()
        disk.full_for(FlowStepped, after=1)
        session = await begin(hub, Release, SUBMIT)
        state = await ended(hub, session)
        assert disk.refused == 1
        assert state.status == "failed"
        assert "no space left" in (state.error or "")
        assert ran == ["collect"]
        assert [s.step for s in bodies(hub, session, FlowStepped)] == [0]
        disk.full_for(None)
        await hub.close_session(session, by="maria")
        await go_on(hub, session, Release, SUBMIT)
        await hub.decide((await asked(hub)).id, approved=True, by="ada", input=SIGNED)
        assert (await ended(hub, session)).status == "done"
        assert ran == ["collect", "collect", "publish"]
        await checked(hub, session)

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("kind", "after"),
        [
            (FlowStepped, 2),
            (FlowStepped, 3),
            (MessageAdded, 0),
            (MessageAdded, 1),
            (ApprovalRequested, 0),
            (ApprovalRequested, 1),
            (CallDecided, 0),
            (CallResult, 0),
            (SessionStatus, 1),
        ],
    )
    async def test_run_completes_after_any_refused_event(
        self, hubs: Callable[[], Hub], disk: Disk, kind: type[EventBody], after: int
    ) -> None:
        """If any event is refused, the resumed run completes and no approved call is repeated."""
        hub = hubs()
        disk.full_for(kind, after)
        script = C(deploy={}), SUBMIT
        session = await begin(hub, Release, *script, rules=ASK)
        await answered(hub, session)
        assert disk.refused
        disk.full_for(None)
        await hub.close_session(session, by="maria")
        left = () if bodies(hub, session, FlowStepped)[-1].live == ("Notes",) else (SUBMIT,)
        if ran == ["collect"] and not any(s.waits for s in bodies(hub, session, FlowStepped)):
            left = script
        await go_on(hub, session, Release, *left, rules=ASK)
        await answered(hub, session)
        state = await hub.session(session)
        assert (state.status, state.error) == ("done", None)
        assert ran.count("deploy staging") <= 1
        assert ran.count("publish") >= 1
        assert state.pending == []
        await checked(hub, session)

    async def test_unrecorded_answer_does_not_count(self, hubs: Callable[[], Hub], disk: Disk) -> None:
        """If an answer cannot be recorded, the request stays open and can be answered later."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        request = await asked(hub)
        disk.full_for(ApprovalDecided)
        refused = await hub.decide(request.id, approved=True, by="ada", input=SIGNED)
        assert not refused.ok
        assert "no space left" in refused.message
        disk.full_for(None)
        assert [a.id for a in await hub.approvals()] == [request.id]
        assert (await hub.decide(request.id, approved=True, by="ada", input=SIGNED)).ok
        assert (await ended(hub, session)).status == "done"

    async def test_unrecorded_stop_ends_the_run_as_failed(
        self, hubs: Callable[[], Hub], disk: Disk
    ) -> None:
        """If a stop cannot be recorded, the run ends as failed and can be resumed."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        await asked(hub)
        disk.full_for(SessionStatus)
        with pytest.raises(JournalError):
            await hub.abort(session, "by ada")
        assert (await ended(hub, session)).status == "failed"
        disk.full_for(None)
        await hub.close_session(session, by="maria")
        await go_on(hub, session, Release)
        await hub.decide((await asked(hub)).id, approved=True, by="ada", input=SIGNED)
        assert (await ended(hub, session)).status == "done"


async def answered(hub: Hub, session: str) -> None:
    """Approve every request until the run ends."""
    async with asyncio.timeout(60):
        ending = asyncio.create_task(hub.flow_ended(session))
        while not ending.done():
            for request in await hub.approvals():
                given = None if request.wants is None else SIGNED
                await hub.decide(request.id, approved=True, by="ada", input=given)
            await asyncio.sleep(0.001)
