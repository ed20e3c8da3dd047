"""The adapter for CrewAI, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import pytest

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}
pytest.importorskip("crewai", reason="an mcp below 2: make adapters ADAPTERS=crewai")

from crewai import LLM, Agent, Crew, Process, Task
from crewai.hooks import clear_before_tool_call_hooks, register_before_tool_call_hook
from crewai.llms.base_llm import BaseLLM
from crewai.state.checkpoint_config import CheckpointConfig
from crewai.tools import BaseTool, tool
from pydantic import PrivateAttr

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.adapters.crewai import check_coverage, gate_agent, gate_crew
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules

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
    page_program,
)


class Script(BaseLLM):
    """A model that answers with calls or a text, one after the other, and records what it reads."""

    _answers: list[Sequence[Call] | str] = PrivateAttr()
    _native: bool = PrivateAttr(default=True)
    read: dict[str, str] = {}  # noqa: RUF012
    seen: str = ""

    def __init__(self, *answers: Sequence[Call] | str, native: bool = True) -> None:
        super().__init__(model="script")
        self._answers = list(answers)
        self._native = native

    def supports_function_calling(self) -> bool:
        return self._native

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.seen = "\n".join(str(each.get("content")) for each in messages)
        for each in messages:
            if each.get("role") == "tool":
                self.read[each["tool_call_id"]] = str(each["content"])
        if not self._answers:
            return "Thought: done\nFinal Answer: done"
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            return answer
        return [
            {"id": c.id, "type": "function", "function": {"name": c.tool, "arguments": c.arguments}}
            for c in answer
        ]


def tools_of(tools: Tools) -> list[BaseTool]:
    return [tool(each) for each in tools.functions()]


def agent_of(tools: Sequence[BaseTool], *answers: Sequence[Call] | str, **how: Any) -> Agent:
    script = Script(*answers, native=how.pop("native", True))
    given = {"role": "bot", "goal": "go", "backstory": "none", "llm": script, **how}
    return Agent(tools=list(tools), **given)


def crew_of(*agents: Agent, **how: Any) -> Crew:
    task = Task(description="go", expected_output="done", agent=agents[0])
    return Crew(agents=list(agents), tasks=[task], **how)


def model_of(agent: Agent) -> Script:
    assert isinstance(agent.llm, Script)
    return agent.llm


class CrewDriver(Driver):
    """A crew with one agent; it cannot pause."""

    async def run(self, setup: Setup) -> Run:
        agent = agent_of(tools_of(setup.tools), setup.calls)
        crew = gate_crew(crew_of(agent), setup.gate, thread=setup.thread)
        await asyncio.to_thread(crew.kickoff)
        return Run(model_of(agent).read)

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        crew = gate_crew(crew_of(agent_of(tools_of(tools))), gate)
        return await asyncio.to_thread(check_coverage, crew)


class TestContract(AdapterContract):
    driver = CrewDriver()


ONE = [Call("c1", "lookup", {"text": "a"})]
RM = [Call("c1", "rm", {"path": "/"})]


def text_call(name: str, **given: Any) -> str:
    return f"Thought: go\nAction: {name}\nAction Input: {json.dumps(given)}"


class TestCalls:
    async def test_asynchronous_run_is_gated(self) -> None:
        """The crew's event loop runs gated tools."""
        tools = Tools()
        agent = agent_of(tools_of(tools), [*ONE, Call("c2", "rm", {"path": "/"})])
        await gate_crew(crew_of(agent), RULED).akickoff()
        assert tools.names() == ["lookup"]
        assert "Tool 'rm' blocked" in model_of(agent).read["c2"]

    def test_calls_in_text_are_gated(self) -> None:
        """A model without function calls is gated, and reads about blocks and edits."""
        tools = Tools()
        answers = [text_call("rm", path="/"), text_call("deploy", env="prod")]
        agent = agent_of(tools_of(tools), *answers, native=False)
        gate_crew(crew_of(agent), approving(RULES, **EDITED)).kickoff()
        assert tools.ran == [("deploy", EDITED)]
        assert "Tool 'rm' blocked" in model_of(agent).seen
        assert NOTICE in model_of(agent).seen

    def test_gate_judges_the_converted_arguments(self) -> None:
        """The gate judges the values with which the tool runs."""

        @tool
        def scale(count: int = 3) -> str:
            """Scale."""
            ran.append(count)
            return "scaled"

        ran: list[int] = []
        asked: list[dict[str, Any]] = []

        def confirm(request: Any) -> ApprovalAnswer:
            asked.append(dict(request.call.input))
            return ApprovalAnswer(True)

        registry = compile_rules("require human-approval before scale").registry
        agent = agent_of([scale], [Call("c1", "scale", {"count": "5"}), Call("c2", "scale")])
        gate_crew(crew_of(agent), create_gate(registry, confirm=confirm)).kickoff()
        assert sorted(each["count"] for each in asked) == sorted(ran) == [3, 5]

    def test_gate_judges_arguments_changed_by_a_hook(self) -> None:
        """The gate judges the arguments after a hook changed them."""
        tools = Tools()

        def change(context: Any) -> None:
            context.tool_input["env"] = "prod"

        register_before_tool_call_hook(change)
        try:
            asked: list[Any] = []
            registry = compile_rules("require human-approval before deploy").registry
            gate = create_gate(
                registry, confirm=lambda r: asked.append(dict(r.call.input)) or ApprovalAnswer(False)
            )
            agent = agent_of(tools_of(tools), [Call("c1", "deploy", {"env": "test"})])
            gate_crew(crew_of(agent), gate).kickoff()
        finally:
            clear_before_tool_call_hooks()
        assert asked == [{"env": "prod"}]
        assert tools.ran == []

    def test_unsuitable_edit_does_not_run(self) -> None:
        """A tool does not run with an edited input that does not fit, and the model reads the reason."""
        tools = Tools()
        agent = agent_of(tools_of(tools), [Call("c1", "deploy", {"env": "prod"})])
        gate_crew(crew_of(agent), approving(RULES, env=["a"])).kickoff()
        assert tools.ran == []
        assert "its edited input does not fit" in model_of(agent).read["c1"]

    def test_results_are_not_cached(self) -> None:
        """A repeated call is judged again."""
        tools = Tools()
        agent = agent_of(tools_of(tools), [Call("c1", "publish")], [Call("c2", "publish")], cache=True)
        gate_crew(crew_of(agent, cache=True), RULED).kickoff()
        assert tools.names() == ["publish"]
        assert "blocked" in model_of(agent).read["c2"]

    def test_blocked_call_does_not_end_the_task(self) -> None:
        """A blocked call of a tool whose result ends the task does not end it."""

        @tool(result_as_answer=True)
        def rm(path: str) -> str:
            """Remove."""
            raise AssertionError

        agent = agent_of([rm], RM)
        assert "Final Answer: done" in str(gate_crew(crew_of(agent), RULED).kickoff())

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_interrupted_call_has_an_unknown_outcome(self, error: type[BaseException]) -> None:
        """An interrupted call has an unknown outcome, which unlocks nothing."""

        @tool
        def test() -> str:
            """Test."""
            raise error

        gates = Gates(RULED)
        with pytest.raises(error):
            gate_crew(crew_of(agent_of([test], [Call("c1", "test")])), gates, thread="t").kickoff()
        tools = Tools()
        agent = agent_of(tools_of(tools), [Call("c2", "release")])
        gate_crew(crew_of(agent), gates, thread="t").kickoff()
        assert tools.ran == []

    def test_asynchronous_tool_is_reported_at_its_end(self) -> None:
        """The result of an asynchronous tool is reported at its end."""

        class Test(BaseTool):
            name: str = "test"
            description: str = "Test"

            async def _run(self) -> str:  # type: ignore[override]
                await asyncio.sleep(0)
                return "12 passed"

        tools = Tools()
        agent = agent_of([Test(), *tools_of(tools)[5:6]], [Call("c1", "test")], [Call("c2", "release")])
        gate_crew(crew_of(agent), RULED).kickoff()
        assert model_of(agent).read["c1"] == "12 passed"
        assert tools.names() == ["release"]


class TestCrew:
    def test_each_kickoff_is_a_session(self) -> None:
        """Another kickoff starts with fresh nets."""
        tools = Tools()
        agent = agent_of(
            tools_of(tools), [Call("c1", "publish")], "Final Answer: x", [Call("c2", "publish")]
        )
        crew = gate_crew(crew_of(agent), RULED)
        crew.kickoff()
        crew.kickoff()
        assert tools.names() == ["publish", "publish"]

    def test_delegation_is_a_call_in_the_session(self) -> None:
        """Delegation is a call, and the coworker's calls belong to the same session."""
        tools = Tools(fails=False)
        given = {"task": "release", "context": "none", "coworker": "below"}
        first = [Call("c1", "test")], [Call("c2", "delegate_work_to_coworker", given)]
        above = agent_of(tools_of(tools), *first, allow_delegation=True)
        below = agent_of(tools_of(tools), [Call("b1", "release")], role="below")
        gate_crew(crew_of(above, below), RULED).kickoff()
        assert tools.names() == ["release", "test"]

    def test_delegation_can_be_blocked(self) -> None:
        """A rule about the call blocks the delegation."""
        tools = Tools()
        given = {"task": "look", "context": "none", "coworker": "below"}
        above = agent_of([], [Call("c1", "delegate_work_to_coworker", given)], allow_delegation=True)
        below = agent_of(tools_of(tools), ONE, role="below")
        gate_crew(crew_of(above, below), approving("block delegate_work_to_coworker")).kickoff()
        assert tools.ran == []

    @pytest.mark.parametrize("again", [lambda crew: crew, lambda crew: crew.copy()])
    def test_manager_is_gated(self, again: Callable[[Crew], Crew]) -> None:
        """The manager that a crew creates has gated tools, also in a copy of the crew."""
        tools = Tools()
        worker = agent_of([])
        manager = Script([Call("c1", "lookup", {"text": "a"})], RM)
        task = Task(description="go", expected_output="done", tools=tools_of(tools))
        crew = Crew(agents=[worker], tasks=[task], process=Process.hierarchical, manager_llm=manager)
        again(gate_crew(crew, RULED)).kickoff()
        assert tools.names() == ["lookup"]

    def test_copies_are_gated(self) -> None:
        """A copy of a crew for each input has the gate and its own session."""
        tools = Tools()
        agent = agent_of(tools_of(tools), [Call("c1", "publish"), Call("c2", "rm", {"path": "/"})])
        crew = gate_crew(crew_of(agent), RULED)
        crew.kickoff_for_each([{"n": "1"}])
        assert tools.names() == ["publish"]

    def test_restored_crew_is_gated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A crew that is restored from a checkpoint has the gate of the crew that restored it."""
        tools = Tools()
        restored = crew_of(agent_of(tools_of(tools), RM))
        monkeypatch.setattr(Crew, "from_checkpoint", lambda _: restored)
        crew = gate_crew(crew_of(agent_of([])), RULED)
        crew.kickoff(from_checkpoint=CheckpointConfig(restore_from="earlier"))
        assert tools.ran == []
        assert "blocked" in model_of(restored.agents[0]).read["c1"]  # type: ignore[arg-type]

    def test_later_tools_are_gated(self) -> None:
        """An agent that a task gets later has gated tools."""
        tools = Tools()
        crew = gate_crew(crew_of(agent_of([])), RULED)
        agent = agent_of(tools_of(tools), RM)
        crew.tasks[0].agent = agent
        crew.kickoff()
        assert tools.ran == []
        assert "blocked" in model_of(agent).read["c1"]

    def test_shared_tool_stays_ungated_elsewhere(self) -> None:
        """A tool that another agent shares stays ungated there."""
        tools = Tools()
        shared = tools_of(tools)
        gate_crew(crew_of(agent_of(shared)), RULED)
        crew_of(agent_of(shared, RM)).kickoff()
        assert tools.names() == ["rm"]

    def test_second_gate_is_refused(self) -> None:
        """A second gate for an agent is refused."""
        agent = gate_agent(agent_of([]), RULED)
        with pytest.raises(ValueError, match="'bot' has a gate already"):
            gate_crew(crew_of(agent), RULED)


class TestPauses:
    def test_resumed_task_makes_no_open_calls(self) -> None:
        """CrewAI cannot pause: a resumed task makes none of the calls that its executor has kept.

        If this fails, the adapter may learn to pause.
        """
        tools = Tools()
        agent = agent_of(tools_of(tools))
        agent.create_agent_executor(tools=tools_of(tools), task=crew_of(agent).tasks[0])
        executor: Any = agent.agent_executor
        function = {"name": "lookup", "arguments": '{"text": "a"}'}
        executor.state.pending_tool_calls = [{"id": "c1", "type": "function", "function": function}]
        executor._resuming = True
        assert "done" in executor.invoke({"input": "go", "tool_names": "", "tools": ""})["output"]
        assert tools.ran == []


class TestPlans:
    def test_plan_steps_are_gated(self) -> None:
        """The steps of a plan call gated tools, also if the agent ran before it got a gate."""
        tools = Tools()
        agent = agent_of(tools_of(tools))

        def functions() -> list[Any]:
            agent.create_agent_executor(tools=tools_of(tools), task=crew_of(agent).tasks[0])
            executor: Any = agent.agent_executor
            executor._setup_native_tools()
            steps = executor._ensure_step_executor()
            return [steps._available_functions["rm"], executor._available_functions["rm"]]

        functions()
        gate_agent(agent, RULED)
        assert all("Tool 'rm' blocked" in str(run(path="/")) for run in functions())
        assert tools.ran == []


class TestAgent:
    @pytest.mark.parametrize("native", [True, False])
    def test_agent_without_a_crew_is_gated(self, native: bool) -> None:
        """An agent without a crew is gated, with a session for each kickoff."""
        tools = Tools()
        calls: list[Any] = [[Call("c1", "publish")], RM]
        if not native:
            calls = [text_call("publish"), text_call("rm", path="/")]
        agent = gate_agent(agent_of(tools_of(tools), *calls, native=native), RULED)
        agent.kickoff("go")
        assert tools.names() == ["publish"]
        assert "Tool 'rm' blocked" in model_of(agent).seen
        model_of(agent)._answers = calls[:1]
        agent.kickoff("go")
        assert tools.names() == ["publish", "publish"]

    def test_agent_in_a_crew_has_gated_task_tools(self) -> None:
        """A gated agent in a crew also has gated tools of its tasks."""
        tools = Tools()
        agent = gate_agent(agent_of([], RM), RULED)
        crew = crew_of(agent)
        crew.tasks[0].tools = tools_of(tools)
        crew.kickoff()
        assert tools.ran == []


class TestUnseenTools:
    def test_provider_tools_are_refused_by_name(self) -> None:
        """Tools that the model's provider runs are refused by name unless `passthrough` names them."""
        llm = LLM(model="gpt-4o", api="responses", builtin_tools=["web_search"], api_key="test")
        with pytest.raises(UnseenToolError, match="'web_search': the model's provider runs it"):
            gate_crew(crew_of(agent_of([], llm=llm)), RULED)
        crew = gate_crew(crew_of(agent_of([], llm=llm)), RULED, passthrough=("web_search",))
        assert list(check_coverage(crew).unseen) == ["web_search"]

    def test_later_provider_tool_stops_the_run(self) -> None:
        """An agent whose model gets such a tool later does not run."""
        crew = gate_crew(crew_of(agent_of([])), RULED)
        crew.agents[0].llm = LLM(
            model="gpt-4o", api="responses", builtin_tools=["web_search"], api_key="test"
        )
        with pytest.raises(UnseenToolError):
            crew.kickoff()

    def test_probe_without_a_gate_raises(self) -> None:
        """The probe raises an error without a gate."""
        with pytest.raises(TypeError, match="has no gate"):
            check_coverage(crew_of(agent_of([])))

    def test_probe_after_removing_the_gate_raises(self) -> None:
        """The probe raises an error if the agent's original method was restored."""
        crew = gate_crew(crew_of(agent_of([])), RULED)
        method = MethodType(Agent.create_agent_executor, crew.agents[0])
        object.__setattr__(crew.agents[0], "create_agent_executor", method)
        with pytest.raises(CoverageError, match="no call is gated"):
            check_coverage(crew)


class TestPage:
    def test_its_programs_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The page's program gates its crew."""
        model = Script([Call("c1", "deploy", {"env": "prod"})])
        page_program("crewai", tmp_path, monkeypatch, model)
        assert "blocked" in model.read["c1"]
        assert "as it should be" in capsys.readouterr().out
