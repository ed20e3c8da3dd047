"""Replay of a history of finished calls on nets (G-25)."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ...core.rule import causes_of
from ...net.net import NetError, PendingCall, ToolCall
from ...net.timed import arrivals
from .. import reasons
from ..classify import CallbackError, Roster, without_unlocking
from ..commit import fire_deferred
from ..conditions import EvaluationContext, net_of_value, under_condition
from ..member import Member, in_order
from ..types import ReplayEntry


def replay_entry(entry: ReplayEntry | str, roster: Roster, context: EvaluationContext) -> None:
    """Let one successful call move every active net that it can.

    A failed call moves only nets whose rule it brings into effect (`after`), because its result may have
    been read all the same. A call that is unclear, or known only by a folded name, unlocks nothing (G-64,
    G-66).

    Approvals are not requested again. A history does not say when its calls were made: they count as made
    now, and no timed transition fires between them. Raises `NetError` if a net's mapper fails or the net
    does not come to rest, so that state that cannot be derived is not taken for fresh state.
    """
    if isinstance(entry, str):
        entry = ReplayEntry(entry)
    if entry.is_error and not any(causes_of(member.net.rule) for member in roster.members):
        return
    call = ToolCall("replay", entry.tool_name, entry.input or {}, context.surroundings.shell)
    naming = roster.naming(call)
    for registered, known_by in zip(roster.members, naming.by_net, strict=True):
        member = registered
        causes = causes_of(member.net.rule)
        if entry.is_error and not causes:
            continue
        if isinstance(known_by, CallbackError):
            failed = reasons.callback_failed(member.key, known_by.callback, known_by.problem)
            raise NetError(failed) from known_by.problem
        try:
            names, _ = under_condition(member.net, known_by, call, context.surroundings)
        except Exception as problem:
            raise NetError(reasons.callback_failed(member.key, "condition", problem)) from problem
        if entry.is_error:
            names = [name for name in names if name in causes]
        if member.net.per_value is not None:
            found = net_of_value(member, call, context)
            if isinstance(found, str):
                continue
            member = found
        if member.net.measured:
            member = member.of_past_call(call.input)
        before = member.state.marking
        called = in_order(member.net, names, call.tool_name)
        voided = _voided(member, called) if member.net.voiding else ()
        for name in called:
            _replay_name(member, name, call, voided, unlocks=naming.unlocks)
        if member.net.timed and member.state.marking != before:
            state = member.state
            state.since = arrivals(member.net, state.since, before, state.marking, context.now())
        if member.state.marking != before:
            member.keep()


def _voided(member: Member, names: Iterable[str]) -> frozenset[str]:
    """Deferred transitions that a call with these names voids, if its own transition voids any."""
    known = [member.knows[name] for name in names if name in member.knows]
    return frozenset(name for each in known for t, _ in each.gated for name in t.voids)


def _replay_name(
    member: Member, name: str, call: ToolCall, voided: Container[str], *, unlocks: bool
) -> None:
    known = member.knows.get(name)
    if known is None:
        return
    verdict = known.verdict(member.state.marking)
    if not unlocks:
        verdict = without_unlocking(member, verdict)
    for step in verdict.steps:
        if step.transition.name in voided:
            continue
        if step.transition.deferred:
            fire_deferred(member, PendingCall(call, step.transition, name))
        else:
            member.state.marking = member.after(member.state.marking, (step,))
