"""The gate in front of a session's tools, and what decides one call: the gate, then the listeners."""

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
    """A `GateManager`, or anything that answers like one."""

    async def handle_tool_call(self, call: ToolCall, ctx: GateContext, /) -> GateDecision: ...

    def handle_tool_result(self, result: ToolResult, /) -> object: ...


@runtime_checkable
class ManagerFactory(Protocol):
    """Maker of gate managers, such as `create_gate` returns, with fresh state for each session.

    `block_text` is a block reason as the model shall read it; `failed` says of a result's text whether it
    counts as a failure. `messages` of a stored conversation are replayed on a new manager's nets.
    """

    @property
    def context(self) -> GateContext: ...

    def new_manager(self, messages: Sequence[Message] | None = None, /) -> CallManager: ...

    def block_text(self, tool: str, reason: str, /) -> str: ...

    def failed(self, tool: str, text: str, /) -> bool: ...


class ManagerGate:
    """A manager as the loop sees it; `factory` says how it may ask a person, and has its callbacks."""

    def __init__(self, manager: CallManager, factory: ManagerFactory | None = None) -> None:
        self._manager = manager
        self._factory = factory
        self._context = GateContext() if factory is None else factory.context

    async def decide(self, call: ToolCall) -> GateDecision:
        """Ask the manager; the reason of what it blocks is put into words for the model (G-30)."""
        decision = await self._manager.handle_tool_call(call, self._context)
        if self._factory is None or not isinstance(cast("object", decision), GateDecision):
            return decision
        if not decision.block or decision.reason is None:
            return decision
        return replace(decision, reason=self._factory.block_text(call.tool_name, decision.reason))

    def constraints(self) -> Sequence[str] | None:
        """The manager's rules in sentences; none in shadow mode, in which no rule holds (G-73)."""
        manager = self._manager
        if not isinstance(manager, GateManager):
            return current_rules(manager)
        return () if manager.mode == "shadow" else manager.constraints()

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
        """Tell the manager; what the factory takes for a failure unlocks nothing (G-30)."""
        if self._factory is not None and not result.is_error:
            result = replace(result, is_error=self._factory.failed(result.tool_name, output))
        if not result.is_error and isinstance(self._manager, GateManager):
            self._manager.hear(result.tool_name, output)
        record: object = self._manager.handle_tool_result(result)
        if inspect.isawaitable(record):
            record = await record
        return record if isinstance(record, ResultRecord) else ResultRecord()

    def hear(self, text: str) -> None:
        """Tell the manager what a person said: conditions may look for values there."""
        if isinstance(self._manager, GateManager):
            self._manager.hear(USER, text)


def as_call_gate(gate: object, history: Sequence[Message] = ()) -> CallGate:
    """A gate, a manager, what `create_gate` returns, or a function that makes one of these, as a gate.

    With a `history` what `create_gate` returns begins where that left its nets, as far as messages tell
    (G-25, G-62). A gate and a manager are where they are; a function that makes a new one cannot be used,
    as nothing places its nets.

    Raises `TypeError` for anything else: no session runs on a gate that would never be asked. Raises
    `AgentError` for such a function, and `NetError` where nets cannot be placed.
    """
    if callable(getattr(gate, "decide", None)) and callable(getattr(gate, "settle", None)):
        return cast("CallGate", gate)
    if isinstance(gate, CallManager):
        return ManagerGate(gate)
    if isinstance(gate, ManagerFactory):
        return ManagerGate(gate.new_manager(history) if history else gate.new_manager(), gate)
    if inspect.isfunction(gate) or inspect.ismethod(gate):
        made = cast("object", gate())
        if history and not isinstance(made, ManagerFactory):
            raise AgentError(
                f"gate: {getattr(gate, '__name__', 'a function')} makes a new {type(made).__name__}, and "
                "nothing says where the stored conversation left its nets. Give what create_gate "
                "returns, which the conversation places, or a gate or manager that you have placed"
            )
        return as_call_gate(made, history)
    raise TypeError(
        f"{type(gate).__name__} is no gate: it needs decide and settle, "
        "or handle_tool_call and handle_tool_result"
    )


@runtime_checkable
class RecordingGate(Protocol):
    """A gate that says whether its decisions are recorded in the session's store; others' are not."""

    @property
    def keeps_record(self) -> bool: ...


class Decider:
    """Decides one call after the other: the gate first, then the hooks, outermost agent's first, then the
    `tool_call` listeners.

    A call that the gate allowed and that will not run is settled as failed, so that nothing stays
    pending in the nets, and what it spent there is taken back: it costs nothing (A-40).
    """

    def __init__(self, gate: CallGate | None, hooks: HookChain, listeners: Listeners) -> None:
        self._gate = gate
        self._hooks = hooks
        self._listeners = listeners

    @property
    def keeps_record(self) -> bool:
        """Tell whether the gate's decisions are recorded, with the arguments that they let run (A-45)."""
        return isinstance(self._gate, RecordingGate) and self._gate.keeps_record

    async def decide(
        self, event: ToolCallEvent, tool: Tool, why_interrupted: Callable[[], str]
    ) -> ApprovedCall | Deny:
        """Decide whether the call of `tool` runs, and with which arguments.

        When cancelled, `why_interrupted` gives the text of a call that the gate had allowed. Raises what
        a hook, a listener or the gate's `settle` raises; a gate that raises while deciding denies.
        """
        allowed = await self._ask_gate(event, tool, event.args)
        if isinstance(allowed, Deny):
            return allowed
        try:
            choice = await self._ask_author(event.model_copy(update={"args": allowed.args}), tool)
        except asyncio.CancelledError:
            await self.not_run(allowed, why_interrupted())
            raise
        except Exception as error:
            await self.not_run(allowed, f"Tool call not executed: {describe(error)}")
            raise
        match choice:
            case None:
                return allowed
            case Deny(reason=reason):
                await self.not_run(allowed, reason)
                return choice
            case Override(args=args):
                await self.not_run(allowed, REPLACED)
                return await self._ask_gate(event, tool, args)

    async def settle(self, call: ApprovedCall, output: ToolOutput, seconds: float) -> str | None:
        """Tell the gate how a call ended. If its tool never started, what it spent comes back.

        Gives what the model is told before the output: what a person has changed in the call.
        """
        if self._gate is None:
            return None
        args, undo = copy.deepcopy(call.args), () if call.started else call.steps
        result = ToolResult(call.call_id, call.name, args, output.failed, undo)
        await self._gate.settle(result, output.text, seconds)
        if not call.started:
            return None
        told = [f"{call.note} before it ran."] if call.note is not None else []
        return "\n\n".join([*told, *([call.said] if call.said is not None else [])]) or None

    async def not_run(self, call: ApprovedCall, reason: str) -> None:
        """Tell the gate that a call it allowed certainly does not run."""
        await self.settle(replace(call, started=False), ToolOutput(reason, is_error=True), 0.0)

    async def _ask_gate(
        self, event: ToolCallEvent, tool: Tool, args: dict[str, JsonValue]
    ) -> ApprovedCall | Deny:
        """Ask the gate, if there is one. Arguments that a person has edited are checked."""
        proposed = ApprovedCall(event.call_id, event.name, args)
        if self._gate is None:
            return proposed
        call = ToolCall(event.call_id, event.name, copy.deepcopy(args))
        try:
            decision = cast("object", await self._gate.decide(call))
        except Exception as error:
            log.exception("The gate failed on call '%s' to '%s'", event.call_id, event.name)
            return Deny(reason=f"The gate failed: {describe(error)}")
        if not isinstance(decision, GateDecision):
            return Deny(reason=f"The gate failed: it answered with {type(decision).__name__}")
        problem = note = None
        edited: dict[str, JsonValue] = {}
        try:
            edited = _json_object.validate_python(dict(decision.call.input))
        except ValueError as error:
            problem = f"The approved arguments are no JSON object: {error}"
        else:
            # Changes by others than people need no notice.
            note = describe_edit(args, edited) if decision.approvals else None
        if decision.block:
            reason = decision.reason or f"{event.name} is blocked."
            return Deny(reason=reason if note is None else f"{note}. {reason}")
        said = decision.reason if event.name == PLAN else None
        allowed = replace(proposed, args=edited, steps=decision.steps, note=note, said=said)
        if (decision.call.tool_call_id, decision.call.tool_name) != (event.call_id, event.name):
            problem = "The gate failed: it answered for another call"
        elif problem is None and not same_json(args, edited):
            problem = input_problem(tool, edited)
        if problem is None:
            return allowed
        await self.not_run(allowed, problem)
        return Deny(reason=problem)

    async def _ask_author(self, event: ToolCallEvent, tool: Tool) -> Override | Deny | None:
        """Decision of hooks and then listeners about a call that the gate allows; changes are checked.

        Of a subagent's call the hooks of the agents above are asked first, level by level: they may deny
        it or change its arguments, and leave all else to those below. Listeners are asked where the
        agent's own hooks decide nothing.
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
