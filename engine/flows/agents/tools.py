"""Runs a call of an agent's tool: checks it, submits it to the gate, settles its result."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import cast

from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_json

from ...agents.errors import ToolInputError, describe
from ...agents.messages import ProposedCall, ToolMessage
from ...agents.runtime.local.runtime import LocalRuntime
from ...agents.tool import Tool, ToolContext, ToolOutput, as_output, input_problem, outcome
from ...agents.turn.abort import AbortSignal
from ...gate.edit_notice import describe_edit
from ...gate.types import GateDecision, ToolResult
from ...net.net import ToolCall
from ..context import Context
from ..errors import AgentError
from ..run.values import own_json
from ..trace import ToolRan, Trace, tell
from .gate import FlowGate, Question, TextReceiver, ToolReceiver
from .node import AgentConfig
from .tool_errors import SuspendSignal, ToolError, ToolFailure, ToolFatal

_json_object: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


@dataclass(frozen=True, kw_only=True)
class CallContext(ToolContext, Context):
    """Context of a tool of an agent node: that of the flow, and that of tools of sessions."""


@dataclass(frozen=True, slots=True)
class Asks:
    """The tool itself waits for an answer and shows this value; `args` are those it ran with."""

    value: JsonValue
    args: dict[str, JsonValue]


def answer(call: ProposedCall, text: str, *, is_error: bool = False) -> ToolMessage:
    """Return the result of a call as the model reads it."""
    return ToolMessage(call_id=call.call_id, name=call.name, text=text, is_error=is_error)


def failure(call: ProposedCall, error: str, kind: str) -> ToolMessage:
    """Return a failed call as the model reads it (P-137)."""
    return answer(
        call, json.dumps({"error": error, "error_kind": kind}, ensure_ascii=False), is_error=True
    )


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one agent in one step; `ran` are the calls that were executed."""

    agent: str
    session: str
    config: AgentConfig
    ctx: Context
    gate: FlowGate | None
    trace: Trace | None = None
    ran: list[str] = field(default_factory=list[str])

    @property
    def table(self) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in self.config.tools}

    async def run(
        self,
        call: ProposedCall,
        approved: Collection[str] = (),
        written: Mapping[str, JsonValue] | None = None,
    ) -> ToolMessage | Asks | Question:
        """Run a call if the gate allows it; `written` are the arguments before an operator changed them.

        Returns the result, an approval request that must be answered first, or the tool's own question.
        Raises `AgentError` for errors that end the step.
        """
        tool = self.table.get(call.name)
        if tool is None:
            tool_names = ", ".join(self.table)
            return self._failed(
                call, f"unknown tool '{call.name}'; there are {tool_names}", "unknown_tool"
            )
        if call.malformed is not None:
            problem: str | None = f"expected a JSON object, got {call.malformed[:200]!r}"
        else:
            problem = input_problem(tool, call.args)
        if problem is not None:
            return self._failed(call, problem, "arguments")
        if self.gate is None:
            return await self._execute(tool, call, call.args, None)
        verdict = await self._decide(self.gate, tool, call, approved)
        if not isinstance(verdict, dict):
            return verdict
        note = describe_edit(written or call.args, verdict)
        return await self._execute(tool, call, verdict, note)

    def offer(self) -> None:
        """Pass the tools to the gate, if it receives them."""
        if isinstance(self.gate, ToolReceiver):
            self.gate.receive_tools(self.config.tools)

    async def receive_text(self, text: str) -> None:
        """Pass the model's text to the gate, if it receives text."""
        if isinstance(self.gate, TextReceiver):
            await self.gate.receive_text(text)

    async def settled(self, call: ProposedCall, args: Mapping[str, JsonValue], text: str) -> None:
        """Settle a call whose tool waited for an answer that has now come."""
        if self.gate is not None:
            result = ToolResult(call.call_id, call.name, copy.deepcopy(dict(args)))
            await self.gate.settle(result, text, 0.0)

    async def _decide(
        self, gate: FlowGate, tool: Tool, call: ProposedCall, approved: Collection[str]
    ) -> dict[str, JsonValue] | Question | ToolMessage:
        """Return the arguments that may run; none if the gate fails or decides another call."""
        checked_call = ToolCall(call.call_id, call.name, copy.deepcopy(call.args))
        try:
            decision = cast("object", await gate.check(checked_call, approved))
        except Exception as error:
            return failure(call, f"The gate failed: {describe(error)}", "blocked")
        if isinstance(decision, Question):
            return decision
        if not isinstance(decision, GateDecision):
            type_name = type(decision).__name__
            return failure(call, f"The gate failed: it answered with {type_name}", "blocked")
        if decision.block:
            return failure(call, decision.reason or f"{call.name} is blocked.", "blocked")
        try:
            args = _json_object.validate_python(copy.deepcopy(dict(decision.call.input)))
            problem = input_problem(tool, args)
        except ValueError as error:
            args, problem = call.args, f"The approved arguments are not a JSON object: {error}"
        if (decision.call.tool_call_id, decision.call.tool_name) != (call.call_id, call.name):
            problem = "The gate failed: it answered for another call"
        if problem is None:
            return args
        # The call certainly does not run, so its moves are undone.
        result = ToolResult(call.call_id, call.name, dict(args), True, decision.steps)
        await gate.settle(result, problem, 0.0)
        return failure(call, problem, "blocked")

    async def _execute(
        self, tool: Tool, call: ProposedCall, args: dict[str, JsonValue], note: str | None
    ) -> ToolMessage | Asks:
        started_at = time.perf_counter()
        self.ran.append(call.call_id)

        def trace_end(*, is_error: bool = False, asks: bool = False) -> None:
            seconds = time.perf_counter() - started_at
            tell(self.trace, ToolRan(self.agent, call.name, call.call_id, is_error, asks, seconds))

        try:
            ctx = self._context(call)
            output = as_output(
                await outcome(tool.execute(copy.deepcopy(args), ctx), ctx.progress, ToolOutput)
            )
        except SuspendSignal as signal:
            trace_end(asks=True)
            return Asks(signal.value, args)
        except (Exception, SystemExit) as raised:
            trace_end(is_error=True)
            error = ToolFailure(raised) if isinstance(raised, SystemExit) else raised
            await self._tell(call, args, ToolOutput(describe(error), is_error=True), started_at)
            if isinstance(error, ToolFatal):
                raise AgentError(
                    f"agent '{self.agent}': tool '{call.name}': {error}", self.agent
                ) from error
            return self._failed(call, describe(error), _kind(error), error)
        except BaseException:
            trace_end(is_error=True)
            await self._tell(call, args, ToolOutput("The call was cancelled", is_error=True), started_at)
            raise
        trace_end(is_error=output.failed)
        await self._tell(call, args, output, started_at)
        text = output.text if note is None else f"{note} before it ran.\n{output.text}"
        if note is not None or not output.is_json:
            text = json.dumps(text, ensure_ascii=False)  # P-98: text is quoted
        return answer(call, text, is_error=output.is_error)

    async def _tell(
        self, call: ProposedCall, args: dict[str, JsonValue], output: ToolOutput, started_at: float
    ) -> None:
        if self.gate is not None:
            result = ToolResult(call.call_id, call.name, copy.deepcopy(args), output.failed)
            await self.gate.settle(result, output.text, time.perf_counter() - started_at)

    def _failed(
        self, call: ProposedCall, text: str, kind: str, cause: Exception | None = None
    ) -> ToolMessage:
        if self.config.tool_errors == "raise":
            raise AgentError(f"agent '{self.agent}': Tool error: {text}", self.agent) from cause
        return failure(call, text, kind)

    def _context(self, call: ProposedCall) -> CallContext:
        field_values = {field.name: getattr(self.ctx, field.name) for field in fields(Context)}
        field_values["runtime"] = self.ctx.runtime or LocalRuntime(self.ctx.working_dir)
        return CallContext(
            **field_values, abort=AbortSignal(), session_id=self.session, call_id=call.call_id
        )


def as_text(payload: object) -> str:
    """Return a payload as the text of a tool's result (P-72). Raises `ValueError` if it is not JSON."""
    return to_json(own_json(payload)).decode()


def _kind(error: Exception) -> str:
    match error:
        case ToolError():
            return error.kind
        case ToolInputError():
            return "arguments"
        case OSError():
            return "io"
        case _:
            return "failed"
