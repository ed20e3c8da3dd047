"""The adapter for smolagents, with a scripted model."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="pip install 'interlock[smolagents]'")

from smolagents import CodeAgent, Tool, ToolCallingAgent, ToolOutput, tool
from smolagents.local_python_executor import CodeOutput, PythonExecutor
from smolagents.memory import ActionStep, TaskStep, ToolCall
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)
from smolagents.monitoring import LogLevel, Timing

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, UnseenToolError
from interlock.adapters.smolagents import check_coverage, gate_agent
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules, condition_of

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
)


class Script(Model):
    """A model that answers with calls or code, one after the other, and records what it reads."""

    def __init__(self, *answers: Sequence[Call] | str) -> None:
        super().__init__(model_id="script")
        self.answers = list(answers)
        self.read: list[str] = []

    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        self.read = [
            "".join(part.get("text", "") for part in message.content)
            for message in messages
            if isinstance(message.content, list)
        ]
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return ChatMessage(MessageRole.ASSISTANT, f"Thought: go\n<code>\n{answer}\n</code>")
        made = [
            ChatMessageToolCall(
                function=ChatMessageToolCallFunction(name=c.tool, arguments=dict(c.input)),
                id=c.id,
                type="function",
            )
            for c in answer
        ]
        return ChatMessage(MessageRole.ASSISTANT, "", tool_calls=made)


END = [Call("end", "final_answer", {"answer": "done"})]


def inputs_of(function: Callable[..., str]) -> dict[str, Any]:
    names = [name for name in function.__annotations__ if name != "return"]
    return {name: {"type": "string", "description": name} for name in names}


def tools_of(tools: Tools, *, raises: bool = False) -> list[Tool]:
    """Return tools whose errors are results, or with `raises` end the whole step."""

    def made(function: Callable[..., str]) -> Tool:
        @functools.wraps(function)
        def forward(*args: Any, **given: Any) -> str:
            try:
                return function(*args, **given)
            except RuntimeError as error:
                if raises:
                    raise
                return f"Error: {error}"

        class Made(Tool):
            name = function.__name__
            description = function.__doc__ or ""
            inputs = inputs_of(function)
            output_type = "string"
            skip_forward_signature_validation = True

        one = Made()
        one.forward = forward  # type: ignore[method-assign]
        return one

    return [made(each) for each in tools.functions()]


def calling(tools: Tools, *answers: Sequence[Call], raises: bool = False) -> ToolCallingAgent:
    model = Script(*answers, END)
    return ToolCallingAgent(tools_of(tools, raises=raises), model, verbosity_level=LogLevel.OFF)


def coding(tools: Tools, *answers: str) -> CodeAgent:
    model = Script(*answers, 'final_answer("done")')
    return CodeAgent(tools_of(tools, raises=True), model, verbosity_level=LogLevel.OFF)


class SmolDriver(Driver):
    """An agent whose model calls tools; it runs in a thread, and cannot pause."""

    async def run(self, setup: Setup) -> Run:
        agent = gate_agent(calling(setup.tools, setup.calls), setup.gate, thread=setup.thread)
        events = await asyncio.to_thread(lambda: list(agent.run("go", stream=True)))
        return Run({each.id: each.observation for each in events if isinstance(each, ToolOutput)})

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        agent = gate_agent(calling(tools), gate)
        return await asyncio.to_thread(check_coverage, agent)


class TestContract(AdapterContract):
    driver = SmolDriver()


class TestCalls:
    def test_error_that_ends_the_step_counts_as_failed(self) -> None:
        """A tool whose error ends the step counts as failed."""
        tools = Tools()
        agent = gate_agent(
            calling(tools, [Call("c1", "test")], [Call("c2", "release")], raises=True), RULED
        )
        agent.run("go")
        assert tools.names() == ["test"]
        assert "blocked" in agent.model.read[-1]

    def test_gate_judges_the_value_of_a_state_name(self) -> None:
        """The gate judges the value behind a name in the arguments."""
        tools = Tools()
        rules = 'block deploy when input.env = "prod"'
        agent = calling(tools, [Call("c1", "deploy", {"env": "where"})])
        gate_agent(agent, create_gate(compile_rules(rules).registry, conditions=condition_of))
        agent.run("go", additional_args={"where": "prod"})
        assert tools.ran == []

    def test_later_tool_is_gated(self) -> None:
        """A tool that an agent gets later is gated."""
        tools = Tools()
        agent = gate_agent(calling(tools, [Call("c1", "rm", {"path": "/"})]), RULED)
        agent.tools["rm"] = tools_of(tools)[1]
        agent.run("go")
        assert tools.ran == []

    def test_shared_tool_stays_ungated_elsewhere(self) -> None:
        """A tool that another agent shares stays ungated there."""
        tools = Tools()
        one, other = calling(tools, [Call("c1", "rm", {"path": "/"})]), calling(Tools())
        other.tools = dict(one.tools)
        gate_agent(other, RULED)
        one.run("go")
        assert tools.names() == ["rm"]

    def test_tool_setup_is_kept(self) -> None:
        """The setup that a tool runs before its first call is kept."""

        class Late(Tool):
            name = "late"
            description = "Late"
            inputs: dict[str, Any] = {}  # noqa: RUF012
            output_type = "string"

            def setup(self) -> None:
                self.ready = "ready"
                self.is_initialized = True

            def forward(self) -> str:
                return self.ready

        model = Script([Call("c1", "late")], END)
        agent = gate_agent(ToolCallingAgent([Late()], model, verbosity_level=LogLevel.OFF), RULED)
        agent.run("go")
        assert "ready" in model.read[-1]

    def test_arguments_changed_during_the_decision_have_no_effect(self) -> None:
        """A call runs with the approved arguments although the model's answer changes in between."""
        ran, target = list[Any](), {"env": "test"}

        class Deploy(Tool):
            name = "deploy"
            description = "Deploy"
            inputs: dict[str, Any] = {"target": {"type": "object", "description": "Where"}}  # noqa: RUF012
            output_type = "string"

            def forward(self, target: dict[str, str]) -> str:
                ran.append(dict(target))
                return "deployed"

        def confirm(_: Any) -> ApprovalAnswer:
            target["env"] = "prod"
            return ApprovalAnswer(True)

        model = Script([Call("c1", "deploy", {"target": target})], END)
        agent = ToolCallingAgent([Deploy()], model, verbosity_level=LogLevel.OFF)
        gate_agent(agent, create_gate(compile_rules(RULES).registry, confirm=confirm)).run("go")
        assert ran == [{"env": "test"}]

    def test_managed_agents_share_the_session(self) -> None:
        """The calls of managed agents belong to their manager's session."""
        tools = Tools(fails=False)
        below = calling(tools, [Call("b1", "release")])
        below.name, below.description = "below", "Below"
        above = ToolCallingAgent(
            tools_of(tools),
            Script([Call("c1", "test")], [Call("c2", "below", {"task": "release"})], END),
            managed_agents=[below],
            verbosity_level=LogLevel.OFF,
        )
        gate_agent(above, RULED).run("go")
        assert tools.names() == ["release", "test"]
        assert "blocked" not in below.model.read[-1]


class TestPauses:
    def test_saved_run_does_not_make_its_open_calls(self) -> None:
        """smolagents cannot pause: a run makes no call of its memory that has no result.

        If this fails, the adapter may learn to pause.
        """
        tools = Tools()
        agent = calling(tools)
        call = ToolCall("lookup", {"text": "a"}, "c1")
        agent.memory.steps = [TaskStep("go"), ActionStep(1, Timing(0.0), tool_calls=[call])]
        assert agent.run("go", reset=False) == "done"
        assert tools.ran == []


class TestCode:
    def test_code_block_is_a_call(self) -> None:
        """Blocked code does not run, and the model reads the reason."""
        tools = Tools()
        agent = gate_agent(coding(tools, 'lookup("a")'), approving("block python"))
        agent.run("go", max_steps=1)
        assert tools.ran == []
        assert "Tool 'python' blocked" in "".join(agent.model.read)

    def test_tools_of_the_code_are_calls(self) -> None:
        """A tool that the code calls is blocked separately, and ends the block of code."""
        tools = Tools()
        agent = gate_agent(coding(tools, 'lookup("a")\nrm("/")\nlookup("b")'), RULED)
        agent.run("go")
        assert tools.ran == [("lookup", {"text": "a"})]
        assert "Tool 'rm' blocked" in agent.model.read[-1]

    def test_edited_tool_returns_its_plain_value(self) -> None:
        """The code gets the tool's plain value, and the model reads about the edit in the logs."""
        tools = Tools()
        agent = coding(tools, 'print(deploy("prod") == "deployed to staging")')
        gate_agent(agent, approving("require human-approval before deploy", **EDITED)).run("go")
        assert tools.ran == [("deploy", EDITED)]
        assert "True" in agent.model.read[-1]
        assert NOTICE in agent.model.read[-1]

    def test_edited_code_runs_as_approved(self) -> None:
        """An edited block runs as approved."""
        tools = Tools()
        agent = coding(tools, 'lookup("a")')
        answers = iter([ApprovalAnswer(True, input={"code": 'lookup("b")'}), ApprovalAnswer(True)])
        registry = compile_rules("require human-approval before python").registry
        gate_agent(agent, create_gate(registry, confirm=lambda _: next(answers))).run("go")
        assert tools.ran == [("lookup", {"text": "b"})]
        assert "A person changed code" in agent.model.read[-1]

    def test_earlier_function_calls_gated_tools(self) -> None:
        """A function that an earlier block defined calls gated tools."""
        tools = Tools()
        agent = coding(tools, 'def clean():\n    return rm("/")', "clean()")
        gate_agent(agent, RULED).run("go")
        assert tools.ran == []
        assert "Tool 'rm' blocked" in agent.model.read[-1]

    def test_coverage(self) -> None:
        """The report lists the code beside the tools."""
        assert check_coverage(gate_agent(coding(Tools()), RULED)).gated[:2] == ("python", "lookup")


class Elsewhere(PythonExecutor):
    """An executor that represents one on another machine."""

    def send_tools(self, tools: dict[str, Tool]) -> None:
        self.tools = tools

    def send_variables(self, variables: dict[str, Any]) -> None:
        pass

    def __call__(self, code_action: str) -> CodeOutput:
        return CodeOutput(output="done", logs="", is_final_answer=True)


class TestUnseenTools:
    def agent(self) -> CodeAgent:
        @tool
        def lookup(text: str) -> str:
            """Look something up.

            Args:
                text: What.
            """
            return text

        return CodeAgent([lookup], Script("1"), executor=Elsewhere(), verbosity_level=LogLevel.OFF)

    def test_remote_executor_tools_are_refused(self) -> None:
        """Tools that run in a remote executor are refused by name."""
        with pytest.raises(UnseenToolError, match="'lookup': the code's executor runs it elsewhere"):
            gate_agent(self.agent(), RULED)

    def test_passthrough(self) -> None:
        """Tools that `passthrough` names are sent unchanged, and the code itself is gated."""
        agent = gate_agent(self.agent(), RULED, passthrough=("lookup",))
        assert agent.run("go") == "done"
        found = check_coverage(agent)
        assert found.gated == ("python",)
        assert list(found.unseen) == ["lookup"]

    def test_probe_without_a_gate_raises(self) -> None:
        """The probe raises an error without a gate."""
        with pytest.raises(TypeError, match="has no gate"):
            check_coverage(calling(Tools()))
