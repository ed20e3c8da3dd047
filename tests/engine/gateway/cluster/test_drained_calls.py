"""Replies with several calls that a server that ends hands over: nothing runs twice, or is unknown."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from interlock.engine.agents import Agent, C, Hooks, ScriptedModel, T, Tool, ToolCallEvent, tool
from interlock.engine.agents.session.subagents import task_tool
from interlock.engine.flows import AgentConfig, AgentNode, Flow, FlowBuilder
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallResult
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .support.hubs import RULES, becomes, closing

CONFIG = SessionConfig(compile_rules(RULES).registry)


def tools(ran: list[str], going: asyncio.Event) -> list[Tool]:
    """Return tools that note their runs; `build` waits until it is let go."""

    @tool
    async def build() -> str:
        """Build."""
        ran.append("build")
        await going.wait()
        return "built"

    @tool
    async def check() -> str:
        """Check."""
        ran.append("check")
        return "checked"

    @tool
    async def deploy() -> str:
        """Deploy."""
        ran.append("deploy")
        return "deployed"

    return [build, check, deploy]


def agent_of(ran: list[str], *, below: bool) -> Agent:
    """Return an agent, or one that has a subagent, whose first reply has two calls."""
    going = asyncio.Event()
    going.set()
    script = ScriptedModel([C(c1=("check", {}), d1=("deploy", {})), T("done")])
    agent = Agent(script, name="bot", tools=tools(ran, going))
    if not below:
        return agent
    return Agent(
        ScriptedModel([C(t1=("task_bot", {"prompt": "go"})), T("done")]), tools=[task_tool(agent)]
    )


async def unknown_outcomes(hub: SharedHub, session: str) -> list[str]:
    """Return the calls of a session whose outcome is recorded as unknown."""
    bodies = [each.body for each in await hub.recorded(session)]
    return [each.call_id for each in bodies if isinstance(each, CallResult) and each.unknown]


class TestHostedAgent:
    @pytest.mark.slow
    @pytest.mark.parametrize("below", [False, True], ids=["root", "subagent"])
    async def test_with_a_call_that_waits_leaves_no_unknown_outcome(
        self, two: tuple[SharedHub, SharedHub], below: bool
    ) -> None:
        """A call that waits for another one of its reply was not begun: nobody waits for its tool."""
        here, there = two
        ran: list[str] = []
        session = await here.open_session(agent_of(ran, below=below), CONFIG)
        await here.send(session, "go")
        await becomes(here.approvals)
        said: list[str] = []
        here.say_wait = said.append
        async with asyncio.timeout(20):
            await here.close()
        assert (said, ran) == ([], [])

        async def left() -> bool:
            return fold(await there.recorded(session)).status == "failed"

        await becomes(left)
        await there.resume_session(session, agent_of(ran, below=below), CONFIG)
        await becomes(there.approvals)
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.ok, outcome.message

        async def deployed() -> bool:
            return "deploy" in ran

        await becomes(deployed)
        assert ran.count("deploy") == 1
        sessions = [each.id for each in await there.sessions()]
        assert [await unknown_outcomes(there, each) for each in sessions] == [[]] * (2 if below else 1)

    @pytest.mark.slow
    async def test_begins_no_tool_once_it_is_handed_over(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A call that a hook held until the hand-over is recorded as not run, and does not run."""
        here, there = two
        asked, answered, ran = asyncio.Event(), asyncio.Event(), list[str]()

        async def look(event: ToolCallEvent) -> None:
            asked.set()
            await answered.wait()

        model = ScriptedModel([C(c1=("check", {}))])
        hooks = [Hooks(before_tool_call=look)]
        agent = Agent(model, name="bot", tools=tools(ran, asyncio.Event()), hooks=hooks)
        session = await here.open_session(agent, CONFIG)
        await here.send(session, "go")
        await asked.wait()
        settle = here._live.begin_no_more

        async def begin_no_more() -> None:
            await settle()
            answered.set()
            await asyncio.sleep(0.1)

        monkeypatch.setattr(here._live, "begin_no_more", begin_no_more)
        ending = asyncio.create_task(here.close())
        await becomes(lambda: closing(here))
        here.leave_now()
        await ending
        assert ran == []
        assert await unknown_outcomes(there, session) == []
        assert fold(await there.recorded(session)).calls["c1"].status == "failed"


class Asked(BaseModel):
    """Input of a flow."""


class Shipped(BaseModel):
    """Output of the flow."""


class TestFlow:
    @pytest.mark.slow
    async def test_finishes_a_step_in_which_a_tool_ran(self, two: tuple[SharedHub, SharedHub]) -> None:
        """The other calls of the reply are decided, so that no server takes the step again."""
        here, there = two
        ran, going = list[str](), asyncio.Event()
        calls = C(b1=("build", {}), c1=("check", {}), d1=("deploy", {}))
        model = ScriptedModel([calls, C(submit={})])

        class Write(AgentNode[Asked, Shipped]):
            config = AgentConfig("Release.", model, tools(ran, going))

        class Release(Flow[Asked, Shipped]):
            @classmethod
            def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
                return g.agent(Write)

        session = await here.open_flow(Release, Asked(), CONFIG)

        async def begun() -> bool:
            return bool(ran)

        await becomes(begun)
        ending = asyncio.create_task(here.close())
        await becomes(lambda: closing(here))
        going.set()
        await ending
        assert ran == ["build", "check"]

        async def left() -> bool:
            return fold(await there.recorded(session)).status == "failed"

        await becomes(left)
        await there.resume_flow(session, Release, CONFIG)
        await becomes(there.approvals)
        [request] = await there.approvals()
        outcome = await there.decide(request.id, approved=True, by="ada", digest=request.digest)
        assert outcome.ok, outcome.message
        await there.flow_ended(session)
        assert ran == ["build", "check", "deploy"]
        assert fold(await there.recorded(session)).status == "done"
        assert await unknown_outcomes(there, session) == []

    @pytest.mark.slow
    async def test_decides_nothing_more_in_a_freeze(self, two: tuple[SharedHub, SharedHub]) -> None:
        """A freeze holds the calls of a step that is to finish before the server ends."""
        here, _ = two
        ran, going = list[str](), asyncio.Event()
        model = ScriptedModel([C(b1=("build", {}), c1=("check", {})), C(submit={})])

        class Write(AgentNode[Asked, Shipped]):
            config = AgentConfig("Release.", model, tools(ran, going))

        class Release(Flow[Asked, Shipped]):
            @classmethod
            def build(cls, g: FlowBuilder[Asked, Shipped]) -> FlowBuilder[Asked, Shipped]:
                return g.agent(Write)

        await here.open_flow(Release, Asked(), CONFIG)

        async def begun() -> bool:
            return bool(ran)

        await becomes(begun)
        frozen = await here.freeze(by="ada", reason="look")
        assert frozen.ok, frozen.message
        ending = asyncio.create_task(here.close())
        await becomes(lambda: closing(here))
        going.set()
        async with asyncio.timeout(20):
            await ending
        assert ran == ["build"]
