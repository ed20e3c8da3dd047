"""Phases 3 and 4: semantic validators, then firing; and what a result does to deferred transitions.

All of it is synchronous: between the last thing a call waits for and its commit nothing else can happen.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import deepcopy

from ..net import (
    DeferredHook,
    GateState,
    Meta,
    NetError,
    PendingCall,
    Rejection,
    ToolCall,
    auto_advance,
    fire,
    is_enabled,
)
from . import reasons
from .classify import Finding
from .member import Member
from .types import NetVerdict, ResultRecord, Step, ToolResult

log = logging.getLogger(__name__)


class MetaKeeper:
    """Remembers nets' `meta` before callbacks see it, to put it back when the call comes to nothing."""

    def __init__(self) -> None:
        self._kept: list[tuple[GateState, Meta]] = []

    def keep(self, state: GateState) -> None:
        """Raises what copying raises when `meta` holds something that cannot be copied."""
        self._kept.append((state, deepcopy(state.meta)))

    def put_back(self) -> None:
        for state, meta in self._kept:
            state.meta = meta


def validate(gated: Iterable[Finding], call: ToolCall, keeper: MetaKeeper) -> Finding | None:
    """Phase 3: the first rejection in active order, as a verdict against the call (G-14).

    A validator that raises rejects, and `meta` is put back (G-59); after a plain rejection that is the
    caller's to do.
    """
    for member, verdict in gated:
        validator = member.net.validate_tool_call
        if validator is None:
            continue
        tool = verdict.tool
        try:
            keeper.keep(member.state)
            for step in verdict.steps:
                tool = step.tool
                if (answer := validator(call, tool, step.transition, member.state)) is not None:
                    return member, member.blocked(tool, _reason(answer))
        except Exception as problem:
            keeper.put_back()
            reason = reasons.callback_failed(member.key, "validate_tool_call", problem)
            return member, member.blocked(tool, reason)
    return None


def _reason(answer: object) -> str:
    if not isinstance(answer, Rejection):
        raise TypeError(f"returned {answer!r}, expected None or a Rejection")
    return answer.reason


def commit(gated: Iterable[Finding], call: ToolCall, pending: PendingIndex) -> Finding | None:
    """Phase 4: every gated net fires, or records its deferred transition under the call's id (G-15).

    All or none: when a transition is not enabled any more, nothing has happened in any net and the
    verdict says so.
    """
    moves: list[tuple[Member, NetVerdict, dict[str, int]]] = []
    for member, verdict in gated:
        marking = member.state.marking
        for step in verdict.steps:
            if step.transition.deferred:
                continue
            if not is_enabled(marking, step.transition):
                return member, member.blocked(step.tool, reasons.state_changed(step.tool))
            try:
                marking = auto_advance(member.net, fire(marking, step.transition))
            except NetError as problem:
                return member, member.blocked(step.tool, reasons.cannot_fire(member.key, problem))
        moves.append((member, verdict, marking))
    for member, verdict, marking in moves:
        member.state.marking = marking
        for step in verdict.steps:
            if step.transition.deferred:
                pending.add(member, step, call)
    return None


def steps_of(gated: Iterable[Finding]) -> tuple[Step, ...]:
    """The steps of gated nets, in the order they are committed."""
    return tuple([step for _, verdict in gated for step in verdict.steps])


class PendingIndex:
    """Which deferred steps wait for the result of which call, so that a result costs what its own cost.

    What waits is also in the nets' states, under the call's id.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[Member, Step, PendingCall]]] = {}

    @classmethod
    def of(cls, member: Member) -> PendingIndex:
        """The index of what is pending in one net's state."""
        index = cls()
        for tool_call_id, calls in member.state.pending.items():
            index._waiting[tool_call_id] = [
                (member, Step(member.key, call.transition, call.tool), call) for call in calls
            ]
        return index

    def __contains__(self, tool_call_id: object) -> bool:
        return tool_call_id in self._waiting

    def add(self, member: Member, step: Step, call: ToolCall) -> None:
        """Let `step` wait for the result of `call`."""
        pending = PendingCall(call, step.transition, step.tool)
        member.state.pending.setdefault(call.tool_call_id, []).append(pending)
        self._waiting.setdefault(call.tool_call_id, []).append((member, step, pending))

    def clear(self) -> None:
        """Forget every pending call, in every net."""
        for tool_call_id, waiting in self._waiting.items():
            for member, _, _ in waiting:
                member.state.pending.pop(tool_call_id, None)
        self._waiting.clear()

    def settle(self, result: ToolResult) -> ResultRecord:
        """Resolve what waits for `result`, in inactive nets too (G-16, G-17).

        A result that names another tool than its call is an anomaly and changes nothing (G-53).
        """
        waiting = self._waiting.get(result.tool_call_id)
        if waiting is None:
            return _NOTHING
        called = waiting[0][2].call.tool_name
        if called != result.tool_name:
            return ResultRecord(
                anomaly=f"Result of '{result.tool_call_id}' names tool '{result.tool_name}', "
                f"its call was to '{called}'."
            )
        del self._waiting[result.tool_call_id]
        fired: list[Step] = []
        dropped: list[Step] = []
        for member, step, pending in waiting:
            member.state.pending.pop(result.tool_call_id, None)
            fires = not result.is_error and fire_deferred(member, pending)
            (fired if fires else dropped).append(step)
        return ResultRecord(tuple(fired), tuple(dropped))


_NOTHING = ResultRecord()


def fire_deferred(member: Member, pending: PendingCall) -> bool:
    """Fire a deferred transition whose call succeeded, if it still can; says whether it did.

    The hook runs after the token moved and before structural transitions do. It sees the input of the
    call, not of the result (G-53). When it raises, that is logged, its changes to `meta` are undone and
    the token moves all the same (G-59).
    """
    state = member.state
    if not is_enabled(state.marking, pending.transition):
        return False
    fired = fire(state.marking, pending.transition)
    try:
        rest = auto_advance(member.net, fired)
    except NetError:
        log.exception("Net '%s' cannot take the result of '%s'", member.key, pending.tool)
        return False
    state.marking = fired
    if member.net.on_deferred_result is not None:
        _call_hook(member, pending, member.net.on_deferred_result)
    state.marking = rest
    return True


def _call_hook(member: Member, pending: PendingCall, hook: DeferredHook) -> None:
    keeper = MetaKeeper()
    try:
        keeper.keep(member.state)
        hook(pending.call, pending.tool, pending.transition, member.state)
    except Exception:
        keeper.put_back()
        log.exception("%s: on_deferred_result failed", member.key)
