"""The recorded end of flow runs that are stopped or closed, and how they are resumed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalWithdrawn, SessionStatus
from interlock.engine.hub.hub import BranchError, Hub, ResumeError
from interlock.engine.sessions.config import SessionConfig

from ...support.flow_hosts import asked, begin, bodies, checked, ended, go_on, hubs
from ...support.full_disk import Disk, disk
from ...support.release import Release, Short, ran

__all__ = ["disk", "hubs"]

ASK = "require human-approval before deploy\n"
SUBMIT = C(submit={"text": "notes"})
SIGNED = {"by": "ada"}


def last_status(hub: Hub, session: str) -> SessionStatus:
    """Return the last status in the record."""
    return bodies(hub, session, SessionStatus)[-1]


class TestClosed:
    async def test_waiting_run_is_left_and_can_be_resumed(self, hubs: Callable[[], Hub]) -> None:
        """P-94: a run closed while it waits is recorded as left after its step, and can be resumed."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        await asked(hub)
        await hub.close_session(session, by="maria")
        left = f"left after step 3; `interlock flow resume {session}` continues it"
        assert last_status(hub, session) == SessionStatus(status="failed", error=left, by="maria")
        [recorded] = open_reader(hub.database).sessions()
        assert (recorded.status, recorded.error) == ("failed", left)
        await go_on(hub, session, Release)
        await hub.decide((await asked(hub)).id, approved=True, by="ada", input=SIGNED)
        assert (await ended(hub, session)).status == "done"
        await checked(hub, session)

    async def test_failed_run_keeps_its_error(self, hubs: Callable[[], Hub]) -> None:
        """P-56: a run whose step failed keeps the error when it is closed."""
        hub = hubs()
        session = await begin(hub, Short)
        state = await ended(hub, session)
        await hub.close_session(session, by="maria")
        assert last_status(hub, session) == SessionStatus(status="failed", error=state.error, by="maria")
        assert "agent 'Draft'" in (state.error or "")

    async def test_run_with_output_is_done(self, hubs: Callable[[], Hub]) -> None:
        """P-53: a run that has its output is done when it is closed."""
        hub = hubs()
        session = await begin(hub, Short, SUBMIT)
        await ended(hub, session)
        await hub.close_session(session, by="maria")
        assert last_status(hub, session) == SessionStatus(status="done", by="maria")

    async def test_closing_the_hub_leaves_each_run(self, hubs: Callable[[], Hub]) -> None:
        """Closing the hub records each run as left, once, and withdraws its requests."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        request = await asked(hub)
        await hub.close()
        ends = [status.status for status in bodies(hub, session, SessionStatus)]
        assert ends == ["running", "failed"]
        assert "left after step 3" in (last_status(hub, session).error or "")
        [gone] = bodies(hub, session, ApprovalWithdrawn)
        assert gone.approval_id == request.id

    async def test_second_close_records_after_a_refused_one(
        self, hubs: Callable[[], Hub], disk: Disk
    ) -> None:
        """If the journal refuses a close, it raises; a second close records where the run was left."""
        hub = hubs()
        session = await begin(hub, Release, SUBMIT)
        await asked(hub)
        disk.full_for(SessionStatus)
        with pytest.raises(JournalError):
            await hub.close_session(session, by="maria")
        assert (await hub.session(session)).status == "failed"
        disk.full_for(None)
        await hub.close_session(session, by="maria")
        assert "left after step 3" in (last_status(hub, session).error or "")


class TestBranched:
    async def test_flow_run_cannot_be_branched(self, hubs: Callable[[], Hub]) -> None:
        """A flow's run cannot be branched, so the error names no nearest moment."""
        hub = hubs()
        session = await begin(hub, Short, C(test={}), SUBMIT)
        last = (await ended(hub, session)).seq
        agent = Agent(ScriptedModel([]))
        for at in (1, last // 2, last, last + 1):
            with pytest.raises(ResumeError, match="is a run of flow 'Short'") as caught:
                await hub.branch_session(session, at, agent, SessionConfig({}))
            assert not isinstance(caught.value, BranchError)


class TestWithdrawn:
    @pytest.mark.variants
    @pytest.mark.parametrize("rules", [ASK, ""], ids=["an approval", "a typed answer"])
    async def test_reason_names_the_stopped_run(self, hubs: Callable[[], Hub], rules: str) -> None:
        """P-81, P-82: the withdrawal's reason says that the run was stopped, not an agent."""
        hub = hubs()
        replies = (C(deploy={}),) if rules else (SUBMIT,)
        session = await begin(hub, Release, *replies, rules=rules)
        await asked(hub)
        await hub.abort(session, "not today", by="ada")
        [gone] = bodies(hub, session, ApprovalWithdrawn)
        assert gone.reason == "the run was stopped: stopped by ada: not today"
        state = await hub.session(session)
        assert state.error == "the run was stopped: stopped by ada: not today"
        assert ran == ["collect"]
