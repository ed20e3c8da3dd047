"""Subagents under the hub: separate sessions whose calls and requests belong to their parent."""

from __future__ import annotations

import asyncio

import pytest

from interlock.engine import Agent, ScriptedModel, ToolContext, task_tool, tool
from interlock.engine.agents import C, Reply, T
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    CallResult,
    JournalEvent,
    SessionOpened,
)
from interlock.engine.hub.hub import Hub, ResumeError
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

RULES = (
    "require test before deploy\nrequire human-approval before deploy\nlimit deploy to 1 per session\n"
)


class Shop:
    """Tools that remember their calls; `boss` delegates to `helper`."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tools(self) -> list[object]:
        @tool(name="test")
        async def run_tests(ctx: ToolContext) -> str:
            """Run the tests."""
            self.ran.append("test")
            return "ok"

        @tool
        async def deploy(ctx: ToolContext, env: str = "staging") -> str:
            """Deploy."""
            self.ran.append(f"deploy {env}")
            return "deployed"

        return [run_tests, deploy]

    def boss(self, helper: list[Reply], boss: list[Reply]) -> Agent:
        child = Agent(ScriptedModel(helper), name="helper", tools=self.tools())
        return Agent(ScriptedModel(boss), name="boss", tools=[*self.tools(), task_tool(child)])


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def begin(hub: Hub, agent: Agent, rules: str = RULES) -> str:
    session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry))
    await hub.send(session, "go", by="maria")
    return session


async def question(hub: Hub) -> JournalEvent:
    """Wait for the next request."""
    events = hub.subscribe()
    async with asyncio.timeout(10):
        async for event in events:
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                return event
    raise AssertionError("nothing was asked")


def child_of(states: list, parent: str):
    return next(s for s in states if s.parent == parent)


TASK = C(task_helper={"prompt": "Do it"})


class TestChild:
    @pytest.mark.slow
    async def test_has_its_own_listed_session(self, hub: Hub, shop: Shop) -> None:
        """A subagent's session names its parent and stays listed after its end."""
        session = await begin(hub, shop.boss([C(test={}), T("tested")], [TASK, T("fine")]))
        await hub.wait(session)
        child = child_of(await hub.sessions(), session)
        assert (child.kind, child.agent, child.status) == ("child", "helper", "done")
        assert [e.text for e in child.transcript if e.kind == "assistant"] == ["tested"]
        [call] = child.calls.values()
        assert (call.tool, call.status, call.output, call.outcome) == ("test", "done", "ok", "allow")
        recorded = await hub.recorded(child.id)
        assert isinstance(recorded[0].body, SessionOpened)
        assert fold(recorded) == child

    async def test_calls_move_the_parents_nets(self, hub: Hub, shop: Shop) -> None:
        """G-53, G-63: the parent's record has the moves of its nets, and which subagent called."""
        session = await begin(hub, shop.boss([C(test={}), T("tested")], [TASK, T("fine")]))
        await hub.wait(session)
        state = await hub.session(session)
        child = child_of(await hub.sessions(), session)
        assert state.nets["require-test-before-deploy"].marking["gate"] == 1
        made = [e.body for e in await hub.recorded(session) if isinstance(e.body, CallDecided)]
        assert [(d.tool, d.via) for d in made] == [("task_helper", None), ("test", child.id)]
        assert fold(await hub.recorded(session)) == state
        own = [
            e.body for e in await hub.recorded(child.id) if isinstance(e.body, CallDecided | CallResult)
        ]
        assert [type(b) for b in own] == [CallDecided, CallResult]
        assert own[0].steps == ()

    async def test_call_waits_with_its_origin(self, hub: Hub, shop: Shop) -> None:
        """A subagent's call waits in the queue with its origin, and runs as it was edited."""
        agent = shop.boss([C(test={}), C(deploy={}), T("deployed")], [TASK, T("fine")])
        asking = asyncio.create_task(question(hub))
        await asyncio.sleep(0)
        session = await begin(hub, agent)
        event = await asking
        assert event.session == session
        [request] = await hub.approvals()
        child = child_of(await hub.sessions(), session)
        assert (request.session, request.via) == (session, child.id)
        view = await hub.explain(
            child.id, next(c.call_id for c in child.calls.values() if c.tool == "deploy")
        )
        assert view.outcome == "ask"
        assert (await hub.decide(request.id, approved=True, by="jo", input={"env": "prod"})).ok
        await hub.wait(session)
        assert shop.ran == ["test", "deploy prod"]
        decided = [e.body for e in await hub.recorded(child.id) if isinstance(e.body, CallDecided)]
        assert (decided[-1].input, decided[-1].edited, decided[-1].approved_by) == (
            {"env": "prod"},
            True,
            ("jo",),
        )

    async def test_edited_call_stays_edited(self, hub: Hub, shop: Shop) -> None:
        """G-75: an edit of a subagent's call stays when a rule is switched, and names its editor."""
        agent = shop.boss([C(deploy={"env": "prod"}), T("deployed")], [TASK, T("fine")])
        asking = asyncio.create_task(question(hub))
        await asyncio.sleep(0)
        rules = "require 2 human-approvals before deploy\nblock rm"
        session = await begin(hub, agent, rules)
        await asking
        [request] = await hub.approvals()
        chosen = {"env": "staging"}
        assert (await hub.decide(request.id, approved=True, by="jo", input=chosen)).ok
        for active in (False, True):
            asked = asyncio.create_task(question(hub))
            await asyncio.sleep(0)
            assert (await hub.toggle_net(session, "block-rm", active, by="li", reason="for now")).ok
            await asked
        for by in ("li", "cy"):
            [again] = await hub.approvals()
            assert (again.input, again.original, again.edited_by) == (chosen, {"env": "prod"}, "jo")
            assert (await hub.decide(again.id, approved=True, by=by)).ok
        await hub.wait(session)
        assert shop.ran == ["deploy staging"]
        child = child_of(await hub.sessions(), session)
        for each in (session, child.id):
            decided = [e.body for e in await hub.recorded(each) if isinstance(e.body, CallDecided)]
            assert (decided[-1].edited, decided[-1].edited_by) == (True, "jo")
            assert decided[-1].approved_by == ("li", "cy")
        [call] = child.calls.values()
        assert (call.original, call.edited_by) == ({"env": "prod"}, "jo")

    async def test_limit_is_shared_with_the_parent(self, hub: Hub, shop: Shop) -> None:
        """The limit is shared: the parent cannot use what its subagent has used."""
        agent = shop.boss(
            [C(test={}), C(deploy={}), C(deploy={}), T("no")], [TASK, C(deploy={}), T("fine")]
        )
        asking = asyncio.create_task(question(hub))
        await asyncio.sleep(0)
        session = await begin(hub, agent)
        await asking
        [request] = await hub.approvals()
        await hub.decide(request.id, approved=True, by="jo")
        await hub.wait(session)
        assert shop.ran == ["test", "deploy staging"]
        child = child_of(await hub.sessions(), session)
        blocked = [c.reason for c in child.calls.values() if c.status == "blocked"]
        assert blocked == ["deploy requires a successful call to test first."]
        state = await hub.session(session)
        assert state.nets["limit-deploy-1"].marking["budget"] == 0
        assert fold(await hub.recorded(session)) == state

    async def test_message_reaches_waiting_subagent(self, hub: Hub, shop: Shop) -> None:
        """A message reaches a waiting subagent and withdraws its request."""
        agent = shop.boss([C(test={}), C(deploy={}), T("stopped")], [TASK, T("fine")])
        asking = asyncio.create_task(question(hub))
        await asyncio.sleep(0)
        session = await begin(hub, agent)
        await asking
        child = child_of(await hub.sessions(), session)
        await hub.send(child.id, "Leave it.", by="maria")
        await hub.wait(session)
        assert shop.ran == ["test"]
        assert await hub.approvals() == []
        said = (await hub.session(child.id)).transcript
        assert [(e.text, e.by) for e in said if e.kind == "user"][-1] == ("Leave it.", "maria")

    async def test_nets_and_mode_cannot_be_switched(self, hub: Hub, shop: Shop) -> None:
        """Nets and mode of a subagent cannot be switched; the refusal names its parent."""
        session = await begin(hub, shop.boss([T("hi")], [TASK, T("fine")]))
        await hub.wait(session)
        child = child_of(await hub.sessions(), session)
        for outcome in (
            await hub.toggle_net(child.id, "limit-deploy-1", False, by="maria", reason="a test"),
            await hub.set_mode(child.id, "shadow", by="maria", reason="a test"),
        ):
            assert not outcome.ok
            assert f"judged in '{session}'" in outcome.message

    async def test_cannot_be_resumed_or_branched_alone(self, hub: Hub, shop: Shop) -> None:
        """A subagent's session has no nets, so it cannot be resumed or branched alone."""
        session = await begin(hub, shop.boss([T("hi")], [TASK, T("fine")]))
        await hub.wait(session)
        child = child_of(await hub.sessions(), session)
        await hub.close_session(session, "maria")
        agent = Agent(ScriptedModel([]), tools=shop.tools())
        for attempt in (
            hub.resume_session(child.id, agent, SessionConfig({})),
            hub.branch_session(child.id, 1, agent, SessionConfig({})),
        ):
            with pytest.raises(ResumeError, match="Resume that one"):
                await attempt

    async def test_closing_the_parent_ends_it(self, hub: Hub, shop: Shop) -> None:
        """Closing the parent also ends the subagent; both records end."""
        agent = shop.boss([C(test={}), C(deploy={}), T("late")], [TASK, T("late")])
        asking = asyncio.create_task(question(hub))
        await asyncio.sleep(0)
        session = await begin(hub, agent)
        await asking
        child = child_of(await hub.sessions(), session)
        await hub.close_session(session, "maria")
        assert await hub.sessions() == []
        assert await hub.approvals() == []
        listed = {s.id: s.status for s in await hub.history()}
        assert listed == {session: "done", child.id: "done"}
        assert shop.ran == ["test"]

    @pytest.mark.slow
    async def test_only_latest_ended_subagents_stay_listed(self, hub: Hub, shop: Shop) -> None:
        """Of the ended subagents the latest eight stay listed; the history has all."""
        agent = shop.boss([T("hi")] * 12, [TASK] * 12 + [T("fine")])
        session = await begin(hub, agent)
        await hub.wait(session)
        assert len(await hub.sessions()) == 1 + 8
        assert len(await hub.history()) == 1 + 12

    async def test_grandchild_is_judged_by_top_session(self, hub: Hub, shop: Shop) -> None:
        """A subagent's subagent is judged by the nets of the top session."""
        low = Agent(ScriptedModel([C(test={}), T("low")]), name="low", tools=shop.tools())
        mid = Agent(
            ScriptedModel([C(task_low={"prompt": "x"}), T("mid")]), name="mid", tools=[task_tool(low)]
        )
        top = Agent(
            ScriptedModel([C(task_mid={"prompt": "x"}), T("top")]), name="top", tools=[task_tool(mid)]
        )
        session = await begin(hub, top)
        await hub.wait(session)
        states = {s.agent: s for s in await hub.sessions()}
        assert states["low"].parent == states["mid"].id
        assert states["mid"].parent == session
        made = [e.body for e in await hub.recorded(session) if isinstance(e.body, CallDecided)]
        assert [(d.tool, d.via) for d in made] == [
            ("task_mid", None),
            ("task_low", states["mid"].id),
            ("test", states["low"].id),
        ]
        assert (await hub.session(session)).nets["require-test-before-deploy"].marking["gate"] == 1
        assert fold(await hub.recorded(session)) == await hub.session(session)

    async def test_record_lines_name_the_subagent(self, hub: Hub, shop: Shop) -> None:
        """Each line of a subagent's calls, requests and model calls names the subagent."""
        agent = shop.boss([C(test={}), C(deploy={}), T("ok")], [TASK, T("fine")])
        asking = asyncio.create_task(question(hub))
        await asyncio.sleep(0)
        session = await begin(hub, agent)
        await asking
        [request] = await hub.approvals()
        child = child_of(await hub.sessions(), session)
        assert child.status == "running"
        await hub.decide(request.id, approved=False, by="jo")
        await hub.wait(session)
        lines = [headline(e) for e in await hub.recorded(session)]
        assert sum(line.endswith(f"(by {child.id})") for line in lines) == 3 + 3
