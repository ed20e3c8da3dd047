"""The adapter for pydantic-ai, with its function model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pip install 'interlock[pydantic-ai]'")

from pydantic_ai import Agent, DeferredToolRequests, ToolFailed
from pydantic_ai.capabilities import AbstractCapability, NativeTool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage, CoverageError, UnseenToolError
from interlock.adapters.pydantic_ai import GateCapability, ask_again, check_coverage
from interlock.engine import create_gate
from interlock.rules import compile_rules

from .contract import RULES, AdapterContract, Call, Driver, Run, Setup, Tools


def model_of(calls: Sequence[Call]) -> FunctionModel:
    """Return a model that makes these calls in one answer and then ends."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if calls and not any(
            isinstance(part, ToolCallPart) and part.tool_call_id == calls[0].id
            for message in messages
            for part in message.parts
        ):
            return ModelResponse([ToolCallPart(each.tool, dict(each.input), each.id) for each in calls])
        return ModelResponse([TextPart("done")])

    return FunctionModel(answer)


def failing(function: Callable[..., str]) -> Callable[..., str]:
    """Return a function whose exceptions the model reads; others would end the run."""

    @functools.wraps(function)
    def tool(**given: Any) -> str:
        try:
            return function(**given)
        except RuntimeError as error:
            raise ToolFailed(str(error)) from error

    return tool


def agent_of(tools: Tools, calls: Sequence[Call], *more: Any, **how: Any) -> Agent[Any, Any]:
    made = [failing(each) for each in tools.functions()]
    return Agent(
        model_of(calls),
        tools=made,
        output_type=[str, DeferredToolRequests],
        capabilities=more,
        name="bot",
        **how,
    )


class PydanticDriver(Driver):
    """Runs and resumes with the messages of a run."""

    pauses = True

    async def run(self, setup: Setup) -> Run:
        agent = agent_of(
            setup.tools, setup.calls, GateCapability(setup.gate, pause_after=setup.pause_after)
        )
        return self._read(await agent.run("go", conversation_id=setup.thread))

    async def resume(self, setup: Setup, paused: object) -> Run:
        agent = agent_of(setup.tools, setup.calls, GateCapability(setup.gate, pause_after=0.0))
        messages, requests = paused  # type: ignore[misc]
        return self._read(
            await agent.run(
                message_history=ModelMessagesTypeAdapter.validate_json(messages),
                deferred_tool_results=ask_again(requests),
            )
        )

    def _read(self, result: Any) -> Run:
        outputs = {
            part.tool_call_id: str(part.content)
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        }
        if isinstance(result.output, DeferredToolRequests):
            return Run(outputs, (result.all_messages_json(), result.output))
        return Run(outputs)

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(agent_of(tools, [], GateCapability(gate)))


@pytest.mark.slow
class TestContract(AdapterContract):
    driver = PydanticDriver()


def gated(**how: Any) -> GateCapability:
    return GateCapability(create_gate(compile_rules(RULES).registry), **how)


class TestUnseenTools:
    async def test_native_tool_ends_the_run(self) -> None:
        """A tool that the provider runs ends the run before the model is asked."""
        agent = agent_of(Tools(), [], gated(), NativeTool(WebSearchTool()))
        with pytest.raises(UnseenToolError, match="'web_search': the model's provider runs it"):
            await agent.run("go")

    async def test_deferred_tool_ends_the_run(self) -> None:
        """A deferred tool ends the run, too, unless `passthrough` names it."""
        external = ExternalToolset([ToolDefinition(name="outside", description="Outside")])
        with pytest.raises(UnseenToolError, match="'outside': it is deferred"):
            await agent_of(Tools(), [], gated(), toolsets=[external]).run("go")
        agent = agent_of(Tools(), [], gated(passthrough=("outside",)), toolsets=[external])
        found = await check_coverage(agent)
        assert list(found.unseen) == ["outside"]
        assert "outside" not in found.gated

    async def test_missing_capability_raises(self) -> None:
        """The probe raises an error for an agent without the capability."""
        with pytest.raises(CoverageError, match="no call is gated"):
            await check_coverage(agent_of(Tools(), []))


class Changes(AbstractCapability[Any]):
    """Another capability that changes the arguments of calls."""

    def __init__(self, *, late: bool) -> None:
        self.late = late

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        return await handler(args if self.late else {"text": "changed"})

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return {"text": "changed"} if self.late else args


class TestOtherCapabilities:
    @pytest.mark.parametrize("first", [True, False])
    async def test_gate_judges_the_changed_arguments(self, first: bool) -> None:
        """The gate judges the arguments as another capability changed them, at any place in the list."""
        tools = Tools()
        order = [Changes(late=False), gated()]
        agent = agent_of(tools, [Call("c1", "lookup", {"text": "a"})], *(order if first else order[::-1]))
        await agent.run("go")
        assert tools.ran == [("lookup", {"text": "changed"})]

    @pytest.mark.parametrize("first", [True, False])
    async def test_change_after_the_approval_does_not_run(self, first: bool) -> None:
        """A tool does not run with arguments that differ from the approved ones."""
        tools = Tools()
        order = [Changes(late=True), gated()]
        agent = agent_of(tools, [Call("c1", "lookup", {"text": "a"})], *(order if first else order[::-1]))
        result = await agent.run("go")
        assert tools.ran == []
        assert "changed after they had been approved" in str(result.all_messages())


class TestArguments:
    async def test_unsuitable_edit_does_not_run(self) -> None:
        """A tool does not run with an edited input that does not fit, and the model reads the reason."""
        from interlock.engine.gate import ApprovalAnswer

        tools = Tools()
        gate = create_gate(
            compile_rules("require human-approval before deploy").registry,
            confirm=lambda _: ApprovalAnswer(True, input={"env": 3}),
        )
        agent = agent_of(tools, [Call("c1", "deploy", {"env": "prod"})], GateCapability(gate))
        result = await agent.run("go")
        assert tools.ran == []
        assert "its edited input does not fit" in str(result.all_messages())
