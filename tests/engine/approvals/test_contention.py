"""Parallel calls for one last token under the hub: one requires approval, the others wait (G-68)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine import Agent, ScriptedModel, ToolContext, task_tool, tool
from interlock.engine.agents import C, T
from interlock.engine.approvals.requests import ApprovalRequests
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallWaits,
    EventBody,
    JournalEvent,
)
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import (
    ApprovalPolicy,
    CallAnswer,
    CallWithdrawn,
    Hub,
    Subscription,
    UnknownSessionError,
)
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.reasons import seed_sentence
from ..sessions.test_subagents import begin
from ..support.external_agent import AGENT, check_fold, recorded, resumed
from ..support.shop import until

RULES = "require human-approval before deploy\nlimit deploy to 1 per session"
SPENT = "deploy has reached its limit of 1 calls per session."


async def one_question(hub: Hub) -> ApprovalState:
    [request] = await hub.approvals()
    return request


async def wait_for_events(events: Subscription, *kinds: type[EventBody]) -> None:
    """Wait until there was an event of each of `kinds`, in any order."""
    left = set(kinds)
    async with asyncio.timeout(10):
        async for event in events:
            if isinstance(event, JournalEvent):
                left.discard(type(event.body))
            if not left:
                return


async def contending(hub: Hub, *names: str, session: str = "robin-1") -> list[asyncio.Task[CallAnswer]]:
    """Make calls of one agent for one token at once; one of them gets a request, the others wait."""
    events = hub.subscribe()
    await hub.open_external(AGENT, SessionConfig(compile_rules(RULES).registry), session_id=session)
    calls = [asyncio.ensure_future(hub.call(session, name, "deploy", {"env": name})) for name in names]
    for kind in (ApprovalRequested, *(CallWaits for _ in names[1:])):
        await until(events, kind)
    events.close()
    return calls


class TestCalls:
    """An agent that makes several calls at once."""

    async def test_limit_blocks_second_call_after_approval(self, hub: Hub) -> None:
        """G-68: if the first call is approved, the limit blocks the second without a request."""
        calls = await contending(hub, "a", "b")
        request = await one_question(hub)
        assert request.call_id == "a"
        stand = (await hub.session("robin-1")).calls.values()
        assert [(c.status, c.waits_for) for c in stand] == [("waiting", ()), ("proposed", ("a",))]
        await check_fold(hub)
        await hub.decide(request.id, approved=True, by="ada")
        assert [(a.outcome, a.reason) for a in await asyncio.gather(*calls)] == [
            ("allow", None),
            ("block", SPENT),
        ]
        assert len(recorded(hub.database, ApprovalRequested)) == 1
        assert all(c.waits_for == () for c in (await hub.session("robin-1")).calls.values())
        await check_fold(hub)

    async def test_second_call_is_requested_after_denial(self, hub: Hub) -> None:
        """G-68: if the first call is denied, the second gets a request and runs if approved."""
        calls = await contending(hub, "a", "b")
        events = hub.subscribe()
        await hub.decide((await one_question(hub)).id, approved=False, by="ada")
        await until(events, ApprovalRequested)
        request = await one_question(hub)
        assert (request.call_id, request.input) == ("b", {"env": "b"})
        await hub.decide(request.id, approved=True, by="ada")
        assert [a.outcome for a in await asyncio.gather(*calls)] == ["block", "allow"]
        await check_fold(hub)

    async def test_stopping_session_ends_waiting_calls(self, hub: Hub) -> None:
        """Stopping the session also ends calls that wait for another call."""
        calls = await contending(hub, "a", "b", "c")
        await hub.abort("robin-1", "enough", by="ada")
        answers = await asyncio.gather(*calls)
        assert [a.outcome for a in answers] == ["block"] * 3
        assert await hub.approvals() == []
        assert len(recorded(hub.database, ApprovalRequested)) == 1
        await check_fold(hub)

    async def test_history_line_names_both_calls(self, hub: Hub) -> None:
        """The history line of the event names both calls."""
        calls = await contending(hub, "a", "b")
        lines = [headline(e) for e in await hub.recorded("robin-1") if isinstance(e.body, CallWaits)]
        assert lines == ["call.waits  call b  waits for a"]
        await hub.abort("robin-1", "enough", by="ada")
        await asyncio.gather(*calls)

    async def test_sessions_do_not_wait_for_each_other(self, hub: Hub) -> None:
        """Each session has separate tokens: in both sessions, one of two calls gets a request."""
        calls = {name: await contending(hub, "a", "b", session=name) for name in ("one", "two")}
        requests = await hub.approvals()
        assert sorted(r.session for r in requests) == ["one", "two"]
        for request in requests:
            await hub.decide(request.id, approved=True, by="ada")
        for name, made in calls.items():
            assert [a.reason for a in await asyncio.gather(*made)] == [None, SPENT]
            await check_fold(hub, name)

    async def test_second_call_takes_token_of_withdrawn_one(self, hub: Hub) -> None:
        """G-68: if the first of three calls is withdrawn, the second takes the token."""
        calls = await contending(hub, "a", "b", "c")
        events = hub.subscribe()
        await hub.withdraw_call("robin-1", "a", "changed my mind")
        await until(events, ApprovalRequested)
        request = await one_question(hub)
        assert request.call_id == "b"
        await hub.decide(request.id, approved=True, by="ada")
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(answer, "outcome", None) for answer in done] == [None, "allow", "block"]
        assert getattr(done[2], "reason", None) == SPENT
        await check_fold(hub)

    async def test_waiting_call_can_be_withdrawn(self, hub: Hub) -> None:
        """A call that waits for another can be withdrawn without affecting the other."""
        one, two = await contending(hub, "a", "b")
        await hub.withdraw_call("robin-1", "b", "changed my mind")
        await asyncio.wait([two])
        assert isinstance(two.exception(), CallWithdrawn)
        await hub.decide((await one_question(hub)).id, approved=True, by="ada")
        assert (await one).outcome == "allow"
        await check_fold(hub)

    @pytest.mark.slow
    async def test_next_call_is_requested_after_expiry(self, tmp_path: Path) -> None:
        """G-68: if a request expires, the next waiting call gets a request."""
        journal = Journal.open(tmp_path / "expiring.db")
        hub = Hub(journal, policy=ApprovalPolicy(expire=0.5))
        try:
            calls = await contending(hub, "a", "b")
            events = hub.subscribe()
            await until(events, ApprovalRequested)
            assert (await one_question(hub)).call_id == "b"
            assert (await calls[0]).outcome == "block"
        finally:
            await hub.close()
        await asyncio.wait(calls)
        assert isinstance(calls[1].exception(), UnknownSessionError)

    async def test_waiting_call_is_judged_again_after_restart(self, tmp_path: Path) -> None:
        """G-63: a call that was waiting for another at a restart is undecided and is judged again."""
        path = tmp_path / "again.db"
        hub = Hub.open(path)
        calls = await contending(hub, "a", "b")
        await hub.close()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(each, UnknownSessionError) for each in done)
        assert recorded(path, CallDecided) == []
        hub = Hub.open(path)
        try:
            await resumed(hub, rules=RULES)
            assert [c.waits_for for c in (await hub.session("robin-1")).calls.values()] == [(), ()]
            events = hub.subscribe()
            again = asyncio.ensure_future(hub.call("robin-1", "b", "deploy", {"env": "b"}))
            await until(events, ApprovalRequested)
            request = await one_question(hub)
            assert request.call_id == "b"
            await hub.decide(request.id, approved=True, by="ada")
            assert (await again).outcome == "allow"
            await check_fold(hub)
        finally:
            await hub.close()


class TestTakenMeanwhile:
    """A call without a request takes the last token while another call waits for approval."""

    RULES = (
        "map bash.command deploy as deploy\nlimit deploy to 1 per session\n"
        "require human-approval before bash when input.command matches /prod/"
    )

    async def waiting(self, hub: Hub) -> asyncio.Task[CallAnswer]:
        """Start a call that waits for approval; later calls may take its token."""
        events = hub.subscribe()
        registry = compile_rules(self.RULES).registry
        await hub.open_external(AGENT, SessionConfig(registry), session_id="robin-1")
        call = asyncio.ensure_future(hub.call("robin-1", "a", "bash", {"command": "deploy prod"}))
        await until(events, ApprovalRequested)
        events.close()
        return call

    async def test_request_is_withdrawn(self, hub: Hub) -> None:
        """G-68: the request is withdrawn; the record and the answer give the net's reason."""
        call = await self.waiting(hub)
        request = await one_question(hub)
        assert (await hub.call("robin-1", "b", "bash", {"command": "deploy lab"})).outcome == "allow"
        answer = await asyncio.wait_for(call, 10)
        assert (answer.outcome, seed_sentence(answer.reason or "")) == ("block", SPENT)
        assert await hub.approvals() == []
        [gone] = recorded(hub.database, ApprovalWithdrawn)
        assert (gone.again, SPENT.rstrip(".") in gone.reason) == (True, True)
        late = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert (late.ok, SPENT.rstrip(".") in late.message) == (False, True)
        await check_fold(hub)

    async def test_approval_before_the_withdrawal_is_refused(
        self, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An approval that arrives before the withdrawal is refused, with the reason of the block."""
        call = await self.waiting(hub)
        request = await one_question(hub)
        monkeypatch.setattr(ApprovalRequests, "schedule_block_check", lambda _: None)
        await hub.call("robin-1", "b", "bash", {"command": "deploy lab"})
        late = await hub.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert (late.ok, SPENT.rstrip(".") in late.message) == (False, True)
        answer = await asyncio.wait_for(call, 10)
        assert (answer.outcome, seed_sentence(answer.reason or "")) == ("block", SPENT)
        assert recorded(hub.database, ApprovalDecided) == []
        await check_fold(hub)

    async def test_call_that_takes_no_token_leaves_request_open(self, hub: Hub) -> None:
        """A call that fires transitions but takes no token leaves the request open."""
        call = await self.waiting(hub)
        request = await one_question(hub)
        await hub.call("robin-1", "b", "bash", {"command": "ls"})
        await asyncio.sleep(0.05)
        assert (await one_question(hub)).id == request.id
        assert (await hub.decide(request.id, approved=True, by="ada", digest=request.digest)).ok
        assert (await call).outcome == "allow"


class TestSubagents:
    """Two subagents whose calls are judged by their parent's nets."""

    async def test_calls_of_subagents_compete(self, hub: Hub) -> None:
        """G-68: one subagent's call waits for the other's, and its session shows that."""
        ran: list[str] = []

        @tool
        async def deploy(ctx: ToolContext) -> str:
            """Deploy."""
            ran.append("deploy")
            return "deployed"

        def helper(name: str) -> object:
            script = ScriptedModel([C(deploy={}), T("done")])
            return task_tool(Agent(script, name=name, tools=[deploy]))

        boss = ScriptedModel([C(task_one={"prompt": "x"}, task_two={"prompt": "x"}), T("done")])
        events = hub.subscribe()
        agent = Agent(boss, name="boss", tools=[helper("one"), helper("two")])
        session = await begin(hub, agent, RULES)
        await wait_for_events(events, ApprovalRequested, CallWaits)
        request = await one_question(hub)
        states = {s.id: s for s in await hub.sessions() if s.parent == session}
        [waits] = [s for s in states if s != request.via]
        [call] = (await hub.session(waits)).calls.values()
        assert (call.status, call.waits_for) == ("proposed", (request.call_id,))
        await hub.decide(request.id, approved=False, by="ada")
        await until(events, ApprovalRequested)
        request = await one_question(hub)
        assert request.via == waits
        [call] = (await hub.session(waits)).calls.values()
        assert call.waits_for == ()
        await hub.decide(request.id, approved=True, by="ada")
        await hub.wait(session)
        assert ran == ["deploy"]
        for name in (session, *states):
            assert fold(await hub.recorded(name)) == await hub.session(name)
