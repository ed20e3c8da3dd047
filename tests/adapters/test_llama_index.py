"""The adapter for LlamaIndex, with LlamaIndex's mock model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="350 MB: make adapters ADAPTERS=llama-index")

from llama_index.core.agent.workflow import (
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, UnseenToolError
from interlock.adapters.llama_index import check_coverage, gate_agent, pause
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
    page_program,
    place,
    until_decided,
)


def model_of(*answers: Sequence[Call] | str) -> MockFunctionCallingLLM:
    """Return a model that answers with calls or a text, one answer after the other."""
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


class LlamaDriver(Driver):
    """A function agent; the saved state of a paused run is its context, as text."""

    pauses = True

    async def run(self, setup: Setup) -> Run:
        agent = gate_agent(
            agent_of(setup.tools, setup.calls),
            setup.gate,
            thread=setup.thread,
            pause_after=setup.pause_after,
        )
        return await self.follow(agent.run(user_msg="go"))

    async def resume(self, setup: Setup, paused: object) -> Run:
        agent = gate_agent(agent_of(setup.tools), setup.gate, thread=setup.thread, pause_after=0.0)
        return await self.follow(agent.run(ctx=Context.from_dict(agent, json.loads(str(paused)))))

    async def follow(self, handler: Any) -> Run:
        saved = await pause(handler)
        if saved is not None:
            return Run({}, json.dumps(saved))
        made = (await handler).tool_calls
        return Run({each.tool_id: each.tool_output.content for each in made})

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(gate_agent(agent_of(tools), gate))


class TestContract(AdapterContract):
    driver = LlamaDriver()


RM = [Call("c1", "rm", {"path": "/"})]
PUBLISH = [Call("c1", "publish")]


class TestSessions:
    async def test_run_without_a_context_is_its_own_session(self) -> None:
        """Each run without a context has its own session."""
        tools = Tools()
        agent = gate_agent(agent_of(tools, PUBLISH, "done", PUBLISH), RULED)
        await outputs_of(agent)
        await outputs_of(agent)
        assert tools.names() == ["publish", "publish"]

    async def test_saved_context_keeps_its_session(self) -> None:
        """A conversation that continues in another process is the same session."""
        tools, gates = Tools(), Gates(RULED)
        agent = gate_agent(agent_of(tools, PUBLISH), gates)
        context = Context(agent)
        await outputs_of(agent, ctx=context)
        other = gate_agent(agent_of(tools, PUBLISH), gates)
        await outputs_of(other, ctx=Context.from_dict(other, context.to_dict()))
        assert tools.names() == ["publish"]


class TestAgents:
    async def test_react_agent_is_gated(self) -> None:
        """The calls of a ReAct agent are gated."""
        tools = Tools()
        answers = [
            f"Thought: go\nAction: {name}\nAction Input: {given}"
            for name, given in (("rm", '{"path": "/"}'), ("lookup", '{"text": "a"}'))
        ]
        agent = ReActAgent(tools=tools.functions(), llm=model_of(*answers, "Thought: x\nAnswer: done"))
        found = await outputs_of(gate_agent(agent, RULED))
        assert tools.names() == ["lookup"]
        assert any("Tool 'rm' blocked" in each for each in found.values())

    async def test_workflow_is_one_session(self) -> None:
        """All agents of a workflow belong to one session, and a handoff is a call."""
        tools = Tools(fails=False)
        handoff = Call("h1", "handoff", {"to_agent": "second", "reason": "test"})
        first = agent_of(tools, [Call("c1", "test")], [handoff], name="first", description="First")
        second = agent_of(tools, [Call("c2", "release"), *RM], name="second", description="Second")
        workflow = AgentWorkflow(agents=[first, second], root_agent="first")
        found = await outputs_of(gate_agent(workflow, RULED))
        assert tools.names() == ["release", "test"]
        assert "Tool 'rm' blocked" in found["c1"]

    async def test_workflow_agent_alone_is_gated(self) -> None:
        """An agent of a gated workflow is also gated when it runs alone."""
        tools = Tools()
        first = agent_of(tools, RM, name="first", description="First")
        gate_agent(AgentWorkflow(agents=[first], root_agent="first"), RULED)
        found = await outputs_of(first)
        assert tools.ran == []
        assert "Tool 'rm' blocked" in found["c1"]

    async def test_later_tools_are_gated(self) -> None:
        """A tool that the agent gets later is gated."""
        tools = Tools()
        agent = gate_agent(FunctionAgent(tools=[], llm=model_of(RM), name="bot"), RULED)
        agent.tools = [FunctionTool.from_defaults(each) for each in tools.functions()]
        found = await outputs_of(agent)
        assert tools.ran == []
        assert "Tool 'rm' blocked" in found["c1"]

    async def test_blocked_handoff_does_not_run(self) -> None:
        """After a blocked handoff the other agent does not run."""
        tools = Tools()
        handoff = Call("h1", "handoff", {"to_agent": "second", "reason": "test"})
        first = agent_of(tools, [handoff], name="first", description="First")
        second = agent_of(tools, RM, name="second", description="Second")
        workflow = AgentWorkflow(agents=[first, second], root_agent="first")
        found = await outputs_of(gate_agent(workflow, approving("block handoff")))
        assert list(found) == ["h1"]

    async def test_code_is_a_call(self) -> None:
        """Code is a call, and tools that it would call are refused by name."""
        ran = []

        def execute(code: str) -> str:
            ran.append(code)
            return "done"

        def lookup(text: str) -> str:
            """Look up."""
            return text

        def agent() -> CodeActAgent:
            return CodeActAgent(execute, tools=[lookup], llm=model_of("<execute>1 + 1</execute>"))

        with pytest.raises(UnseenToolError, match="'lookup': the agent's code calls it directly"):
            gate_agent(agent(), RULED)
        gated = gate_agent(agent(), approving("block execute"), passthrough=("lookup",))
        found = await outputs_of(gated)
        assert ran == []
        assert any("Tool 'execute' blocked" in each for each in found.values())
        coverage = await check_coverage(gated)
        assert coverage.gated == ("execute",)

    async def test_probe_without_a_gate_raises(self) -> None:
        """The probe raises an error without a gate."""
        with pytest.raises(TypeError, match="has no gate"):
            await check_coverage(agent_of(Tools()))


class TestCalls:
    async def test_gate_judges_preset_arguments(self) -> None:
        """The gate judges preset arguments together with the model's."""
        ran = []

        def deploy(env: str, region: str) -> str:
            """Deploy."""
            ran.append((env, region))
            return "deployed"

        tool = FunctionTool.from_defaults(deploy, partial_params={"env": "prod"})
        agent = FunctionAgent(
            tools=[tool], llm=model_of([Call("c1", "deploy", {"region": "eu"})]), name="bot"
        )
        await outputs_of(gate_agent(agent, approving('block deploy when input.env = "prod"')))
        assert ran == []

    async def test_edit_without_preset_arguments_is_refused(self) -> None:
        """An edit without the preset arguments is refused, because the tool would add them again."""
        ran = []

        def deploy(env: str, region: str) -> str:
            """Deploy."""
            ran.append((env, region))
            return "deployed"

        tool = FunctionTool.from_defaults(deploy, partial_params={"env": "prod"})
        agent = FunctionAgent(
            tools=[tool], llm=model_of([Call("c1", "deploy", {"region": "eu"})]), name="bot"
        )
        gate = approving("require human-approval before deploy", region="us")
        found = await outputs_of(gate_agent(agent, gate))
        assert ran == []
        assert "lacks arguments that the tool presets: env" in found["c1"]

    async def test_arguments_changed_during_the_decision_have_no_effect(self) -> None:
        """A call runs with the approved arguments although its event changes in between."""
        seen, ran = list[Any](), list[Any]()

        def deploy(target: dict[str, str]) -> str:
            """Deploy."""
            ran.append(target)
            return "deployed"

        async def event_of() -> Any:
            return seen[0] if seen else None

        async def confirm(_: object) -> ApprovalAnswer:
            event = await until(event_of)
            event.tool_kwargs["target"]["env"] = "prod"
            return ApprovalAnswer(True)

        calls = [Call("c1", "deploy", {"target": {"env": "test"}})]
        agent = FunctionAgent(tools=[deploy], llm=model_of(calls), name="bot")
        gate = create_gate(compile_rules(RULES).registry, confirm=confirm)
        handler = gate_agent(agent, gate).run(user_msg="go")
        async for event in handler.stream_events():
            if type(event) is ToolCall:
                seen.append(event)
        await handler
        assert ran == [{"env": "test"}]

    async def test_context_parameter_is_not_judged(self) -> None:
        """The framework passes the context, which the gate does not see."""
        ran = []

        async def deploy(ctx: Context, env: str) -> str:
            """Deploy."""
            ran.append((isinstance(ctx, Context), env))
            return "deployed"

        # The framework reads it, but the annotations of this module are texts.
        deploy.__annotations__["ctx"] = Context
        agent = FunctionAgent(
            tools=[deploy], llm=model_of([Call("c1", "deploy", {"env": "prod"})]), name="bot"
        )
        gate = approving("require human-approval before deploy", env="staging")
        found = await outputs_of(gate_agent(agent, gate))
        assert ran == [(True, "staging")]
        assert "A person changed env" in found["c1"]

    async def test_tool_that_waits_for_an_event_has_one_request(self) -> None:
        """A tool that waits for an event runs again afterwards, with one request."""
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

    async def test_cancelled_call_has_an_unknown_outcome(self) -> None:
        """A cancelled call has an unknown outcome, which unlocks nothing."""
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


DEPLOY = [Call("c1", "deploy", {"env": "prod"})]


class TestPauses:
    async def run_until_paused(self, agent: Any, gates: Gates, **how: Any) -> str:
        """Return a run that waits for an operator, as text."""
        gated = gate_agent(agent, gates, thread="t1", pause_after=0.0)
        saved = await pause(gated.run(user_msg="go", **how))
        assert saved is not None
        return json.dumps(saved)

    async def resume_run(self, agent: Any, gates: Gates, saved: str, memory: Any = None) -> Any:
        """Resume a run from its text alone, and return its result."""
        gated = gate_agent(agent, gates, thread="t1", pause_after=5.0)
        handler = gated.run(ctx=Context.from_dict(gated, json.loads(saved)))
        if memory is not None:
            await handler.ctx.store.set("memory", memory)
        assert await pause(handler) is None
        return await handler

    async def test_resumed_run_has_its_messages(self, tmp_path: Path) -> None:
        """A resumed run has the messages of its beginning."""
        read: list[Any] = []
        agent = agent_of(Tools())
        agent.llm.response_generator = lambda messages, **_: read.append(messages) or ChatMessage("done")
        async with place("at a server", tmp_path) as where:
            saved = await self.run_until_paused(agent_of(Tools(), DEPLOY), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            await self.resume_run(agent, where.gates(), saved)
        assert str(read[-1][0].content) == "go"
        assert "deployed to prod" in str(read[-1][-1].content)

    async def test_custom_memory_must_be_set_again(self, tmp_path: Path) -> None:
        """A custom memory has to be set again; without it the call does not run."""
        tools, memory = Tools(), Memory.from_defaults()
        async with place("at a server", tmp_path) as where:
            saved = await self.run_until_paused(agent_of(Tools(), DEPLOY), where.gates(), memory=memory)
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            with pytest.raises(Exception, match=r'await handler.ctx.store.set\("memory", memory\)'):
                await self.resume_run(agent_of(tools), where.gates(), saved)
            assert tools.ran == []
            await self.resume_run(agent_of(tools), where.gates(), saved, memory)
        assert tools.names() == ["deploy"]

    @pytest.mark.parametrize("later", ["c1", "c2"])
    async def test_second_pause_resumes_only_the_new_call(self, later: str, tmp_path: Path) -> None:
        """A run that pauses again resumes with the new waiting call only, even under the same id."""
        tools, push = Tools(), [Call(later, "push", {"branch": "main"})]
        async with place("at a server", tmp_path) as where:
            saved = await self.run_until_paused(agent_of(Tools(), DEPLOY), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            gated = gate_agent(agent_of(tools, push), where.gates(), thread="t1", pause_after=1.0)
            again = await pause(gated.run(ctx=Context.from_dict(gated, json.loads(saved))))
            assert tools.names() == ["deploy"]
            where.operator.answers["push"] = ApprovalAnswer(True)
            await self.resume_run(agent_of(tools), where.gates(), json.dumps(again))
        assert tools.names() == ["deploy", "push"]
        assert sorted(where.operator.asked) == ["deploy", "push"]

    async def test_edit_during_a_pause(self, tmp_path: Path) -> None:
        """The call runs as edited during the pause, and the model reads about the edit."""
        tools = Tools()
        async with place("at a server", tmp_path) as where:
            saved = await self.run_until_paused(agent_of(Tools(), DEPLOY), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True, input=EDITED)
            result = await self.resume_run(agent_of(tools), where.gates(), saved)
        assert tools.ran == [("deploy", EDITED)]
        assert NOTICE in result.tool_calls[0].tool_output.content

    async def test_denial_during_a_pause(self, tmp_path: Path) -> None:
        """A call that is denied during the pause does not run."""
        tools = Tools()
        async with place("at a server", tmp_path) as where:
            saved = await self.run_until_paused(agent_of(Tools(), DEPLOY), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(False, reason="not today")
            result = await self.resume_run(agent_of(tools), where.gates(), saved)
        assert tools.ran == []
        assert "not today" in result.tool_calls[0].tool_output.content

    async def test_approval_does_not_cover_changed_text(self, tmp_path: Path) -> None:
        """An approval does not cover a call that was changed in the saved text."""
        tools = Tools()
        async with place("at a server", tmp_path) as where:
            saved = await self.run_until_paused(agent_of(Tools(), DEPLOY), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            await until_decided(where, "c1")
            where.operator.answers["deploy"] = ApprovalAnswer(False, reason="another one")
            changed = saved.replace('\\"prod\\"', '\\"moon\\"')
            assert changed != saved
            await self.resume_run(agent_of(tools), where.gates(), changed)
        assert tools.ran == []

    async def test_workflow_resumes_at_the_waiting_agent(self, tmp_path: Path) -> None:
        """A workflow resumes at the agent whose call waited."""

        def workflow(tools: Tools, *answers: Any) -> AgentWorkflow:
            first = agent_of(tools, *answers, name="first", description="First")
            return AgentWorkflow(agents=[first], root_agent="first")

        tools = Tools()
        async with place("at a server", tmp_path) as where:
            saved = await self.run_until_paused(workflow(Tools(), DEPLOY), where.gates())
            where.operator.answers["deploy"] = ApprovalAnswer(True)
            await self.resume_run(workflow(tools), where.gates(), saved)
        assert tools.names() == ["deploy"]

    async def test_run_that_does_not_wait_ends(self) -> None:
        """A run that does not wait ends with the handler's result or exception."""
        agent = gate_agent(agent_of(Tools()), RULED, pause_after=0.0)
        handler = agent.run(user_msg="go")
        assert await pause(handler) is None
        assert "done" in str(await handler)
        agent.llm.response_generator = lambda *_, **__: 1 / 0
        handler = agent.run(user_msg="go")
        with pytest.raises(ZeroDivisionError):
            await pause(handler) or await handler


class TestPage:
    async def test_its_programs_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The page's program gates its agent."""
        model = model_of([Call("c1", "deploy", {"env": "prod"})])
        names = await asyncio.to_thread(page_program, "llama-index", tmp_path, monkeypatch, model)
        assert "blocked" in str(names["result"].tool_calls[0].tool_output)
        assert "as it should be" in capsys.readouterr().out
