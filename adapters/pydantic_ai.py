"""Adapter for pydantic-ai: a capability whose agents' tool calls pass the gate.

agent = Agent("openai:gpt-5", tools=[deploy], capabilities=[GateCapability("deploy.rules")])
result = await agent.run("Ship it")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic_ai import Agent, ApprovalRequired, CallDeferred, DeferredToolRequests, DeferredToolResults
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ModelRetry, SkipToolExecution, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturn
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from pydantic_core import to_jsonable_python

from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, Probe, refuse_unseen, version_of
from .gate import Allow, Block, SessionGate, Wait, call_digest, failure_text, outcome_of

FRAMEWORK = "pydantic-ai"
WAITS = {"interlock": "it waits for an operator"}
"""Metadata of a deferred call that waits for the gate rather than for the program."""

_PROVIDER = "the model's provider runs it; the program learns of it only afterwards"
_PROGRAM = "it is deferred: the program runs it itself, after the run"


@dataclass(slots=True)
class _Running:
    """An allowed call, as tracked by the hooks."""

    digest: str
    error: Exception | None = None
    changed: bool = False


_running: ContextVar[_Running | None] = ContextVar("interlock_running", default=None)


class GateCapability(AbstractCapability[Any]):
    """Gate around the tools of an agent, whichever toolset or capability they come from.

    `gate` is a rules file, a rule set, a gate in this process, the URL of a server, or `None` for the
    server at INTERLOCK_URL, where `agent` is the agent's name. The session is the conversation: give a
    run the `message_history` of an earlier one, or the same `conversation_id`. `thread` is a function of
    the run's context that returns another name. With `pause_after`, a run whose call waits longer than
    that many seconds for an operator ends with `DeferredToolRequests`: see `ask_again`.

    Native tools, which the model's provider runs, and deferred ones, which the program runs itself, end a
    run with `UnseenToolError` before a model is called, unless `passthrough` names them.
    """

    def __init__(
        self,
        gate: GateSource = None,
        *,
        agent: str = "agent",
        thread: Callable[[RunContext[Any]], str] | None = None,
        pause_after: float | None = None,
        passthrough: Collection[str] = (),
    ) -> None:
        self._gates = Gates.of(gate, agent=agent)
        self._thread = thread
        self._pause_after = pause_after
        self._passthrough = passthrough

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return `None`: a gate is not part of a spec."""

    def get_ordering(self) -> CapabilityOrdering:
        """Return the innermost position: the gate judges a call as other capabilities have changed it."""
        return CapabilityOrdering(position="innermost")

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Refuse tools that the gate would not see."""
        unseen = _unseen(request_context.model_request_parameters)
        refuse_unseen(FRAMEWORK, unseen, self._passthrough)
        return request_context

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Any],
    ) -> Any:
        """Ask the gate, and run the call with the approved input."""
        gate, call_id, tool = self._session(ctx), call.tool_call_id, call.tool_name
        tool_input = _as_json(args)
        if tool_input is None:
            raise ToolFailed(Block("its arguments cannot be represented as JSON").tell(tool))
        answer = await gate.ask(call_id, tool, tool_input, wait=self._pause_after)
        if isinstance(answer, Wait):
            raise ApprovalRequired(metadata=WAITS)
        if isinstance(answer, Block):
            raise ToolFailed(answer.tell(tool))
        try:
            if answer.edited:
                args = await _validated(ctx, tool, answer)
        except Exception as error:
            await gate.done(call_id, failure_text(error), "failed")
            raise
        value = await self._run(gate, call, _Running(call_digest(tool, answer.input)), args, handler)
        return _with_notice(value, answer) if answer.edited else value

    async def _run(
        self,
        gate: SessionGate,
        call: ToolCallPart,
        running: _Running,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Any],
    ) -> Any:
        token, call_id = _running.set(running), call.tool_call_id
        try:
            # A tool that defers itself is asked about again, and gets the same answer.
            async with gate.reporting_errors(call_id, passing=(ApprovalRequired, CallDeferred)):
                value = await handler(args)
        finally:
            _running.reset(token)
        if running.error is not None:
            # Another capability has turned the error into a result.
            await gate.done(call_id, failure_text(running.error), "failed")
            return value
        returned: object = value
        if isinstance(value, ToolReturn):
            returned = cast("ToolReturn[Any]", value).return_value
        outcome = "failed" if running.changed else outcome_of(call.tool_name, returned)
        await gate.done(call_id, returned, outcome)
        return cast("object", value)

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Block a call whose arguments another capability has changed after their approval."""
        running, tool_input = _running.get(), _as_json(args)
        if (
            running is None
            or tool_input is None
            or call_digest(call.tool_name, tool_input) != running.digest
        ):
            if running is not None:
                running.changed = True
            reason = Block("its arguments were changed after they had been approved")
            raise SkipToolExecution(reason.tell(call.tool_name))
        return args

    async def on_tool_execute_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        error: Exception,
    ) -> Any:
        """Record the error of a failure, which another capability may turn into a result."""
        if (running := _running.get()) is not None:
            running.error = error
        raise error

    def _session(self, ctx: RunContext[Any]) -> SessionGate:
        key = self._thread(ctx) if self._thread is not None else ctx.conversation_id or ctx.run_id
        if not key:
            raise ToolFailed("blocked: the run has neither a conversation nor an id")
        return self._gates.session(str(key))


def ask_again(requests: DeferredToolRequests) -> DeferredToolResults:
    """Return the results with which to resume a run that ended while calls waited for an operator.

    They approve nothing: the gate decides about each of these calls again. Calls deferred for another
    reason have to be answered by the program; add their results.

        result = await agent.run(message_history=messages, deferred_tool_results=ask_again(requests))
    """
    ours = [call for call in requests.approvals if requests.metadata.get(call.tool_call_id) == WAITS]
    return DeferredToolResults(approvals={call.tool_call_id: True for call in ours})


async def check_coverage(agent: Agent[Any, Any], deps: Any = None) -> Coverage:
    """Have an agent call a probe, and list what its gate sees; no model is called.

    Raises `CoverageError` if the probe is not blocked, and `UnseenToolError` as a run would.
    """
    probe, seen = Probe(), list[ModelRequestParameters]()

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.model_request_parameters)
        if len(seen) == 1:
            return ModelResponse([ToolCallPart(PROBE, {}, "probe")])
        return ModelResponse([TextPart("done")])

    toolset = FunctionToolset[Any]()
    toolset.add_function(probe.run, name=PROBE, description="Do nothing")
    result = await agent.run(
        "probe", model=FunctionModel(model), output_type=str, toolsets=[toolset], deps=deps
    )
    probe.check(str(result.all_messages()))
    tools = [tool for tool in seen[0].function_tools if tool.kind != "external"]
    return Coverage(
        FRAMEWORK,
        version_of("pydantic-ai-slim"),
        tuple(tool.name for tool in tools if tool.name != PROBE),
        _unseen(seen[0]),
    )


def _unseen(parameters: ModelRequestParameters) -> dict[str, str]:
    """Return tools that are not run by this program within the run, by name, with the reason."""
    native = {tool.unique_id: _PROVIDER for tool in parameters.native_tools}
    deferred = {tool.name: _PROGRAM for tool in parameters.function_tools if tool.kind == "external"}
    return native | deferred


def _as_json(args: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return validated arguments as JSON; `None` if that is impossible."""
    try:
        return to_jsonable_python(dict(args), inf_nan_mode="strings")
    except ValueError:
        return None


async def _validated(ctx: RunContext[Any], tool: str, answer: Allow) -> dict[str, Any]:
    """Return the arguments of an edited input. Raises `ToolFailed` if the tool does not accept it."""
    known = None if ctx.tool_manager is None else (ctx.tool_manager.tools or {}).get(tool)
    if known is None:
        raise ToolFailed(Block("its edited input cannot be checked").tell(tool))
    try:
        args = known.args_validator.validate_json(
            json.dumps(answer.input), context=ctx.validation_context
        )
        if known.args_validator_func is not None:
            checked = known.args_validator_func(ctx, **args)
            if asyncio.iscoroutine(checked):
                await checked
    except (ValueError, ModelRetry) as error:
        raise ToolFailed(Block(f"its edited input does not fit: {error}").tell(tool)) from error
    return args


def _with_notice(value: object, answer: Allow) -> object:
    """Return a tool's value for the model, with a notice of the operator's edit."""
    if isinstance(value, str):
        return answer.tell(value)
    if not isinstance(value, ToolReturn):
        return ToolReturn(return_value=value, content=answer.notice)
    result = cast("ToolReturn[Any]", value)
    content = [result.content] if isinstance(result.content, str) else [*(result.content or ())]
    return replace(result, content=[*content, answer.notice or ""])
