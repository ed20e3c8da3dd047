"""The adapter for the OpenAI Agents SDK, with the SDK's scripted model."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="pip install 'interlock[openai-agents]'")

from agents import Agent, RunConfig, Runner, RunState, WebSearchTool, function_tool, handoff
from agents.testing import ScriptedModel, assistant_message, function_call

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.adapters.openai_agents import ask_again, check_coverage, gate_agent
from interlock.engine import create_gate
from interlock.rules import compile_rules

from ..engine.gateway.served import until
from .contract import RULES, AdapterContract, Call, Driver, Run, Setup, Tools, place

QUIET = RunConfig(tracing_disabled=True)


def agent_of(tools: Tools, calls: Sequence[Call], **more: Any) -> Agent[Any]:
    """Return an agent whose model makes these calls in one answer and then ends."""
    answer = [function_call(each.tool, each.arguments, call_id=each.id) for each in calls]
    end = [assistant_message("done")]
    made = [function_tool(each) for each in tools.functions()]
    return Agent(name="bot", model=ScriptedModel([answer, end] if calls else [end]), tools=made, **more)


class OpenAIDriver(Driver):
    """Runs and resumes through `Runner` and `RunState`."""

    pauses = True
    failure = "An error occurred while running the tool"

    async def run(self, setup: Setup) -> Run:
        agent = gate_agent(
            agent_of(setup.tools, setup.calls),
            setup.gate,
            thread=setup.thread,
            pause_after=setup.pause_after,
        )
        return self._read(await Runner.run(agent, "go", run_config=QUIET))

    async def resume(self, setup: Setup, paused: object) -> Run:
        agent = gate_agent(agent_of(setup.tools, []), setup.gate, thread=setup.thread, pause_after=0.0)
        state = await RunState.from_string(agent, str(paused))
        await ask_again(agent, state)
        return self._read(await Runner.run(agent, state, run_config=QUIET))

    def _read(self, result: Any) -> Run:
        outputs = {
            item.raw_item["call_id"]: str(item.output)
            for item in result.new_items
            if item.type == "tool_call_output_item"
        }
        return Run(outputs, result.to_state().to_string() if result.interruptions else None)

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(gate_agent(agent_of(tools, []), gate))


@pytest.mark.slow
class TestContract(AdapterContract):
    driver = OpenAIDriver()


class TestUnseenTools:
    def test_refused_by_name(self) -> None:
        """A tool that OpenAI runs is refused before the agent runs."""
        agent = agent_of(Tools(), [])
        agent.tools.append(WebSearchTool())
        with pytest.raises(UnseenToolError, match="'web_search': OpenAI runs it"):
            gate_agent(agent, create_gate(compile_rules(RULES).registry))

    async def test_passed_through_and_reported(self) -> None:
        """A tool that `passthrough` names stays, and the report lists it."""
        agent = agent_of(Tools(), [])
        agent.tools.append(WebSearchTool())
        gate = create_gate(compile_rules(RULES).registry)
        found = await check_coverage(gate_agent(agent, gate, passthrough=("web_search",)))
        assert list(found.unseen) == ["web_search"]
        assert "web_search" in str(found)

    async def test_later_tool_stops_the_run(self) -> None:
        """Such a tool that is added after the agent was gated stops the run."""
        agent = gate_agent(agent_of(Tools(), []), create_gate(compile_rules(RULES).registry))
        agent.tools.append(WebSearchTool())
        with pytest.raises(UnseenToolError):
            await Runner.run(agent, "go", run_config=QUIET)


class TestReach:
    async def test_agents_in_handoffs_and_tools_share_the_session(self) -> None:
        """Agents behind a handoff and among the tools share the gate and the session."""
        tools = Tools(fails=False)
        inner = agent_of(tools, [Call("i1", "rm", {"path": "/"})])
        after = agent_of(tools, [Call("a1", "rm", {"path": "/"}), Call("a2", "release")])
        after.name = "after"
        calls = [
            [
                function_call("ask_inner", {"input": "go"}, call_id="c1"),
                function_call("test", {}, call_id="c2"),
            ],
            [function_call("transfer_to_after", {}, call_id="c3")],
        ]
        outer = agent_of(tools, [])
        outer.model = ScriptedModel(calls)
        outer.tools.append(inner.as_tool("ask_inner", "Ask"))
        outer.handoffs.append(handoff(after))
        gate_agent(outer, create_gate(compile_rules(RULES).registry))
        await Runner.run(outer, "go", run_config=QUIET)
        # The release needs the test that ran before the handoff.
        assert tools.names() == ["release", "test"]

    async def test_clones_are_gated(self) -> None:
        """A clone of a gated agent is gated, too."""
        tools = Tools()
        agent = gate_agent(
            agent_of(tools, [Call("c1", "rm", {"path": "/"})]), create_gate(compile_rules(RULES).registry)
        )
        await Runner.run(agent.clone(name="copy"), "go", run_config=QUIET)
        assert tools.ran == []

    async def test_run_without_a_thread_is_its_own_session(self) -> None:
        """Without a thread, a call in one run unlocks nothing in the next run of the agent."""
        tools = Tools(fails=False)
        agent = gate_agent(
            agent_of(tools, [Call("c1", "test")]), create_gate(compile_rules(RULES).registry)
        )
        await Runner.run(agent, "go", run_config=QUIET)
        agent.model = ScriptedModel(
            [[function_call("release", {}, call_id="c2")], [assistant_message("done")]]
        )
        await Runner.run(agent, "go", run_config=QUIET)
        assert tools.names() == ["test"]

    @pytest.mark.slow
    async def test_state_of_finished_runs_is_released(self) -> None:
        """The state of a finished run without a thread is released."""
        gates = Gates(create_gate(compile_rules(RULES).registry))
        await Runner.run(
            gate_agent(agent_of(Tools(), [Call("c1", "test")]), gates), "go", run_config=QUIET
        )
        gc.collect()
        assert gates._open == {}


class TestProbe:
    async def test_missing_gate_is_an_error(self) -> None:
        """The error says that the agent has no gate."""
        with pytest.raises(TypeError, match="has no gate"):
            await check_coverage(agent_of(Tools(), []))

    async def test_probe_that_runs_raises(self) -> None:
        """The probe raises an error if it runs, because the tools bypass the gate."""
        agent = gate_agent(agent_of(Tools(), []), create_gate(compile_rules(RULES).registry))
        type(agent).get_all_tools = Agent.get_all_tools  # type: ignore[method-assign]
        with pytest.raises(CoverageError, match="no call is gated"):
            await check_coverage(agent)

    def test_pausing_needs_a_thread(self) -> None:
        """Pausing requires a thread, because a resumed run could not find its session otherwise."""
        with pytest.raises(ValueError, match="thread="):
            gate_agent(agent_of(Tools(), []), "x.rules", pause_after=1.0)


class TestOutcomes:
    async def test_cancelled_call_has_an_unknown_outcome(self, tmp_path: Path) -> None:
        """A cancelled call has an unknown outcome, which unlocks nothing."""
        started = asyncio.Event()

        @function_tool
        async def test() -> str:
            started.set()
            await asyncio.Event().wait()
            return "12 passed"

        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            agent = agent_of(Tools(), [Call("c1", "test")])
            agent.tools = [test]
            running = asyncio.create_task(
                Runner.run(gate_agent(agent, where.gates(), thread="t1"), "go", run_config=QUIET)
            )
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            hub = where.server.hub

            async def is_unknown() -> bool:
                return (await hub.session("bot:t1")).calls["c1"].status == "unknown"

            await until(is_unknown)


class TestArguments:
    async def test_repeated_key_blocks_the_call(self) -> None:
        """A call with a repeated key does not run, because gate and tool could read different values."""
        tools = Tools()
        agent = agent_of(tools, [])
        answer = [function_call("lookup", '{"text": "a", "text": "b"}', call_id="c1")]
        agent.model = ScriptedModel([answer, [assistant_message("done")]])
        gate_agent(agent, create_gate(compile_rules(RULES).registry))
        await Runner.run(agent, "go", run_config=QUIET)
        assert not tools.ran
