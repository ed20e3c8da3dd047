"""Bringing nets to where a history of finished calls left them (G-25)."""

from __future__ import annotations

from ..net import NetError, PendingCall, ToolCall
from . import reasons
from .classify import names_of
from .commit import fire_deferred
from .member import Member
from .types import ReplayEntry


def replay_entry(entry: ReplayEntry | str, active: tuple[Member, ...]) -> None:
    """Let one successful call move every active net that it can; a failed one moves none.

    Approvals are not asked again. Raises `NetError` when a net's mapper fails or the net does not come
    to rest: state that cannot be derived must not pass for a fresh one.
    """
    if isinstance(entry, str):
        entry = ReplayEntry(entry)
    if entry.is_error:
        return
    call = ToolCall("replay", entry.tool_name, entry.input or {})
    for member in active:
        try:
            names = names_of(member.net, call)
        except Exception as problem:
            callback = "tool_mapper" if member.net.tool_mapper else "call_names"
            raise NetError(reasons.callback_failed(member.key, callback, problem)) from problem
        for name in names:
            _replay_name(member, name, call)


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
