"""The gate for tools of a flow's agents: a required approval suspends the flow (P-82)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol, TypeAlias, cast, runtime_checkable

from pydantic import JsonValue

from ...agents.decisions import Allow, Deny, Override
from ...agents.gating import CallManager, ManagerFactory, as_call_gate
from ...agents.tool import Tool
from ...gate.approve import ask
from ...gate.types import (
    ApprovalAnswer,
    ApprovalRequest,
    CallGate,
    GateContext,
    GateDecision,
    ResultRecord,
    ToolResult,
)
from ...net.net import ToolCall
from ..errors import DeserializeError

Approve = Allow
"""Run the call as it was shown."""

Answer: TypeAlias = Allow | Deny | Override


@dataclass(frozen=True, slots=True)
class Question:
    """Unanswered approval request of a call; `key` identifies this request about this input."""

    request: ApprovalRequest

    @property
    def asks(self) -> tuple[str, str]:
        """Net and transition that need the approval."""
        return self.request.net, self.request.transition.name

    @property
    def key(self) -> str:
        return question_key(self.asks, self.request.call.input)

    def shown(self) -> dict[str, JsonValue]:
        """The call, the reason for the request, and the marking of the net that needs the approval."""
        request = self.request
        return {
            "tool": request.call.tool_name,
            "args": cast("JsonValue", dict(request.call.input)),
            "reason": request.message,
            "net": request.net,
            "marking": dict(request.marking),
        }


def question_key(asks: tuple[str, str], args: Mapping[str, object]) -> str:
    """Key shared by equal requests about equal inputs, and by no others."""
    text = json.dumps([*asks, dict(args)], sort_keys=True, default=repr)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


class FlowGate(Protocol):
    """Gate that an agent's call passes before it runs.

    `check` returns the decision, or the request that must be answered first: `approved` contains the keys
    of the requests that operators have approved. It does not wait for operators itself. `settle` receives
    the call's result.
    """

    async def check(self, call: ToolCall, approved: Collection[str]) -> GateDecision | Question: ...

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord: ...


@runtime_checkable
class TextReceiver(Protocol):
    """A gate that also receives the text of a model's reply, before any of its calls is checked."""

    async def receive_text(self, text: str) -> None: ...


@runtime_checkable
class ToolReceiver(Protocol):
    """A gate that also receives an agent's tools, before any of their calls is checked."""

    def receive_tools(self, tools: Sequence[Tool]) -> None: ...


class ManagedFlowGate:
    """A gate manager's nets. An unanswered request leaves their markings unchanged.

    If the manager's maker has a `confirm`, it is called, and the step waits for its answer.
    """

    def __init__(self, manager: CallManager, maker: ManagerFactory | None = None) -> None:
        self._manager = manager
        self._maker = maker

    async def check(self, call: ToolCall, approved: Collection[str]) -> GateDecision | Question:
        questions: list[Question] = []
        confirm_hook = None if self._maker is None else self._maker.context.confirm

        def confirm(request: ApprovalRequest) -> bool | Awaitable[ApprovalAnswer]:
            question = Question(request)
            if question.key in approved:
                return True
            if confirm_hook is not None:
                return ask(confirm_hook, request)
            questions.append(question)
            return False

        decision = await self._manager.handle_tool_call(call, GateContext(confirm))
        if questions:
            return questions[0]
        if self._maker is not None and decision.block and decision.reason is not None:
            return replace(decision, reason=self._maker.block_text(call.tool_name, decision.reason))
        return decision

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        if self._maker is not None and not result.is_error:
            result = replace(result, is_error=self._maker.failed(result.tool_name, output))
        record = self._manager.handle_tool_result(result)
        if inspect.isawaitable(record):
            record = cast("object", await record)
        return record if isinstance(record, ResultRecord) else ResultRecord()


class AskingFlowGate:
    """A gate that requests approval itself, like that of a session: the step waits for the answer."""

    def __init__(self, gate: CallGate) -> None:
        self._gate = gate

    async def check(self, call: ToolCall, approved: Collection[str]) -> GateDecision | Question:
        return await self._gate.decide(call)

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        return await self._gate.settle(result, output, seconds)


def as_flow_gate(gate: object) -> FlowGate:
    """Convert a flow gate, a manager, a result of `create_gate`, or any gate of a session.

    Raises `TypeError` for anything else.
    """
    if callable(getattr(gate, "check", None)) and callable(getattr(gate, "settle", None)):
        return cast("FlowGate", gate)
    if isinstance(gate, CallManager):
        return ManagedFlowGate(gate)
    if isinstance(gate, ManagerFactory):
        return ManagedFlowGate(gate.new_manager(), gate)
    return AskingFlowGate(as_call_gate(gate))


def approval_answer(payload: object, node: str) -> Answer:
    """Operator's decision: `Approve()`, `Deny(reason=…)`, `Override(args=…)` or their JSON.

    The JSON is `{"approve": true}`, `{"deny": "why"}` or `{"args": {…}}`. Raises `DeserializeError` for
    anything else, so that nothing is approved by mistake.
    """
    if isinstance(payload, Allow | Deny | Override):
        return payload
    answer: dict[str, object] = {}
    if isinstance(payload, dict) and len(cast("dict[str, object]", payload)) == 1:
        answer = cast("dict[str, object]", payload)
    reason, args = answer.get("deny"), answer.get("args")
    if answer.get("approve") is True:
        return Allow()
    if isinstance(reason, str):
        return Deny(reason=reason)
    if isinstance(args, dict):
        return Override(args=cast("dict[str, JsonValue]", args))
    raise DeserializeError(
        f'{node}: the answer is {payload!r}, expected {{"approve": true}}, {{"deny": "…"}} '
        'or {"args": {…}}',
        node,
    )
