"""Checks between sessions: helpers and the agents that started them, branches and their origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import CallDecided
from interlock.engine.history.model.state import SessionState
from interlock.engine.recording.conversation import conversation

if TYPE_CHECKING:
    from .check import Found


def at_top(states: dict[str, SessionState], session: str, call_id: str) -> tuple[str, str]:
    """Return the session whose nets judge a call, and the call's name there."""
    while (state := states[session]).kind == "child" and state.parent in states:
        session, call_id = state.parent, f"{session}/{call_id}"
    return session, call_id


def below(states: dict[str, SessionState], top: str, call_id: str) -> tuple[str, str]:
    """Return the session that made a call, given its name at the top, and the call's name there."""
    *helpers, own = call_id.split("/")
    maker = helpers[-1] if helpers else top
    return (maker, own) if maker in states else (top, call_id)


def unlike_their_parents(found: Found) -> Iterator[str]:
    """Check that a helper follows the decisions at the top, and was started by exactly one call."""
    started: Counter[tuple[str | None, str | None]] = Counter()
    for session, state in found.states.items():
        if state.kind != "child":
            continue
        if state.parent not in found.states:
            yield f"{session}: it was set to work by {state.parent}, which is not recorded"
            continue
        started[state.parent, state.parent_call] += 1
        for decided in found.bodies(session, CallDecided):
            top, name = at_top(found.states, session, decided.call_id)
            there = [(d.outcome, d.mode, d.input) for d in found.decisions(top, name)]
            if (decided.outcome, decided.mode, decided.input) not in there:
                yield f"{session}: {top} has not decided {name} so: {decided.outcome} {decided.input}"
    for (parent, call_id), count in started.items():
        if count > 1:
            yield f"{parent}: call {call_id} set {count} helpers to work"


def not_as_it_was(found: Found) -> Iterator[str]:
    """Check that a branch begins with the conversation, markings and switches at its event."""
    for session, state in found.states.items():
        if state.kind != "branch":
            continue
        if state.parent not in found.events or state.parent_seq is None:
            yield f"{session}: it branched off {state.parent}, which is not recorded"
            continue
        moment = found.events[state.parent][: state.parent_seq]
        then, first = fold(moment), found.events[session][0]
        begun = fold([first])
        markings = {key: net.marking for key, net in then.nets.items()}
        if {key: net.marking for key, net in begun.nets.items()} != markings:
            yield f"{session}: its markings are not those of {state.parent} at {state.parent_seq}"
        if (begun.active, begun.mode) != (then.active, then.mode):
            yield f"{session}: its switches are not those of {state.parent} at {state.parent_seq}"
        said = conversation(moment)
        here = conversation(found.events[session])[: len(said)]
        if here != said:
            yield f"{session}: of {len(said)} messages said at its moment it begins with {len(here)}"
