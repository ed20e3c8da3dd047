"""A freeze of all agents: every new call waits undecided until the freeze is lifted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, task_tool, tool
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.decisions.filter import DecisionFilter
from interlock.engine.history.errors import JournalError
from interlock.engine.history.logs.freeze_log import FreezeLog
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDecided,
    FreezeBegan,
    FreezeLifted,
    MessageAdded,
)
from interlock.engine.history.model.records import FreezeRecord
from interlock.engine.hub.hub import CallAnswer, CallWithdrawn, FreezeChanged, Hub
from interlock.engine.sessions.config import SessionConfig

from ..support.external_agent import check_fold, opened, recorded, resumed
from ..support.shop import Shop, becomes, bodies, check, start, until

WHY = "the deploys look wrong"


async def frozen(hub: Hub) -> None:
    outcome = await hub.freeze(by="maria", reason=WHY)
    assert outcome.ok, outcome.message


async def lifted(hub: Hub) -> None:
    outcome = await hub.lift_freeze(by="ben", reason="looked at")
    assert outcome.ok, outcome.message


async def call_that_waits(
    hub: Hub, call_id: str = "t1", tool: str = "test", session: str = "robin-1"
) -> asyncio.Task[CallAnswer]:
    """Make a call and check that it is recorded but still undecided after several writes."""
    task = asyncio.ensure_future(hub.call(session, call_id, tool, {}))

    async def made() -> bool:
        return call_id in (await hub.session(session)).calls

    await becomes(made)
    for number in range(5):
        await hub.record_message(session, "assistant", f"still waiting {number}")
    assert (await hub.session(session)).calls[call_id].status == "proposed"
    assert not task.done()
    return task


class TestNewCalls:
    async def test_external_agent_call_waits(self, hub: Hub) -> None:
        """A call that no net restricts is not decided during a freeze; it runs after the lift."""
        await opened(hub)
        await frozen(hub)
        task = await call_that_waits(hub)
        assert recorded(hub.database, CallDecided) == []
        await lifted(hub)
        assert (await task).outcome == "allow"
        await check_fold(hub)

    async def test_hosted_agent_call_waits(self, hub: Hub, shop: Shop) -> None:
        """The tool does not run during a freeze; after the lift, the agent continues."""
        await frozen(hub)
        events = hub.subscribe()
        session = await start(hub, shop, C(test={}), T("done"))

        async def made() -> bool:
            return bool((await hub.session(session)).calls)

        await becomes(made)
        await until(events, FreezeBegan)
        assert (shop.ran, bodies(hub, session, CallDecided)) == ([], [])
        await lifted(hub)
        await hub.wait(session)
        assert shop.ran == ["test"]
        await check(hub, session)

    async def test_shadow_mode_call_waits(self, hub: Hub) -> None:
        """A freeze also applies in shadow mode."""
        await opened(hub, mode="shadow")
        await frozen(hub)
        task = await call_that_waits(hub, "r1", "rm")
        await lifted(hub)
        answer = await task
        assert (answer.outcome, answer.would) == ("allow", "block")

    async def test_granted_call_waits_and_uses_no_grant(self, hub: Hub) -> None:
        """A grant allows no call during a freeze and is not used up."""
        await opened(hub, "require human-approval before deploy")
        heard = hub.subscribe()
        first = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {}))
        await until(heard, ApprovalRequested)
        [request] = await hub.approvals()
        await hub.decide(
            request.id,
            approved=True,
            by="maria",
            reason="a release night",
            grant=GrantTerms(scope="names", uses=1),
        )
        assert (await first).outcome == "allow"
        await hub.result("robin-1", "d1", output="", is_error=False)
        await frozen(hub)
        task = await call_that_waits(hub, "d2", "deploy")
        await lifted(hub)
        assert (await task).outcome == "allow"
        assert recorded(hub.database, CallDecided)[-1].granted

    @pytest.mark.slow
    async def test_subagent_call_waits(self, hub: Hub, shop: Shop) -> None:
        """The freeze also applies to the calls of subagents."""
        at_work, goes_on = asyncio.Event(), asyncio.Event()

        @tool
        async def look(ctx: ToolContext) -> str:
            """Look."""
            at_work.set()
            await goes_on.wait()
            return "ok"

        replies = [C(look={}), C(test={}), T("tested")]
        helper = Agent(ScriptedModel(replies), name="helper", tools=[look, *shop.tools()])
        boss = Agent(
            ScriptedModel([C(task_helper={"prompt": "Do it"}), T("done")]),
            name="boss",
            tools=[task_tool(helper)],
        )
        session = await hub.open_session(boss, SessionConfig({}))
        await hub.send(session, "go", by="maria")
        await at_work.wait()
        heard = hub.subscribe()
        await frozen(hub)
        began = {(await until(heard, FreezeBegan)).session for _ in range(2)}
        assert len(began) == 2
        goes_on.set()
        [child] = began - {session}

        async def made() -> bool:
            return len((await hub.session(child)).calls) == 2

        await becomes(made)
        assert (shop.ran, len(bodies(hub, session, CallDecided))) == ([], 2)
        await lifted(hub)
        await hub.wait(session)
        assert shop.ran == ["test"]
        await check(hub, session)

    async def test_new_session_records_freeze_and_waits(self, hub: Hub) -> None:
        """A session opened during a freeze records the freeze, and its calls wait."""
        await frozen(hub)
        heard = hub.subscribe()
        await opened(hub)
        began = await until(heard, FreezeBegan)
        assert (began.body.by, began.body.reason) == ("maria", WHY)
        task = await call_that_waits(hub)
        await lifted(hub)
        assert (await task).outcome == "allow"

    async def test_withdrawn_call_is_never_allowed(self, hub: Hub) -> None:
        """A call that is withdrawn during a freeze is never allowed."""
        await opened(hub)
        await frozen(hub)
        task = await call_that_waits(hub)
        await hub.withdraw_call("robin-1", "t1", "no patience")
        with pytest.raises(CallWithdrawn):
            await task
        await lifted(hub)
        assert recorded(hub.database, CallDecided) == []


class TestRequests:
    async def test_an_approval_is_recorded_and_waits(self, hub: Hub) -> None:
        """An approval during a freeze is recorded, and its call runs after the lift."""
        await opened(hub, "require human-approval before deploy")
        heard = hub.subscribe()
        task = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {}))
        await until(heard, ApprovalRequested)
        await frozen(hub)
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="ben")).ok
        assert [each.by for each in recorded(hub.database, ApprovalDecided)] == ["ben"]
        await hub.record_message("robin-1", "assistant", "waiting")
        assert (task.done(), recorded(hub.database, CallDecided)) == (False, [])
        await lifted(hub)
        assert (await task).approved_by == ("ben",)
        await check_fold(hub)

    async def test_result_of_earlier_allowed_call_is_accepted(self, hub: Hub) -> None:
        """The result of a call that was allowed before the freeze is accepted and moves the nets."""
        await opened(hub)
        assert (await hub.call("robin-1", "t1", "test", {})).outcome == "allow"
        await frozen(hub)
        again = await hub.call("robin-1", "t1", "test", {})
        assert (again.outcome, again.repeated) == ("allow", True)
        await hub.result("robin-1", "t1", output="ok", is_error=False)
        await check_fold(hub)


class TestRecord:
    async def test_record_has_operator_time_and_reason(self, hub: Hub) -> None:
        """Each session's record, the hub and the list of decisions name operator, time and reason."""
        await opened(hub)
        heard = hub.subscribe()
        await frozen(hub)
        now = hub.current_freeze()
        assert now is not None
        assert now.words == f"frozen by maria: {WHY}"
        assert (await hub.session("robin-1")).frozen == now
        await lifted(hub)
        assert hub.current_freeze() is None
        assert (await hub.session("robin-1")).frozen is None
        assert [each.by for each in recorded(hub.database, FreezeLifted)] == ["ben"]
        heard.close()
        told = [event.freeze async for event in heard if isinstance(event, FreezeChanged)]
        assert told == [now, None]
        kinds = DecisionFilter(kinds=("freeze",))
        scan = await hub.scan_decisions(kinds)
        lines = [each for page in scan.parts for each in await hub.read_decisions(kinds, page)]
        assert [(each.by, each.input) for each in lines] == [
            ("ben", "no longer frozen: looked at"),
            ("maria", f"frozen: {WHY}"),
        ]

    @pytest.mark.sqlite("the log's file")
    async def test_secrets_in_reason_are_masked(self, hub: Hub) -> None:
        """All operators can see the reason, so secrets in it are masked at once."""
        await hub.freeze(by="maria", reason="password=hunter2horse was used")
        now = hub.current_freeze()
        assert now is not None
        assert "hunter2horse" not in now.reason
        assert "hunter2horse" not in FreezeLog(hub.database, lambda: now.at).lines.path.read_text()


class TestLift:
    async def test_requires_reason_and_name(self, hub: Hub) -> None:
        """A freeze is not lifted without a reason and a name."""
        await frozen(hub)
        no_reason = await hub.lift_freeze(by="ben", reason="  ")
        assert (no_reason.ok, no_reason.needs_reason) == (False, True)
        assert not (await hub.lift_freeze(by="", reason="x")).ok
        assert not (await hub.freeze(by="ben")).ok
        assert hub.current_freeze() is not None

    @pytest.mark.sqlite("the log's file")
    async def test_unwritten_lift_changes_nothing(self, hub: Hub) -> None:
        """If the lift cannot be written, the calls keep waiting and the sessions stay frozen."""
        await opened(hub)
        await frozen(hub)
        task = await call_that_waits(hub)
        path = FreezeLog(hub.database, lambda: None).lines.path
        path.rename(path.with_suffix(".away"))
        path.mkdir()
        outcome = await hub.lift_freeze(by="ben", reason="looked at")
        assert not outcome.ok
        assert "stay frozen" in outcome.message
        assert (await hub.session("robin-1")).frozen is not None
        await hub.record_message("robin-1", "assistant", "waiting")
        assert not task.done()
        path.rmdir()
        await lifted(hub)
        assert (await task).outcome == "allow"
        await check_fold(hub)


class TestOtherServers:
    """A freeze that another server wrote to the log and that was lifted here."""

    async def followed(self, hub: Hub) -> None:
        """Take over a freeze of another server and lift it."""
        log = hub._live.freeze.log
        assert log is not None
        log.begin(FreezeRecord(by="omar", at=hub._journal.clock(), reason="elsewhere"))
        await hub.follow_freeze()
        assert hub.current_freeze() is not None
        await lifted(hub)

    async def test_freeze_begun_during_log_read_stays(self, hub: Hub) -> None:
        """A freeze that begins while the log is being read stays in force, though not in the log yet."""
        await opened(hub)
        await self.followed(hub)
        log = hub._live.freeze.log
        assert log is not None
        read, reads, begun = log.read, threading.Event(), threading.Event()

        def slowly() -> FreezeRecord | None:
            found = read()
            reads.set()
            begun.wait(30)
            return found

        log.read = slowly  # type: ignore[method-assign]
        following = asyncio.ensure_future(hub.follow_freeze())
        await asyncio.to_thread(reads.wait, 30)
        freezing = asyncio.ensure_future(hub.freeze(by="maria", reason=WHY))
        await asyncio.sleep(0)
        begun.set()
        await following
        assert hub.current_freeze() is not None
        assert (await freezing).ok
        log.read = read  # type: ignore[method-assign]
        await hub.follow_freeze()
        assert hub.current_freeze() is not None
        await check_fold(hub)

    async def test_unwritten_freeze_is_lifted_only_by_operator(
        self, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A freeze that could not be written to the log is lifted only by an operator."""
        await opened(hub)
        await self.followed(hub)

        def refuse(_: FreezeRecord) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(hub._live.freeze.log, "begin", refuse)
            assert "No space left" in (await hub.freeze(by="maria", reason=WHY)).message
            with pytest.raises(JournalError, match="No space left"):
                await hub.follow_freeze()
            assert hub.current_freeze() is not None
        # Other servers see it as soon as it can be written.
        await hub.follow_freeze()
        assert FreezeLog(hub.database, hub._journal.clock).read() == hub.current_freeze()
        await lifted(hub)
        await hub.follow_freeze()
        assert hub.current_freeze() is None


class TestRestart:
    async def test_next_hub_is_frozen(self, tmp_path: Path) -> None:
        """Another hub on the journal is frozen as well, and repeated calls wait there."""
        hub = Hub.open(tmp_path / "hub.db")
        await opened(hub)
        await frozen(hub)
        was = hub.current_freeze()
        await hub.close()
        hub = Hub.open(tmp_path / "hub.db")
        assert hub.current_freeze() == was
        heard = hub.subscribe()
        await resumed(hub)
        await until(heard, FreezeBegan)
        task = await call_that_waits(hub)
        await lifted(hub)
        assert (await task).outcome == "allow"
        await check_fold(hub)
        await hub.close()
        hub = Hub.open(tmp_path / "hub.db")
        assert hub.current_freeze() is None
        await hub.close()

    @pytest.mark.parametrize("found", ["", "nonsense\n", '{"step": "lifted"}\n', "cut"])
    @pytest.mark.sqlite("the log's file")
    async def test_unreadable_log_counts_as_freeze(self, tmp_path: Path, found: str) -> None:
        """A damaged or truncated log counts as a freeze, which can be lifted."""
        hub = Hub.open(tmp_path / "hub.db")
        await frozen(hub)
        await lifted(hub)
        path = FreezeLog(hub.database, lambda: None).lines.path
        await hub.close()
        path.write_text(path.read_text()[:-1] if found == "cut" else found)
        hub = Hub.open(tmp_path / "hub.db")
        now = hub.current_freeze()
        assert now is not None
        assert "cannot be read" in now.words
        await lifted(hub)
        await hub.close()
        hub = Hub.open(tmp_path / "hub.db")
        assert hub.current_freeze() is None
        await hub.close()

    @pytest.mark.slow
    @pytest.mark.sqlite("another process opens the file")
    async def test_killed_host_ran_nothing_and_next_is_frozen(self, tmp_path: Path) -> None:
        """A host killed during a freeze has run nothing; the next host is frozen and can lift it."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.engine.hub.frozen_host",
            str(tmp_path / "hub.db"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        async with asyncio.timeout(60):
            assert await child.stdout.readline() == b"waits\n"
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
        assert recorded(tmp_path / "hub.db", CallDecided) == []
        asked = [each for each in recorded(tmp_path / "hub.db", MessageAdded) if each.calls]
        assert [call.call_id for each in asked for call in each.calls] == ["t1", "d1"]
        hub = Hub.open(tmp_path / "hub.db")
        now = hub.current_freeze()
        assert now is not None
        assert now.words == f"frozen by maria: {WHY}"
        await resumed(hub)
        task = await call_that_waits(hub)
        await lifted(hub)
        assert (await task).outcome == "allow"
        await hub.close()
