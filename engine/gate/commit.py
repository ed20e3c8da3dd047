"""Phases 3 and 4: validators, then firing; and the effect of results on deferred transitions.

Everything here is synchronous: nothing can happen between the end of a call's last wait and its commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import deepcopy
from typing import TypeVar

from ..core.frozen import maker
from ..net.net import (
    DeferredHook,
    GateState,
    Marking,
    Meta,
    NetError,
    PendingCall,
    Rejection,
    Since,
    ToolCall,
    Transition,
    fire,
    fire_and_advance,
)
from ..net.timed import aged, arrivals_by
from . import reasons
from .classify import MemberVerdict
from .conditions import EvaluationContext, Timekeeper
from .member import Member
from .types import NetVerdict, ResultRecord, Step, ToolResult

_pending = maker(PendingCall)
_record = maker(ResultRecord)

T = TypeVar("T")

log = logging.getLogger(__name__)


class MetaKeeper:
    """Saves the state of nets that changes before the commit, to restore it if the call is not allowed.

    This is `meta`, which callbacks can change, and the tokens that timed transitions moved.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[GateState, Meta]] = []
        self._younger: list[tuple[GateState, Marking, Since]] = []

    def keep(self, state: GateState) -> None:
        """Save the state's `meta`. Raises what `deepcopy` raises if `meta` cannot be copied."""
        self._kept.append((state, deepcopy(state.meta)))

    def age(self, gated: Iterable[MemberVerdict], context: EvaluationContext) -> None:
        """Advance timed nets to the markings at which they were judged."""
        for member, _ in gated:
            if member.net.timed:
                state, then = member.state, context.aged(member)
                self._younger.append((state, state.marking, state.since))
                state.marking, state.since = then.marking, then.since

    def put_back(self) -> None:
        for state, meta in self._kept:
            state.meta = meta
        for state, marking, since in self._younger:
            state.marking, state.since = marking, since


def validate(gated: Iterable[MemberVerdict], call: ToolCall, keeper: MetaKeeper) -> MemberVerdict | None:
    """Phase 3: the first rejection in active order, as a verdict against the call (G-14).

    A validator that raises an exception rejects the call, and `meta` is restored (G-59). After a normal
    rejection the caller restores it.
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


def commit(
    gated: Iterable[MemberVerdict], call: ToolCall, pending: PendingIndex, context: EvaluationContext
) -> MemberVerdict | None:
    """Phase 4: every gated net fires, or records its deferred transition under the call's id (G-15).

    All nets move or none: if a transition is no longer enabled, no net has changed, and a verdict that
    blocks is returned.
    """
    moves: list[tuple[Member, NetVerdict, Marking, Since]] = []
    for member, verdict in gated:
        marking, since = member.state.marking, member.state.since
        for step in verdict.steps:
            if step.transition.deferred:
                continue
            before = marking
            try:
                after = fire_and_advance(member.net, marking, step.transition)
            except NetError as problem:
                return member, member.blocked(step.tool, reasons.cannot_fire(member.registered, problem))
            if after is None:
                return member, member.blocked(step.tool, reasons.state_changed(step.tool))
            marking = after
            if member.net.timed:
                since = arrivals_by(member.net, since, before, step.transition, marking, context.now())
        moves.append((member, verdict, marking, since))
    for member, verdict, marking, since in moves:
        if member.net.timed:
            context.note_moved(member, member.state.since, since)
        member.state.marking, member.state.since = marking, since
        member.keep()
        for step in verdict.steps:
            if step.transition.deferred:
                pending.add(member, step, call)
    return None


def steps_of(gated: Iterable[MemberVerdict], context: EvaluationContext) -> tuple[Step, ...]:
    """Steps of gated nets in commit order; each net's timed transitions come before its own steps."""
    steps: list[Step] = []
    for member, verdict in gated:
        if member.net.timed:
            steps += [Step(member.key, transition, "") for transition in context.aged(member).fired]
        steps += verdict.steps
    return tuple(steps)


class PendingIndex:
    """Index of deferred steps that wait for a result, by call id, so that a result does not search all
    nets.

    Each pending call is also in its net's state, under the same id.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, list[tuple[Member, Step, PendingCall]]] = {}
        # Records of results that fire one step, by the step's `id`; the record keeps the step alive.
        # Saves 2 % of a round trip.
        self._alone: dict[int, ResultRecord] = {}

    @classmethod
    def of(cls, *members: Member) -> PendingIndex:
        """Index of the pending calls in the nets' states."""
        index = cls()
        for member in (each for m in members for each in (m, *m.values())):
            for tool_call_id, calls in member.state.pending.items():
                index.waiting.setdefault(tool_call_id, []).extend(
                    (member, Step(member.key, call.transition, call.tool), call) for call in calls
                )
        return index

    def add(self, member: Member, step: Step, call: ToolCall) -> None:
        """Let `step` wait for the result of `call`, unless a running call already voids it.

        Steps of running calls that `step` voids stop waiting.
        """
        if member.net.voiding and not self._make_way(member, step.transition):
            return
        tool_call_id = call.tool_call_id
        pending = _pending(call, step.transition, step.tool)
        by_id = member.state.pending
        if tool_call_id in by_id:
            by_id[tool_call_id].append(pending)
        else:
            by_id[tool_call_id] = [pending]
        if tool_call_id in self.waiting:
            self.waiting[tool_call_id].append((member, step, pending))
        else:
            self.waiting[tool_call_id] = [(member, step, pending)]

    def _make_way(self, member: Member, transition: Transition) -> bool:
        """Drop pending steps that `transition` voids; false if a pending step voids `transition`."""
        by_id = member.state.pending
        if any(transition.name in p.transition.voids for calls in by_id.values() for p in calls):
            return False
        for tool_call_id, calls in list(by_id.items()) if transition.voids else ():
            void = [p for p in calls if p.transition.name in transition.voids]
            remaining = [p for p in calls if p not in void]
            others = [w for w in self.waiting[tool_call_id] if w[0].key != member.key or w[2] not in void]
            _put(by_id, tool_call_id, remaining)
            _put(self.waiting, tool_call_id, others)
        return True

    def clear(self) -> None:
        """Drop every pending call, in every net."""
        for tool_call_id, waiting in self.waiting.items():
            for member, _, _ in waiting:
                member.state.pending.pop(tool_call_id, None)
        self.waiting.clear()
        self._alone.clear()

    def settle(self, result: ToolResult, timekeeper: Timekeeper) -> ResultRecord:
        """Apply `result` to the steps that wait for it, also in inactive nets (G-16, G-17).

        A result with another tool name than its call is an anomaly and changes nothing (G-53).
        """
        tool_call_id = result.tool_call_id
        waiting = self.waiting.get(tool_call_id)
        if waiting is None:
            return NOTHING
        called = waiting[0][2].call.tool_name
        if called != result.tool_name:
            return ResultRecord(
                anomaly=f"Result of '{tool_call_id}' names tool '{result.tool_name}', "
                f"its call was to '{called}'."
            )
        del self.waiting[tool_call_id]
        succeeded = not result.is_error
        if len(waiting) == 1:
            # Special case of the loop below that saves 5 % of a round trip: almost always only one step
            # waits.
            member, step, pending = waiting[0]
            member.state.pending.pop(tool_call_id, None)
            if not member.net.timed:
                if succeeded and fire_deferred(member, pending):
                    return self._alone.get(id(step)) or self._fired_alone(step)
                return _record((), (step,))
        fired: tuple[Step, ...] = ()
        dropped: tuple[Step, ...] = ()
        context = timekeeper.context()
        for member, step, pending in waiting:
            member.state.pending.pop(tool_call_id, None)
            if not succeeded:
                dropped += (step,)
            elif member.net.timed:
                timed_steps = fire_timed(member, pending, context)
                fired += () if timed_steps is None else (*timed_steps, step)
                dropped += (step,) if timed_steps is None else ()
            elif fire_deferred(member, pending):
                fired += (step,)
            else:
                dropped += (step,)
        return _record(fired, dropped, None, (), context.clock)

    def _fired_alone(self, step: Step) -> ResultRecord:
        record = self._alone[id(step)] = ResultRecord((step,))
        return record


def _put(lists: dict[str, list[T]], key: str, items: list[T]) -> None:
    """Set a list, or remove its key if the list is empty."""
    if items:
        lists[key] = items
    else:
        del lists[key]


NOTHING = ResultRecord()


def fire_deferred(member: Member, pending: PendingCall) -> bool:
    """Fire the deferred transition of a successful call if it is enabled; return whether it fired.

    The hook runs after the token has moved and before structural transitions fire. It gets the input of
    the call, not of the result (G-53). If it raises, the exception is logged and its changes to `meta`
    are undone; the token moves all the same (G-59).
    """
    state, net, transition = member.state, member.net, pending.transition
    try:
        settled = fire_and_advance(net, state.marking, transition)
    except NetError:
        log.exception("Net '%s' cannot apply the result of '%s'", member.key, pending.tool)
        return False
    if settled is None:
        return False
    if net.on_deferred_result is not None:
        state.marking = fire(state.marking, transition)
        _call_hook(member, pending, net.on_deferred_result)
    state.marking = settled
    return True


def fire_timed(
    member: Member, pending: PendingCall, context: EvaluationContext
) -> tuple[Step, ...] | None:
    """Like `fire_deferred`, for a timed net; return the steps due before it, `None` if it cannot fire."""
    state, net = member.state, member.net
    marking, since = state.marking, state.since
    try:
        then = aged(net, marking, since, context.now())
    except Exception:
        log.exception("Net '%s' cannot apply the result of '%s'", member.key, pending.tool)
        return None
    state.marking = then.marking
    if not fire_deferred(member, pending):
        state.marking = marking
        return None
    state.since = arrivals_by(
        net, then.since, then.marking, pending.transition, state.marking, context.now()
    )
    return tuple(Step(member.key, transition, "") for transition in then.fired)


def _call_hook(member: Member, pending: PendingCall, hook: DeferredHook) -> None:
    keeper = MetaKeeper()
    try:
        keeper.keep(member.state)
        hook(pending.call, pending.tool, pending.transition, member.state)
    except Exception:
        keeper.put_back()
        log.exception("%s: on_deferred_result failed", member.key)
