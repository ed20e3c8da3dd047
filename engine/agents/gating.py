"""The gate for a session's tools, and the decision on one call: by the gate, then hooks and listeners."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, cast, runtime_checkable

from pydantic import JsonValue, TypeAdapter

from ..core.json_values import same_json
from ..core.plan import PLAN
from ..core.sources import USER
from ..gate.edit_notice import describe_edit
from ..gate.manager import GateManager
from ..gate.types import CallGate, GateContext, GateDecision, ResultRecord, ToolResult
from ..net.net import ToolCall
from .decisions import Allow, ApprovedCall, Deny, Override
from .errors import AgentError, describe
from .events import ToolCallEvent
from .hooks import HookChain
from .messages import Message
from .rules_notice import current_rules
from .session.listeners import Listeners
from .tool import Tool, ToolOutput, input_problem

log = logging.getLogger(__name__)

_json_object: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])

REPLACED = "Not run: a listener gave other arguments"


@runtime_checkable
class CallManager(Protocol):
    """A `GateManager`, or an object with the same methods."""

    async def handle_tool_call(self, call: ToolCall, ctx: GateContext, /) -> GateDecision: ...

    def handle_tool_result(self, result: ToolResult, /) -> object: ...


@runtime_checkable
class ManagerFactory(Protocol):
    """Factory of gate managers with new state for each session, such as the result of `create_gate`.

    `block_text` returns a block reason as the model reads it; `failed` returns whether a result's text
    counts as a failure. The `messages` of a stored conversation are replayed on a new manager's nets.
    """

    @property
    def context(self) -> GateContext: ...

    def new_manager(self, messages: Sequence[Message] | None = None, /) -> CallManager: ...

    def block_text(self, tool: str, reason: str, /) -> str: ...

    def failed(self, tool: str, text: str, /) -> bool: ...


class ManagerGate:
    """Adapts a manager to the loop; `factory` has its callbacks, such as that for approvals."""

    def __init__(self, manager: CallManager, factory: ManagerFactory | None = None) -> None:
        self._manager = manager
        self._factory = factory
        self._context = GateContext() if factory is None else factory.context

    async def decide(self, call: ToolCall) -> GateDecision:
        """Request a decision from the manager; a block reason is worded for the model (G-30)."""
        decision = await self._manager.handle_tool_call(call, self._context)
        if self._factory is None or not isinstance(cast("object", decision), GateDecision):
            return decision
        if not decision.block or decision.reason is None:
            return decision
        return replace(decision, reason=self._factory.block_text(call.tool_name, decision.reason))

    def constraints(self) -> Sequence[str] | None:
        """Return the manager's rules as sentences; none in shadow mode, where no rule applies (G-73)."""
        manager = self._manager
        if not isinstance(manager, GateManager):
            return current_rules(manager)
        return () if manager.mode == "shadow" else manager.constraints()

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        """Report a result to the manager; what the factory considers a failure unlocks nothing (G-30)."""
        if self._factory is not None and not result.is_error:
            result = replace(result, is_error=self._factory.failed(result.tool_name, output))
        if not result.is_error and isinstance(self._manager, GateManager):
            self._manager.hear(result.tool_name, output)
        record: object = self._manager.handle_tool_result(result)
        if inspect.isawaitable(record):
            record = await record
        return record if isinstance(record, ResultRecord) else ResultRecord()

    def hear(self, text: str) -> None:
        """Pass a user's message to the manager: conditions may look for values in it."""
        if isinstance(self._manager, GateManager):
            self._manager.hear(USER, text)


def as_call_gate(gate: object, history: Sequence[Message] = ()) -> CallGate:
    """Convert a gate, a manager, a `create_gate` result, or a function that makes one, to a gate.

    With a `history`, the nets of a `create_gate` result start where the messages left them (G-25, G-62).
    An existing gate or manager keeps its marking. A function that makes a new gate or manager cannot be
    used with a history, because nothing determines the marking of its nets.

    Raises `TypeError` for anything else, so that no session runs on a gate that would never be asked.
    Raises `AgentError` for such a function, and `NetError` if the nets' marking cannot be determined.
    """
    if callable(getattr(gate, "decide", None)) and callable(getattr(gate, "settle", None)):
        return cast("CallGate", gate)
    if isinstance(gate, CallManager):
        return ManagerGate(gate)
    if isinstance(gate, ManagerFactory):
        return ManagerGate(gate.new_manager(history) if history else gate.new_manager(), gate)
    if inspect.isfunction(gate) or inspect.ismethod(gate):
        new_gate = cast("object", gate())
        if history and not isinstance(new_gate, ManagerFactory):
            raise AgentError(
                f"gate: {getattr(gate, '__name__', 'a function')} makes a new {type(new_gate).__name__}, "
                "whose nets cannot be set to where the stored conversation left them. Pass the result "
                "of create_gate, or a gate or manager that has the right markings already"
            )
        return as_call_gate(new_gate, history)
    raise TypeError(
        f"{type(gate).__name__} is not a gate: it needs decide and settle, "
        "or handle_tool_call and handle_tool_result"
    )


@runtime_checkable
class RecordingGate(Protocol):
    """A gate that reports whether its decisions are recorded in the session's store; others are not."""

    @property
    def keeps_record(self) -> bool: ...


@runtime_checkable
class HoldingGate(Protocol):
    """A gate whose permission may have to wait, or end, before its call begins; others need not."""

    async def until_may_begin(self, call_id: str) -> None:
        """Wait until a call that was allowed may begin. Raises an error if it may not any more."""
        ...


class Decider:
    """Decides calls: first the gate, then hooks from the outermost agent inwards, then listeners.

    A call that the gate allowed but that will not run is settled as failed, so that nothing stays pending
    in the nets. What it consumed there is restored, so it costs nothing (A-40).
    """

    def __init__(self, gate: CallGate | None, hooks: HookChain, listeners: Listeners) -> None:
        self._gate = gate
        self._hooks = hooks
        self._listeners = listeners

    @property
    def keeps_record(self) -> bool:
        """True if the gate's decisions are recorded, with the arguments that they allowed (A-45)."""
        return isinstance(self._gate, RecordingGate) and self._gate.keeps_record

    async def decide(
        self, event: ToolCallEvent, tool: Tool, why_interrupted: Callable[[], str]
    ) -> ApprovedCall | Deny:
        """Decide whether the call of `tool` runs, and with which arguments.

        When cancelled, `why_interrupted` returns the text for a call that the gate had allowed. Raises
        the errors of a hook, a listener or the gate's `settle`; a gate that raises while deciding denies.
        """
        approval = await self._ask_gate(event, tool, event.args)
        if isinstance(approval, Deny):
            return approval
        try:
            choice = await self._ask_author(event.model_copy(update={"args": approval.args}), tool)
        except asyncio.CancelledError:
            await self.not_run(approval, why_interrupted())
            raise
        except Exception as error:
            await self.not_run(approval, f"Tool call not executed: {describe(error)}")
            raise
        match choice:
            case None:
                return approval
            case Deny(reason=reason):
                await self.not_run(approval, reason)
                return choice
            case Override(args=args):
                await self.not_run(approval, REPLACED)
                return await self._ask_gate(event, tool, args)

    async def before_start(self, call: ApprovedCall) -> None:
        """Wait until a call that was allowed may begin; see `HoldingGate`."""
        if isinstance(self._gate, HoldingGate):
            await self._gate.until_may_begin(call.call_id)

    async def settle(self, call: ApprovedCall, output: ToolOutput, seconds: float) -> str | None:
        """Report a call's result to the gate. If its tool never started, its moves are undone.

        Returns the text that the model reads before the output: the changes that an operator made to the
        call.
        """
        if self._gate is None:
            return None
        args, undo = copy.deepcopy(call.args), () if call.started else call.steps
        result = ToolResult(call.call_id, call.name, args, output.failed, undo)
        await self._gate.settle(result, output.text, seconds)
        if not call.started:
            return None
        notices = [f"{call.note} before it ran."] if call.note is not None else []
        return "\n\n".join([*notices, *([call.said] if call.said is not None else [])]) or None

    async def not_run(self, call: ApprovedCall, reason: str) -> None:
        """Report to the gate that an allowed call certainly does not run."""
        await self.settle(replace(call, started=False), ToolOutput(reason, is_error=True), 0.0)

    async def _ask_gate(
        self, event: ToolCallEvent, tool: Tool, args: dict[str, JsonValue]
    ) -> ApprovedCall | Deny:
        """Request the gate's decision, if there is a gate. Check arguments edited by an operator."""
        draft = ApprovedCall(event.call_id, event.name, args)
        if self._gate is None:
            return draft
        call = ToolCall(event.call_id, event.name, copy.deepcopy(args))
        try:
            decision = cast("object", await self._gate.decide(call))
        except Exception as error:
            log.exception("The gate failed on call '%s' to '%s'", event.call_id, event.name)
            return Deny(reason=f"The gate failed: {describe(error)}")
        if not isinstance(decision, GateDecision):
            return Deny(reason=f"The gate failed: it answered with {type(decision).__name__}")
        problem = note = None
        edited_args: dict[str, JsonValue] = {}
        try:
            edited_args = _json_object.validate_python(dict(decision.call.input))
        except ValueError as error:
            problem = f"The approved arguments are not a JSON object: {error}"
        else:
            # Only changes by people need a notice.
            note = describe_edit(args, edited_args) if decision.approvals else None
        if decision.block:
            reason = decision.reason or f"{event.name} is blocked."
            return Deny(reason=reason if note is None else f"{note}. {reason}")
        plan_notice = decision.reason if event.name == PLAN else None
        approval = replace(draft, args=edited_args, steps=decision.steps, note=note, said=plan_notice)
        if (decision.call.tool_call_id, decision.call.tool_name) != (event.call_id, event.name):
            problem = "The gate failed: it answered for another call"
        elif problem is None and not same_json(args, edited_args):
            problem = input_problem(tool, edited_args)
        if problem is None:
            return approval
        await self.not_run(approval, problem)
        return Deny(reason=problem)

    async def _ask_author(self, event: ToolCallEvent, tool: Tool) -> Override | Deny | None:
        """Return the decision of hooks, then listeners, on an allowed call; check changed arguments.

        For a subagent's call, the hooks of its parent agents come first, level by level: they may deny
        the call or change its arguments, and leave everything else to later ones. Listeners are asked if
        the agent's own hooks decide nothing.
        """
        change: Override | None = None
        for chain in self._hooks.levels:
            choice = await chain.before_tool_call(event)
            if choice is None and chain is self._hooks:
                choice = await self._listeners.decide(event)
            match choice:
                case Deny():
                    return choice
                case Override(args=args):
                    if (problem := input_problem(tool, args)) is not None:
                        return Deny(reason=problem)
                    change, event = choice, event.model_copy(update={"args": args})
                case Allow() | None:
                    pass
        return change
