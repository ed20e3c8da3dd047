"""The adapter for AG2, with AG2's scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ag2", reason="pip install 'interlock-gate[ag2]'")

from ag2 import Agent, TaskConfig
from ag2.events import ModelResponse, ToolCallEvent, ToolResultEvent, ToolResultsEvent
from ag2.events._serialization import deserialize_value, serialize_value
from ag2.middleware import BaseMiddleware, Middleware
from ag2.stream import MemoryStream
from ag2.testing import TestConfig
from ag2.tools import Toolkit, WebSearchTool, tool
from ag2.tools.final.client_tool import ClientTool
from ag2.tools.subagents.background import background_agent_tool

from interlock.adapters.ag2 import ask_again, check_coverage, gate_agent
from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules

from ..engine.gateway.served import until
from .contract import (
    EDITED,
    NOTICE,
    RULED,
    RULES,
    AdapterContract,
    Call,
    Driver,
    Run,
    Setup,
    Tools,
    approving,
    place,
    until_decided,
)


def config_of(*answers: Sequence[Call] | str) -> TestConfig:
    """Return a model that answers with calls or a text, one answer after the other."""
    made: list[Any] = [
        each
        if isinstance(each, str)
        else [ToolCallEvent(c.tool, id=c.id, arguments=c.arguments) for c in each]
        for each in answers
    ]
    return TestConfig(*made, "done", "done", raise_tool_errors=False)


def agent_of(made: Sequence[Any], *answers: Sequence[Call] | str, name: str = "bot", **how: Any) -> Agent:
    return Agent(name, config=config_of(*answers), tools=list(made), **how)


async def outputs_of(agent: Agent, **how: Any) -> dict[str, str]:
    stream = how.pop("stream", None) or MemoryStream()
    await agent.ask("go", stream=stream, **how)
    return await results_of(stream)


async def results_of(stream: MemoryStream) -> dict[str, str]:
    return {
        each.parent_id: "\n".join(str(getattr(part, "content", part)) for part in each.result.parts)
        for each in await stream.history.get_events()
        if isinstance(each, ToolResultEvent)
    }


async def restored(kept: object) -> MemoryStream:
    """Return a stream with the saved history of an earlier one."""
    stream = MemoryStream()
    await stream.history.replace(deserialize_value(json.loads(str(kept))))
    return stream


async def run_of(stream: MemoryStream, reply: Any) -> Run:
    """Return a turn, with its history if it has stopped."""
    events = list(await stream.history.get_events())
    kept = json.dumps(serialize_value(events)) if reply.response.tool_calls else None
    return Run(await results_of(stream), kept)


class Ag2Driver(Driver):
    """An agent; the saved state of a stopped turn is the history of its stream, as text."""

    pauses = True

    async def run(self, setup: Setup) -> Run:
        agent = agent_of(setup.tools.functions(), setup.calls)
        gate_agent(agent, setup.gate, thread=setup.thread, pause_after=setup.pause_after)
        stream = MemoryStream()
        return await run_of(stream, await agent.ask("go", stream=stream))

    async def resume(self, setup: Setup, paused: object) -> Run:
        agent = gate_agent(
            agent_of(setup.tools.functions()), setup.gate, thread=setup.thread, pause_after=0.0
        )
        stream = await restored(paused)
        events = await ask_again(agent, stream)
        if events is None:
            return Run(await results_of(stream), paused)
        return await run_of(stream, await agent.resume(*events, stream=stream))

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(gate_agent(agent_of(tools.functions()), gate))


class TestContract(AdapterContract):
    driver = Ag2Driver()


RM = [Call("c1", "rm", {"path": "/"})]
PUBLISH = [Call("c1", "publish")]


class TestSessions:
    async def test_each_stream_is_a_session(self) -> None:
        """Turns on one stream belong to one session, and another stream has another session."""
        tools = Tools()
        agent = gate_agent(agent_of(tools.functions()), RULED)
        stream = MemoryStream()
        for where in (stream, stream, MemoryStream()):
            await outputs_of(agent, stream=where, config=config_of(PUBLISH))
        assert tools.names() == ["publish", "publish"]

    @pytest.mark.slow
    async def test_continued_reply_keeps_its_session(self) -> None:
        """A continued reply belongs to the session of its conversation."""
        tools = Tools()
        agent = gate_agent(agent_of(tools.functions(), PUBLISH, "done", PUBLISH), RULED)
        reply = await agent.ask("go")
        await reply.ask("again")
        assert tools.names() == ["publish"]

    @pytest.mark.slow
    async def test_agent_as_a_tool_shares_the_session(self) -> None:
        """Running an agent as a tool is a call, and the agent's own calls belong to the same session."""
        tools = Tools(fails=False)
        below = agent_of(tools.functions(), [Call("b1", "release"), *RM], name="below")
        calls = [Call("c1", "test")], [Call("c2", "task_below", {"objective": "release"})]
        above = agent_of([*tools.functions(), below.as_tool(description="Below")], *calls)
        await outputs_of(gate_agent(above, RULED))
        assert tools.names() == ["release", "test"]
        blocked = Tools()
        below = agent_of(blocked.functions(), [Call("b1", "lookup", {"text": "a"})], name="below")
        above = agent_of([below.as_tool(description="Below")], calls[1])
        await outputs_of(gate_agent(above, approving("block task_below")))
        assert blocked.ran == []


class TestOtherGates:
    async def test_inner_agent_keeps_its_own_gate(self) -> None:
        """An agent with its own gate is judged by that gate, also within another agent's tool."""
        tools = Tools()
        below = gate_agent(agent_of(tools.functions(), RM, name="below"), RULED)

        @tool
        async def run() -> str:
            """Run an agent."""
            return str((await below.ask("go")).body)

        await outputs_of(gate_agent(agent_of([run], [Call("c1", "run")]), approving("block push")))
        assert tools.ran == []


class Changes(BaseMiddleware):
    """Middleware that changes the arguments of calls."""

    async def on_tool_execution(self, call_next: Any, event: Any, context: Any) -> Any:
        event.serialized_arguments = {"env": "prod"}
        return await call_next(event, context)


async def change(call_next: Any, event: Any, context: Any) -> Any:
    """Change the arguments of a tool's calls."""
    event.serialized_arguments = {"env": "prod"}
    return await call_next(event, context)


class TestMiddleware:
    @pytest.mark.parametrize("where", ["agent", "ask", "tool", "toolkit"])
    async def test_gate_judges_the_changed_arguments(self, where: str) -> None:
        """The gate judges the changed arguments, for middleware at any place."""
        tools, asked = Tools(), []

        def confirm(request: Any) -> ApprovalAnswer:
            asked.append(dict(request.call.input))
            return ApprovalAnswer(False)

        gate = create_gate(compile_rules(RULES).registry, confirm=confirm)
        deploy = tools.functions()[2]
        made: Any = tool(deploy, middleware=[change]) if where == "tool" else deploy
        if where == "toolkit":
            made = Toolkit(deploy, middleware=[change])
        agent = agent_of([made], [Call("c1", "deploy", {"env": "test"})])
        if where == "agent":
            agent.add_middleware(Middleware(Changes))
        gate_agent(agent, gate)
        more = {"middleware": [Middleware(Changes)]} if where == "ask" else {}
        found = await outputs_of(agent, **more)
        assert asked == [{"env": "prod"}]
        assert tools.ran == []
        assert "Tool 'deploy' blocked" in found["c1"]

    async def test_repeated_call_is_judged_again(self) -> None:
        """A call that middleware repeats is judged twice."""

        async def twice(call_next: Any, event: Any, context: Any) -> Any:
            await call_next(event, context)
            return await call_next(event, context)

        tools = Tools()
        publish = tool(tools.functions()[6], middleware=[twice])
        found = await outputs_of(gate_agent(agent_of([publish], PUBLISH), RULED))
        assert tools.names() == ["publish"]
        assert "blocked" in found["c1"]

    async def test_change_during_the_wait_has_no_effect(self) -> None:
        """A call runs with the approved arguments although its event changes while it waits."""
        kept: list[Any] = []

        async def keep(call_next: Any, event: Any, context: Any) -> Any:
            kept.append(event)
            return await call_next(event, context)

        def confirm(_: Any) -> ApprovalAnswer:
            kept[0].serialized_arguments["env"] = "prod"
            return ApprovalAnswer(True)

        tools = Tools()
        deploy = tool(tools.functions()[2], middleware=[keep])
        gate = create_gate(compile_rules(RULES).registry, confirm=confirm)
        await outputs_of(gate_agent(agent_of([deploy], [Call("c1", "deploy", {"env": "test"})]), gate))
        assert tools.ran == [("deploy", {"env": "test"})]


class TestCalls:
    async def test_tools_of_one_turn_are_gated(self) -> None:
        """Tools that are passed for one turn are gated."""
        tools = Tools()
        agent = gate_agent(agent_of([], RM), RULED)
        found = await outputs_of(agent, tools=[tool(each) for each in tools.functions()])
        assert tools.ran == []
        assert "Tool 'rm' blocked" in found["c1"]

    @pytest.mark.parametrize("arguments", ["[1]", "{", '"x"'])
    async def test_arguments_other_than_an_object_are_blocked(self, arguments: str) -> None:
        """A call whose arguments are no object is blocked."""
        tools = Tools()
        agent = agent_of(tools.functions())
        config = TestConfig(
            ToolCallEvent("test", id="c1", arguments=arguments), "done", raise_tool_errors=False
        )
        found = await outputs_of(gate_agent(agent, RULED), config=config)
        assert tools.ran == []
        assert "Tool 'test' blocked" in found["c1"]

    async def test_edit_keeps_a_structured_result(self) -> None:
        """A structured result keeps its value, and the note about the edit follows it."""

        @tool
        def deploy(env: str) -> dict[str, str]:
            """Deploy."""
            return {"env": env}

        gate = approving(RULES, env="staging")
        found = await outputs_of(
            gate_agent(agent_of([deploy], [Call("c1", "deploy", {"env": "prod"})]), gate)
        )
        assert "staging" in found["c1"]
        assert NOTICE in found["c1"]

    async def test_unsuitable_edit_does_not_run(self) -> None:
        """A tool does not run with an edited input that does not fit."""
        tools = Tools()
        agent = agent_of(tools.functions(), [Call("c1", "deploy", {"env": "prod"})])
        await outputs_of(gate_agent(agent, approving(RULES, env=["a"])))
        assert tools.ran == []

    async def test_cancelled_call_has_an_unknown_outcome(self) -> None:
        """A cancelled call has an unknown outcome, which unlocks nothing."""
        begun, gates, tools = asyncio.Event(), Gates(RULED), Tools()

        @tool
        async def test() -> str:
            """Test."""
            begun.set()
            return await asyncio.Future()

        agent = gate_agent(agent_of([test], [Call("c1", "test")]), gates, thread="t")
        run = asyncio.ensure_future(agent.ask("go"))
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        release = agent_of(tools.functions(), [Call("c2", "release")])
        found = await outputs_of(gate_agent(release, gates, thread="t"))
        assert tools.ran == []
        assert "blocked" in found["c2"]


DEPLOY = Call("c1", "deploy", {"env": "prod"})
LOOKUP = Call("c2", "lookup", {"text": "a"})


class TestPauses:
    async def run_until_stopped(self, agent: Agent, gates: Gates, **how: Any) -> MemoryStream:
        """Run a turn until it stops, and return its stream."""
        stream = MemoryStream()
        gate_agent(agent, gates, thread="t1", pause_after=0.0)
        run = await run_of(stream, await agent.ask("go", stream=stream, **how))
        assert run.paused is not None
        return await restored(run.paused)

    async def resume_turn(self, agent: Agent, gates: Gates, stream: MemoryStream) -> dict[str, str]:
        """Resume a turn and return its results."""
        gate_agent(agent, gates, thread="t1", pause_after=5.0)
        events = await ask_again(agent, stream)
        assert events is not None
        await agent.resume(*events, stream=stream)
        return await results_of(stream)

    @pytest.mark.slow
    async def test_model_reads_all_results_in_order(self, tmp_path: Path) -> None:
        """The model reads the results of all calls of its answer in order, and each call runs once."""
        tools = Tools()
        async with place("at a server", tmp_path) as where:
            agent = agent_of(tools.functions(), [DEPLOY, LOOKUP])
            stream = await self.run_until_stopped(agent, where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True, input=EDITED)
            found = await self.resume_turn(agent_of(tools.functions()), where.gates(), stream)
        assert tools.ran == [("lookup", {"text": "a"}), ("deploy", EDITED)]
        assert NOTICE in found["c1"]
        events = list(await stream.history.get_events())
        made = [each for each in events if isinstance(each, ModelResponse) and each.tool_calls]
        read = [each for each in events if isinstance(each, ToolResultsEvent)]
        assert [[call.id for call in each.tool_calls.calls] for each in made] == [["c1", "c2"]]
        assert [[each.parent_id for each in results.results] for results in read] == [["c1", "c2"]]

    @pytest.mark.slow
    async def test_turn_resumes_when_all_calls_are_decided(self, tmp_path: Path) -> None:
        """A turn resumes when all of its calls are decided, and a denied call does not run."""
        tools, calls = Tools(), [DEPLOY, Call("c2", "push", {"branch": "main"})]
        async with place("at a server", tmp_path) as where:
            stream = await self.run_until_stopped(agent_of(tools.functions(), calls), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(False, reason="not today")
            other = gate_agent(agent_of([]), where.gates(), thread="t1", pause_after=0.0)
            assert await ask_again(other, stream) is None
            where.operator.answers["push"] = ApprovalAnswer(True)
            found = await self.resume_turn(agent_of(tools.functions()), where.gates(), stream)
        assert tools.names() == ["push"]
        assert "not today" in found["c1"]
        assert sorted(where.operator.asked) == ["deploy", "push"]

    @pytest.mark.slow
    @pytest.mark.parametrize("later", ["c1", "c2"])
    async def test_second_pause_resumes_only_the_new_call(self, later: str, tmp_path: Path) -> None:
        """A turn that stops again resumes with the new waiting call only, even under the same id."""
        tools, push = Tools(), [Call(later, "push", {"branch": "main"})]
        async with place("at a server", tmp_path) as where:
            stream = await self.run_until_stopped(agent_of(tools.functions(), [DEPLOY]), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            await until_decided(where, "c1")
            again = agent_of(tools.functions(), push)
            gate_agent(again, where.gates(), thread="t1", pause_after=1.0)
            events = await ask_again(again, stream)
            assert events is not None
            run = await run_of(stream, await again.resume(*events, stream=stream))
            assert tools.names() == ["deploy"]
            where.operator.answers["push"] = ApprovalAnswer(True)
            found = await self.resume_turn(
                agent_of(tools.functions()), where.gates(), await restored(run.paused)
            )
        assert tools.names() == ["deploy", "push"]
        assert sorted(where.operator.asked) == ["deploy", "push"]
        assert "pushed main" in found[later]

    @pytest.mark.slow
    async def test_call_changed_by_middleware_is_requested_once(self, tmp_path: Path) -> None:
        """A call that middleware changes is requested once, in its changed form."""
        tools = Tools()

        def agent(*answers: Sequence[Call]) -> Agent:
            return agent_of([tool(tools.functions()[2], middleware=[change])], *answers)

        async with place("at a server", tmp_path) as where:
            calls = [Call("c1", "deploy", {"env": "test"})]
            stream = await self.run_until_stopped(agent(calls), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            await self.resume_turn(agent(), where.gates(), stream)
        assert tools.ran == [("deploy", {"env": "prod"})]
        assert where.operator.asked == ["deploy"]

    @pytest.mark.slow
    async def test_approval_does_not_cover_changed_history(self, tmp_path: Path) -> None:
        """An approval does not cover a call that was changed in the saved history."""
        tools = Tools()
        async with place("at a server", tmp_path) as where:
            stream = await self.run_until_stopped(agent_of(tools.functions(), [DEPLOY]), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            await until_decided(where, "c1")
            where.operator.answers["deploy"] = ApprovalAnswer(False, reason="another one")
            for each in await stream.history.get_events():
                if isinstance(each, ModelResponse) and not each.response_force:
                    each.tool_calls.calls[0].arguments = json.dumps({"env": "moon"})
            await self.resume_turn(agent_of(tools.functions()), where.gates(), stream)
        assert tools.ran == []

    async def test_agent_as_a_tool_does_not_pause(self, tmp_path: Path) -> None:
        """The turn of an agent that is a tool does not stop, because nobody would resume it."""
        tools, stream = Tools(), MemoryStream()
        below = agent_of(tools.functions(), [DEPLOY], name="below")
        above = agent_of(
            [below.as_tool(description="Below")], [Call("a1", "task_below", {"objective": "x"})]
        )
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            gate_agent(above, where.gates(), thread="t1", pause_after=0.0)
            run = asyncio.ensure_future(above.ask("go", stream=stream))
            await until(where.server.hub.approvals)
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            reply = await run
        assert tools.names() == ["deploy"]
        assert reply.body == "done"

    async def test_turn_with_client_tools_does_not_pause(self, tmp_path: Path) -> None:
        """A turn with a client's tools does not stop; otherwise the client would get the waiting call."""
        tools = Tools()
        agent = agent_of([*tools.functions(), CLIENT], [DEPLOY])
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            gate_agent(agent, where.gates(), thread="t1", pause_after=0.0, passthrough=("outside",))
            run = asyncio.ensure_future(agent.ask("go"))
            await until(where.server.hub.approvals)
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            await run
        assert tools.names() == ["deploy"]

    async def test_turn_without_a_pause_cannot_resume(self) -> None:
        """A turn that has not stopped has nothing to resume, and an agent without a gate is an error."""
        agent, stream = gate_agent(agent_of([]), RULED, pause_after=0.0), MemoryStream()
        assert await ask_again(agent, stream) is None
        await agent.ask("go", stream=stream)
        assert await ask_again(agent, stream) is None
        with pytest.raises(TypeError, match="has no gate"):
            await ask_again(agent_of([]), stream)


class TestServed:
    async def test_waiting_call_runs_once_over_ag_ui(self) -> None:
        """The client is not asked to run a waiting call, which runs once after its approval."""
        pytest.importorskip("ag_ui", reason="pip install 'ag2[ag-ui]'")
        from ag2.ag_ui import AGUIStream
        from ag_ui.core import RunAgentInput, UserMessage

        asked, answers, tools = asyncio.Event(), asyncio.Event(), Tools()

        async def confirm(*_: object) -> ApprovalAnswer:
            asked.set()
            await answers.wait()
            return ApprovalAnswer(True)

        gates = Gates(compile_rules("require human-approval before deploy"), confirm=confirm)
        agent = agent_of(tools.functions(), [Call("d", "deploy", {"env": "prod"})])
        gate_agent(agent, gates, thread="t1", pause_after=0.0)
        sent: list[str] = []

        async def serve() -> None:
            async with AGUIStream(agent) as served:
                message = UserMessage(id="m", role="user", content="go")
                given = RunAgentInput(
                    thread_id="t",
                    run_id="r",
                    state={},
                    messages=[message],
                    tools=[],
                    context=[],
                    forwarded_props={},
                )
                async for each in served.dispatch(given):
                    sent.append(each)

        serving = asyncio.create_task(serve())
        async with asyncio.timeout(30):
            await asked.wait()
            answers.set()
            await serving
        text = "".join(sent)
        assert "TOOL_CALL_CHUNK" not in text
        assert "TOOL_CALL_RESULT" in text
        assert tools.names() == ["deploy"]


class Own:
    """A tool of a class without support for middleware."""

    name = "own"
    declared_in_code = True

    async def schemas(self, context: Any) -> list[Any]:
        return []

    def register(self, stack: Any, context: Any, *, middleware: Any = ()) -> None: ...


CLIENT = ClientTool({"function": {"name": "outside"}})


class TestUnseenTools:
    @pytest.mark.parametrize(
        ("made", "name"),
        [
            (WebSearchTool(), "web_search"),
            (CLIENT, "outside"),
            (background_agent_tool(Agent("below"), description="Below"), "start_below"),
        ],
    )
    async def test_are_refused(self, made: Any, name: str) -> None:
        """Tools that the gate cannot see are refused by name unless `passthrough` names them."""
        with pytest.raises(UnseenToolError) as refused:
            gate_agent(agent_of([made]), RULED)
        names = tuple(refused.value.unseen)
        assert len(names) == 1
        found = await check_coverage(gate_agent(agent_of([made]), RULED, passthrough=names))
        assert tuple(found.unseen) == names

    def test_custom_class_is_refused(self) -> None:
        """A tool of an unknown class is refused, because it may run without the gate."""
        agent = agent_of([])
        agent._additional_tools.append(Own())  # type: ignore[arg-type]
        with pytest.raises(UnseenToolError, match="'own': its class decides itself how it runs"):
            gate_agent(agent, RULED)

    def test_subtasks_are_refused(self) -> None:
        """Subtasks are refused, because their agents have no gate."""
        with pytest.raises(UnseenToolError, match="'run_subtask': it runs agents of its own"):
            gate_agent(agent_of([], tasks=TaskConfig()), RULED)

    async def test_unseen_tool_of_one_turn_ends_it(self) -> None:
        """An unseen tool that is passed for one turn ends the turn before the model is asked."""
        agent = gate_agent(agent_of([]), RULED)
        with pytest.raises(UnseenToolError, match="'web_search'"):
            await agent.ask("go", tools=[WebSearchTool()])

    async def test_probe_without_a_gate_raises(self) -> None:
        """The probe raises an error without a gate, and if it runs."""
        with pytest.raises(TypeError, match="has no gate"):
            await check_coverage(agent_of([]))
        agent = gate_agent(agent_of([]), RULED)
        executor: Any = agent._tool_executor
        executor.register = executor.inner.register
        with pytest.raises(CoverageError, match="no call is gated"):
            await check_coverage(agent)

    def test_second_gate_is_refused(self) -> None:
        """A second gate for an agent is refused."""
        agent = gate_agent(agent_of([]), RULED)
        with pytest.raises(ValueError, match="'bot' has a gate already"):
            gate_agent(agent, RULED)
