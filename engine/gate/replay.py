"""Bringing nets to where a history of finished calls left them (G-25)."""

from __future__ import annotations

from ..net import NetError, PendingCall, ToolCall
from ..timed import arrivals
from . import reasons
from .classify import names_of
from .commit import fire_deferred
from .jurisdiction import governed
from .member import Member
from .moment import Moment
from .types import ReplayEntry


def replay_entry(entry: ReplayEntry | str, active: tuple[Member, ...], moment: Moment) -> None:
    """Let one successful call move every active net that it can; a failed one moves none.

    Approvals are not asked again. A history does not say when its calls were made: they count as made
    now, and nothing comes about by time between them. Raises `NetError` when a net's mapper fails or the
    net does not come to rest: state that cannot be derived must not pass for a fresh one.
    """
    if isinstance(entry, str):
        entry = ReplayEntry(entry)
    if entry.is_error:
        return
    call = ToolCall("replay", entry.tool_name, entry.input or {})
    for member in active:
        callback = "tool_mapper" if member.net.tool_mapper else "call_names"
        try:
            names = names_of(member.net, call)
            callback = "condition"
            names, _ = governed(member.net, names, call, moment.around)
        except Exception as problem:
            raise NetError(reasons.callback_failed(member.key, callback, problem)) from problem
        before = member.state.marking
        for name in names:
            _replay_name(member, name, call)
        if member.net.timed and member.state.marking != before:
            state = member.state
            state.since = arrivals(member.net, state.since, before, state.marking, moment.now())


def _replay_name(member: Member, name: str, call: ToolCall) -> None:
    known = member.knows.get(name)
    verdict = known.covered(member.state.marking) if known else None
    if verdict is None:
        return
    for step in verdict.steps:
        if step.transition.deferred:
            fire_deferred(member, PendingCall(call, step.transition, name))
        else:
            member.state.marking = member.after(member.state.marking, (step,))
