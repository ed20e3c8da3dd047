"""The adapter for Strands Agents, with a fake model."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="pip install 'interlock[strands]'")

from strands import Agent, ToolContext, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.middleware.stages import ExecuteToolStage
from strands.models import Model
from strands.session import FileSessionManager

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.adapters.strands import GateHooks, ask_again, check_coverage
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules

from ..engine.gateway.served import until
from .contract import (
    EDITED,
    NOTICE,
    RULES,
    AdapterContract,
    Call,
    Driver,
    Operator,
    Run,
    Setup,
    Tools,
    place,
)


class FakeModel(Model):
    """Makes calls in its first answers, one list after the other, and then ends."""

    def __init__(self, *answers: Sequence[Call], **config: Any) -> None:
        self.answers = [each for each in answers if each]
        self.config = config

    def update_config(self, **config: Any) -> None:
        self.config |= config

    def get_config(self) -> Any:
        return self.config

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, *_: Any, **__: Any) -> Any:
        calls = self.answers.pop(0) if self.answers else ()
        yield {"messageStart": {"role": "assistant"}}
        for call in calls:
            use = {"toolUseId": call.id, "name": call.tool}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.arguments}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def agent_of(tools: Tools, /, *answers: Sequence[Call], **more: Any) -> Agent:
    more = {"tools": [tool(each) for each in tools.functions()], **more}
    return Agent(
        model=FakeModel(*answers), callback_handler=None, load_tools_from_directory=False, **more
    )


def outputs_of(agent: Agent) -> dict[str, str]:
    """Return the results of calls as the model reads them, by their ids."""
    return {
        block["toolResult"]["toolUseId"]: str(
            "\n".join(str(each.get("text", each)) for each in block["toolResult"]["content"])
        )
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    }


class StrandsDriver(Driver):
    """An agent with a session manager; the saved state of a paused run is the manager's folder."""

    pauses = True

    def agent(
        self,
        tools: Tools,
        gate: Gates,
        calls: Sequence[Call],
        thread: str,
        directory: str,
        pause_after: float | None = None,
    ) -> Agent:
        manager = FileSessionManager(session_id=thread, storage_dir=directory)
        hooks = GateHooks(gate, pause_after=pause_after)
        return agent_of(tools, calls, hooks=[hooks], session_manager=manager, agent_id="bot")

    async def run(self, setup: Setup) -> Run:
        directory = tempfile.mkdtemp(dir=self.directory)
        agent = self.agent(
            setup.tools, setup.gate, setup.calls, setup.thread, directory, setup.pause_after
        )
        result = await agent.invoke_async("go")
        return Run(outputs_of(agent), directory if result.interrupts else None)

    async def resume(self, setup: Setup, paused: object) -> Run:
        agent = self.agent(setup.tools, setup.gate, [], setup.thread, str(paused), 0.0)
        prompt = await ask_again(agent)
        if prompt is None:
            return Run({}, paused)
        result = await agent.invoke_async(prompt)
        return Run(outputs_of(agent), paused if result.interrupts else None)

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        agent = self.agent(tools, gate, [], "t1", tempfile.mkdtemp(dir=self.directory))
        return await asyncio.to_thread(check_coverage, agent)

    directory: Path


class TestAgent(AdapterContract):
    driver = StrandsDriver()

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.driver.directory = tmp_path_factory.mktemp("sessions")


def hooks_of(rules: str = RULES, **how: Any) -> GateHooks:
    return GateHooks(create_gate(compile_rules(rules).registry), **how)


def asking(operator: Operator, **how: Any) -> GateHooks:
    return GateHooks(create_gate(compile_rules(RULES).registry, confirm=operator.confirm), **how)


class TestChanges:
    @pytest.mark.parametrize("where", ["hook", "middleware"])
    async def test_gate_judges_the_final_arguments(self, where: str) -> None:
        """An operator sees the arguments as a later hook or middleware changed them."""

        def by_hook(event: BeforeToolCallEvent) -> None:
            event.tool_use = {**event.tool_use, "input": {"env": "prod"}}

        def by_middleware(context: Any) -> Any:
            return context.replace(tool_use={**context.tool_use, "input": {"env": "prod"}})

        tools, operator = Tools(), Operator({"deploy": ApprovalAnswer(True, input=EDITED)})
        agent = agent_of(tools, [Call("c1", "deploy", {"env": "dev"})], hooks=[asking(operator)])
        if where == "hook":
            agent.add_hook(by_hook, BeforeToolCallEvent, order=1000)
        else:
            agent.add_middleware(ExecuteToolStage.Input, by_middleware)
        await agent.invoke_async("go")
        assert NOTICE in outputs_of(agent)["c1"]
        assert tools.ran == [("deploy", EDITED)]

    @pytest.mark.parametrize("where", ["hook", "middleware"])
    async def test_substituted_tool_is_gated_by_its_name(self, where: str) -> None:
        """A tool that a hook or middleware substitutes is gated under its own name."""
        tools = Tools()
        rm = tool(tools.functions()[1])

        def by_hook(event: BeforeToolCallEvent) -> None:
            event.selected_tool = rm
            event.tool_use = {**event.tool_use, "input": {"path": "/"}}

        def by_middleware(context: Any) -> Any:
            return context.replace(tool=rm, tool_use={**context.tool_use, "input": {"path": "/"}})

        own = [tool(tools.functions()[0])]
        agent = agent_of(tools, [Call("c1", "lookup", {"text": "a"})], hooks=[hooks_of()], tools=own)
        if where == "hook":
            agent.add_hook(by_hook, BeforeToolCallEvent, order=1000)
        else:
            agent.add_middleware(ExecuteToolStage.Input, by_middleware)
        await agent.invoke_async("go")
        assert "Tool 'rm' blocked" in outputs_of(agent)["c1"]
        assert tools.ran == []

    @pytest.mark.parametrize("state", ["kept", "emptied"])
    async def test_middleware_runs_the_gated_tool(self, state: str) -> None:
        """A middleware that runs a tool itself runs the gated tool."""
        tools = Tools()

        async def running(context: Any, _: Any) -> Any:
            given = context.invocation_state if state == "kept" else {}
            async for event in context.tool.stream(context.tool_use, given):
                yield event

        agent = agent_of(tools, [Call("c1", "rm", {"path": "/"})], hooks=[hooks_of()])
        agent.add_middleware(ExecuteToolStage, running)
        await agent.invoke_async("go")
        assert "blocked" in outputs_of(agent)["c1"]
        assert tools.ran == []

    def test_tool_with_its_own_stream_is_refused(self) -> None:
        """A tool object with its own `stream` is refused when the agent is made."""
        rm = tool(Tools().functions()[1])
        rm.stream = rm.stream  # type: ignore[method-assign]
        with pytest.raises(TypeError, match="'rm' has its stream as an attribute"):
            agent_of(Tools(), hooks=[hooks_of()], tools=[rm])

    async def test_replaced_stream_method_ends_the_run(self) -> None:
        """A tool that gets its own `stream` after it was gated ends the run."""
        tools = Tools()
        rm = tool(tools.functions()[1])
        agent = agent_of(tools, [Call("c1", "rm", {"path": "/"})], hooks=[hooks_of()], tools=[rm])
        rm.stream = partial(type(rm).__mro__[1].stream, rm)  # type: ignore[method-assign]
        with pytest.raises(TypeError, match="'rm' has its stream as an attribute"):
            await agent.invoke_async("go")
        assert tools.ran == []

    async def test_retry_is_judged_again(self) -> None:
        """A call that a hook repeats is judged as another call."""
        tools = Tools()

        def again(event: AfterToolCallEvent) -> None:
            event.retry = event.result["status"] == "success"

        agent = agent_of(tools, [Call("c1", "publish")], hooks=[hooks_of()])
        agent.add_hook(again, AfterToolCallEvent)
        await agent.invoke_async("go")
        assert tools.names() == ["publish"]
        assert "blocked" in outputs_of(agent)["c1"]


class TestAgents:
    async def test_agent_as_a_tool_shares_the_session(self) -> None:
        """The calls of an agent that is a tool belong to the outer agent's session."""
        tools = Tools(fails=False)
        inner = agent_of(tools, [Call("i1", "rm", {"path": "/"}), Call("i2", "test")], name="inner")
        outer = agent_of(
            tools,
            [Call("c1", "inner", {"input": "x"})],
            [Call("c2", "release")],
            hooks=[hooks_of()],
            tools=[inner.as_tool(), tool(tools.functions()[5])],
        )
        await outer.invoke_async("go")
        assert "released" in outputs_of(outer)["c2"]
        assert tools.names() == ["release", "test"]

    def test_inner_agent_keeps_its_own_gate(self) -> None:
        """An agent that is a tool and has another gate keeps that gate."""
        tools = Tools()
        inner = agent_of(tools, [Call("i1", "rm", {"path": "/"})], name="inner", hooks=[hooks_of()])
        outer = agent_of(
            tools,
            [Call("c1", "inner", {"input": "x"})],
            hooks=[hooks_of("block lookup")],
            tools=[inner.as_tool()],
        )
        outer("go")
        assert tools.ran == []

    async def test_agent_without_a_session_manager_has_one_session(self) -> None:
        """Without a session manager, each agent has one session for all its runs."""
        tools, hooks = Tools(fails=False), hooks_of()
        first = agent_of(tools, [Call("c1", "test")], hooks=[hooks])
        second = agent_of(tools, [Call("c3", "release")], hooks=[hooks])
        await first.invoke_async("go")
        await second.invoke_async("go")
        assert tools.names() == ["test"]
        first.model.answers = [[Call("c2", "release")]]  # type: ignore[attr-defined]
        await first.invoke_async("go on")
        assert tools.names() == ["release", "test"]

    def test_program_calls_are_gated(self) -> None:
        """Calls that a program makes by `agent.tool` are gated, too."""
        tools = Tools()
        agent = agent_of(tools, hooks=[hooks_of(pause_after=0.0)])
        assert "blocked" in str(agent.tool.rm(path="/"))
        assert "found a" in str(agent.tool.lookup(text="a"))
        assert tools.names() == ["lookup"]


class TestUnseenTools:
    @pytest.mark.parametrize(
        "config",
        [{"anthropic_tools": [{"type": "t", "name": "web"}]}, {"params": {"tools": [{"type": "web"}]}}],
    )
    def test_provider_tool_is_refused(self, config: dict[str, Any]) -> None:
        """A tool in the model's settings is refused unless `passthrough` names it."""
        with pytest.raises(UnseenToolError, match="'web': the model's provider runs it"):
            Agent(model=FakeModel(**config), hooks=[hooks_of()])
        agent = Agent(model=FakeModel(**config), hooks=[hooks_of(passthrough=("web",))])
        assert list(check_coverage(agent).unseen) == ["web"]

    async def test_later_provider_tool_ends_the_run(self) -> None:
        """Such a tool that is added later ends the run before the model is asked."""
        agent = agent_of(Tools(), hooks=[hooks_of()])
        agent.model.update_config(params={"tools": [{"type": "web"}]})
        with pytest.raises(UnseenToolError):
            await agent.invoke_async("go")

    def test_missing_hooks_are_reported(self) -> None:
        """An agent without the hooks is reported."""
        with pytest.raises(CoverageError, match="no call is gated"):
            check_coverage(agent_of(Tools()))


class TestOutcomes:
    async def test_cancelled_run_has_an_unknown_outcome(self, tmp_path: Path) -> None:
        """A call in a cancelled run has an unknown outcome."""
        running = asyncio.Event()

        @tool
        async def slow() -> str:
            """Take long."""
            running.set()
            await asyncio.sleep(60)
            return "done"

        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            hooks = GateHooks(where.gates(), thread=lambda _: "t1")
            agent = agent_of(Tools(), [Call("c1", "slow")], hooks=[hooks], tools=[slow])
            run = asyncio.create_task(agent.invoke_async("go"))
            await running.wait()
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

            async def ended() -> bool:
                assert where.server is not None
                state = await where.server.hub.session("bot:t1")
                return state.calls["c1"].status == "unknown"

            await until(ended)

    async def test_interrupting_tool_is_requested_once(self) -> None:
        """A call whose tool interrupts the run is requested once."""
        operator = Operator({"push": ApprovalAnswer(True)})

        @tool(context=True)
        def push(branch: str, tool_context: ToolContext) -> str:
            """Push a branch."""
            return f"{tool_context.interrupt('sure')} pushed {branch}"

        agent = agent_of(
            Tools(), [Call("c1", "push", {"branch": "b"})], hooks=[asking(operator)], tools=[push]
        )
        result = await agent.invoke_async("go")
        [interrupt] = result.interrupts or []
        assert await ask_again(agent) is None
        answer = {"interruptResponse": {"interruptId": interrupt.id, "response": "yes"}}
        await agent.invoke_async([answer])  # type: ignore[list-item]
        assert "yes pushed b" in outputs_of(agent)["c1"]
        assert operator.asked == ["push"]

    async def test_foreign_resume_does_not_approve(self) -> None:
        """A foreign answer to a pause does not approve the call, which keeps waiting."""
        tools, operator = Tools(), Operator()
        hooks = asking(operator, pause_after=0.01)
        agent = agent_of(tools, [Call("c1", "push", {"branch": "b"})], hooks=[hooks])
        result = await agent.invoke_async("go")
        [interrupt] = result.interrupts or []
        answer = {"interruptResponse": {"interruptId": interrupt.id, "response": True}}
        run = asyncio.create_task(agent.invoke_async([answer]))  # type: ignore[list-item]
        assert not (await asyncio.wait({run}, timeout=0.1))[0]
        assert tools.ran == []
        operator.answers["push"] = ApprovalAnswer(False, reason="not today")
        await run
        assert "not today" in outputs_of(agent)["c1"]
        assert tools.ran == []


async def test_duplicate_id_is_allowed_only_once() -> None:
    """Of two calls with one id, a permission allows only one."""
    tools = Tools()
    agent = agent_of(tools, [Call("p1", "publish"), Call("p1", "publish")], hooks=[hooks_of()])
    await agent.invoke_async("go")
    assert tools.names() == ["publish"]
