"""The adapter for LlamaIndex, with its own mock model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="pip install 'interlock-gate[llama-index]' (350 MB)")

from llama_index.core.agent.workflow import (
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, UnseenToolError
from interlock.adapters.llama_index import check_coverage, gate_agent
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules, condition_of

from ..docs.blocks import ROOT, blocks_of
from .contract import RULES, AdapterContract, Call, Run, Tools


def model_of(*answers: Sequence[Call] | str) -> MockFunctionCallingLLM:
    """A model that answers with calls or a text, one answer after the other."""
    pending = list(answers)

    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        found = pending.pop(0) if pending else "Answer: done"
        if isinstance(found, str):
            return ChatMessage(role="assistant", blocks=[TextBlock(text=found)])
        blocks = [
            ToolCallBlock(tool_call_id=c.id, tool_name=c.tool, tool_kwargs=dict(c.input)) for c in found
        ]
        return ChatMessage(role="assistant", blocks=blocks)

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)


def agent_of(tools: Tools, *answers: Sequence[Call] | str, **how: Any) -> FunctionAgent:
    return FunctionAgent(tools=tools.functions(), llm=model_of(*answers), **{"name": "bot", **how})


async def outputs_of(agent: Any, **how: Any) -> dict[str, str]:
    handler = agent.run(user_msg="go", **how)
    found = {}
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            found[event.tool_id] = event.tool_output.content
    await handler
    return found


class LlamaDriver:
    """A function agent."""

    pauses = False
    failure = "3 tests failed"

    async def run(
        self,
        tools: Tools,
        gate: Gates,
        calls: Sequence[Call],
        *,
        thread: str,
        pause_after: float | None = None,
    ) -> Run:
        return Run(await outputs_of(gate_agent(agent_of(tools, calls), gate, thread=thread)))

    async def resume(
        self, tools: Tools, gate: Gates, calls: Sequence[Call], paused: object, *, thread: str
    ) -> Run:
        raise NotImplementedError

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(gate_agent(agent_of(tools), gate))


class TestContract(AdapterContract):
    driver = LlamaDriver()


RULED = create_gate(compile_rules(RULES).registry)
RM = [Call("c1", "rm", {"path": "/"})]
PUBLISH = [Call("c1", "publish")]


def gate_of(rules: str, **edited: Any) -> Any:
    return create_gate(
        compile_rules(rules).registry,
        confirm=lambda _: ApprovalAnswer(True, input=edited or None),
        conditions=condition_of,
    )


class TestSessions:
    async def test_a_run(self) -> None:
        """Each run that gets no context is a session of its own."""
        tools = Tools()
        agent = gate_agent(agent_of(tools, PUBLISH, "done", PUBLISH), RULED)
        await outputs_of(agent)
        await outputs_of(agent)
        assert tools.names() == ["publish", "publish"]

    async def test_a_saved_context(self) -> None:
        """A conversation that goes on in another process is the same session."""
        tools, gates = Tools(), Gates(RULED)
        agent = gate_agent(agent_of(tools, PUBLISH), gates)
        context = Context(agent)
        await outputs_of(agent, ctx=context)
        other = gate_agent(agent_of(tools, PUBLISH), gates)
        await outputs_of(other, ctx=Context.from_dict(other, context.to_dict()))
        assert tools.names() == ["publish"]


class TestAgents:
    async def test_one_that_writes_its_calls(self) -> None:
        """A ReAct agent's calls pass the gate as well."""
        tools = Tools()
        answers = [
            f"Thought: go\nAction: {name}\nAction Input: {given}"
            for name, given in (("rm", '{"path": "/"}'), ("lookup", '{"text": "a"}'))
        ]
        agent = ReActAgent(tools=tools.functions(), llm=model_of(*answers, "Thought: x\nAnswer: done"))
        found = await outputs_of(gate_agent(agent, RULED))
        assert tools.names() == ["lookup"]
        assert any("Tool 'rm' blocked" in each for each in found.values())

    async def test_a_workflow_of_agents(self) -> None:
        """All of its agents are of one session, and to hand over is a call."""
        tools = Tools(fails=False)
        handoff = Call("h1", "handoff", {"to_agent": "second", "reason": "test"})
        first = agent_of(tools, [Call("c1", "test")], [handoff], name="first", description="First")
        second = agent_of(tools, [Call("c2", "release"), *RM], name="second", description="Second")
        workflow = AgentWorkflow(agents=[first, second], root_agent="first")
        found = await outputs_of(gate_agent(workflow, RULED))
        assert tools.names() == ["release", "test"]
        assert "Tool 'rm' blocked" in found["c1"]

    async def test_a_handoff_that_is_blocked(self) -> None:
        """The agent that is not handed over to does not run."""
        tools = Tools()
        handoff = Call("h1", "handoff", {"to_agent": "second", "reason": "test"})
        first = agent_of(tools, [handoff], name="first", description="First")
        second = agent_of(tools, RM, name="second", description="Second")
        workflow = AgentWorkflow(agents=[first, second], root_agent="first")
        found = await outputs_of(gate_agent(workflow, gate_of("block handoff")))
        assert list(found) == ["h1"]

    async def test_code(self) -> None:
        """Code is a call of its own; tools that it would call are refused by name."""
        ran = []

        def execute(code: str) -> str:
            ran.append(code)
            return "done"

        def lookup(text: str) -> str:
            """Look up."""
            return text

        def agent() -> CodeActAgent:
            return CodeActAgent(execute, tools=[lookup], llm=model_of("<execute>1 + 1</execute>"))

        with pytest.raises(UnseenToolError, match="'lookup': the agent's code runs it"):
            gate_agent(agent(), RULED)
        gated = gate_agent(agent(), gate_of("block execute"), passthrough=("lookup",))
        found = await outputs_of(gated)
        assert ran == []
        assert any("Tool 'execute' blocked" in each for each in found.values())
        coverage = await check_coverage(gated)
        assert coverage.gated == ("execute",)

    async def test_no_gate(self) -> None:
        """The probe needs one."""
        with pytest.raises(TypeError, match="has no gate"):
            await check_coverage(agent_of(Tools()))


class TestCalls:
    async def test_arguments_that_the_program_has_set(self) -> None:
        """The gate judges them with the model's, as the tool runs with both."""
        ran = []

        def deploy(env: str, region: str) -> str:
            """Deploy."""
            ran.append((env, region))
            return "deployed"

        tool = FunctionTool.from_defaults(deploy, partial_params={"env": "prod"})
        agent = FunctionAgent(
            tools=[tool], llm=model_of([Call("c1", "deploy", {"region": "eu"})]), name="bot"
        )
        await outputs_of(gate_agent(agent, gate_of('block deploy when input.env = "prod"')))
        assert ran == []

    async def test_an_edit_that_leaves_them_out(self) -> None:
        """It does not run: the tool would add them again."""
        ran = []

        def deploy(env: str, region: str) -> str:
            """Deploy."""
            ran.append((env, region))
            return "deployed"

        tool = FunctionTool.from_defaults(deploy, partial_params={"env": "prod"})
        agent = FunctionAgent(
            tools=[tool], llm=model_of([Call("c1", "deploy", {"region": "eu"})]), name="bot"
        )
        gate = gate_of("require human-approval before deploy", region="us")
        found = await outputs_of(gate_agent(agent, gate))
        assert ran == []
        assert "leaves out what the tool fixes: env" in found["c1"]

    async def test_a_context_that_the_tool_takes(self) -> None:
        """The framework gives it, and the gate does not see it."""
        ran = []

        async def deploy(ctx: Context, env: str) -> str:
            """Deploy."""
            ran.append((isinstance(ctx, Context), env))
            return "deployed"

        # The framework reads it before annotations of this module are put off.
        deploy.__annotations__["ctx"] = Context
        agent = FunctionAgent(
            tools=[deploy], llm=model_of([Call("c1", "deploy", {"env": "prod"})]), name="bot"
        )
        gate = gate_of("require human-approval before deploy", env="staging")
        found = await outputs_of(gate_agent(agent, gate))
        assert ran == [(True, "staging")]
        assert "A person changed env" in found["c1"]

    async def test_a_tool_that_waits_itself(self) -> None:
        """It runs again when its event has come, and is asked about once."""
        begun = []

        async def ask(ctx: Context) -> str:
            """Ask a person."""
            begun.append(1)
            event = await ctx.wait_for_event(
                HumanResponseEvent, waiter_id="w", waiter_event=InputRequiredEvent(prefix="?")
            )
            return str(event.response)

        ask.__annotations__["ctx"] = Context
        asked = []
        gate = create_gate(
            compile_rules("require human-approval before ask").registry,
            confirm=lambda _: asked.append(1) or ApprovalAnswer(True),
        )
        agent = FunctionAgent(tools=[ask], llm=model_of([Call("c1", "ask")]), name="bot")
        handler = gate_agent(agent, gate).run(user_msg="go")
        found = ""
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                handler.ctx.send_event(HumanResponseEvent(response="yes"))
            if isinstance(event, ToolCallResult):
                found = event.tool_output.content
        await handler
        assert found == "yes"
        assert len(begun) == 2
        assert asked == [1]

    async def test_a_tool_that_is_cut_off(self) -> None:
        """Its outcome is unknown, which opens nothing."""
        begun = asyncio.Event()

        async def test() -> str:
            """Test."""
            begun.set()
            await asyncio.Event().wait()
            return ""

        gates, tools = Gates(RULED), Tools()
        agent = FunctionAgent(tools=[test], llm=model_of([Call("c1", "test")]), name="bot")
        handler = gate_agent(agent, gates, thread="t").run(user_msg="go")
        await begun.wait()
        await handler.cancel_run()
        with pytest.raises(BaseException):  # noqa: B017, PT011 - by the version of its workflows
            await handler
        release = agent_of(tools, [Call("c2", "release")])
        found = await outputs_of(gate_agent(release, gates, thread="t"))
        assert tools.ran == []
        assert "blocked" in found["c2"]


class TestPage:
    async def test_its_program_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The page's program gates its agent; other pages' run in `test_blocks.py`."""
        page = ROOT / "docs" / "how-to" / "adapters" / "llama-index.md"
        for block in blocks_of(page):
            if block.title is not None:
                (tmp_path / block.title).write_text(block.text)
        [program] = [block.text for block in blocks_of(page) if block.language == "python"]
        monkeypatch.chdir(tmp_path)
        names = {"__name__": "page", "model": model_of([Call("c1", "deploy", {"env": "prod"})])}
        await asyncio.to_thread(exec, compile(program, str(page), "exec"), names)
        assert "blocked" in str(names["result"].tool_calls[0].tool_output)
        assert "as it had to be" in capsys.readouterr().out
