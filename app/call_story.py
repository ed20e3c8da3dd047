"""Who decided what of a call, and why: from the events around one moment of a recorded session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast, get_args

from ..engine.history.changes import grant_words
from ..engine.history.decided import decisions_of
from ..engine.history.decisions import Decision
from ..engine.history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    GrantGiven,
    JournalEvent,
    MessageAdded,
    SessionOpened,
    SessionResumed,
)
from ..engine.history.flow import FlowStepped
from ..engine.history.masked import MaskedEvents
from ..engine.history.parts import RuleRecord
from ..engine.history.times import from_ms
from .text import ago, as_json, seconds_between

FARTHEST = 5_000
"""Events that are looked through for what was said of a call before."""
LONGEST = 400
"""Characters of an answer."""

About: TypeAlias = (
    CallDecided
    | CallResult
    | ApprovalRequested
    | ApprovalGiven
    | ApprovalExtended
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalWithdrawn
    | GrantGiven
    | MessageAdded
)
_ABOUT: frozenset[type] = frozenset(get_args(About))


def call_of(event: JournalEvent) -> str | None:
    """The id of the call that an event is about."""
    body = event.body
    return cast("About", body).call_id if type(body) in _ABOUT else None


def told(recorded: Sequence[JournalEvent], position: int) -> list[tuple[str, str]]:
    """Who decided what of the call that event number `position` is about, up to then, and why.

    Labels with their texts, as agents and people wrote them.
    """
    call_id = call_of(recorded[position - 1])
    if call_id is None:
        return []
    rows: list[tuple[str, str]] = []
    answers: list[tuple[int, ApprovalDecided]] = []
    for number in range(position, max(0, position - FARTHEST), -1):
        event = recorded[number - 1]
        if type(event.body) is MessageAdded and any(c.call_id == call_id for c in event.body.calls):
            break
        if call_of(event) != call_id:
            continue
        match event.body:
            case CallDecided() as body:
                if rows:
                    break
                rows.extend(_decided(body))
            case ApprovalDecided() as body:
                reason = f": {body.reason}" if body.reason else ""
                word = "approved" if body.approved else "denied"
                answers.append((len(rows), body))
                edited = ", with another input" if body.input is not None else ""
                rows.append(("person", f"{word} by {body.by}{edited}{reason}"))
            case ApprovalGiven() as body:
                when = ago(seconds_between(event.at, recorded[position - 1].at))
                rows.append(("person", f"approved by {body.by} {when}, others must too"))
            case ApprovalExtended() as body:
                until = "for ever" if body.until is None else f"until {body.until:%H:%M:%S} UTC"
                rows.append(("person", f"may wait {until}, by {body.by}"))
            case ApprovalExpired() as body:
                rows.append(("person", f"nobody in time: {body.reason}"))
            case GrantGiven() as body:
                rows.append(("granted", f"{body.grant.key} by {body.by}: {grant_words(body.grant)}"))
            case ApprovalWithdrawn() as body:
                rows.append(("person", f"not asked any more: {body.reason}"))
            case ApprovalRequested(wants=dict()):
                for index, given in answers:
                    if given.input is not None:
                        said = as_json(given.input)[:LONGEST]
                        rows[index] = "person", f"answered by {given.by}: {said}"
                rows.append(("asked because", _step_before(recorded, number)))
            case ApprovalRequested() as body:
                rows.append(("asked because", _because(body.net, body.rule)))
            case _:
                pass
    return rows[::-1]


def _step_before(recorded: Sequence[JournalEvent], number: int) -> str:
    """Which step of a flow an answer is wanted for, by event number `number`."""
    opened = recorded[0].body
    flow = opened.flow if isinstance(opened, SessionOpened) else None
    for before in range(number - 1, max(0, number - FARTHEST), -1):
        if isinstance(body := recorded[before - 1].body, FlowStepped):
            of = "" if flow is None else f" of flow {flow.name}"
            return f"step {body.step}{of} waits for an answer"
    return "a step of a flow waits for an answer"


def _decided(body: CallDecided) -> list[tuple[str, str]]:
    """Last first."""
    would = "would " if body.mode == "shadow" and body.outcome != "allow" else ""
    word = {"allow": "allowed", "block": "blocked", "ask": "asked"}[body.outcome] if not would else ""
    verdict = word or f"would {body.outcome}, in shadow mode: it ran"
    by = f", approved by {', '.join(body.approved_by)}" if body.approved_by else ""
    by += f", by {', '.join(body.granted)}" if body.granted else ""
    by += ", with another input than the model wrote" if body.edited else ""
    rows = [("decided", f"{verdict}{by}")]
    if body.net is not None and body.outcome != "allow":
        rows.append(("because", _because(body.net, body.rule)))
    if body.reason:
        rows.append(("reason", body.reason))
    return rows[::-1]


def _because(net: str, rule: RuleRecord | None) -> str:
    return f"net {net}" if rule is None else f"{rule.where}  {rule.text}"


def decision_at(recorded: Sequence[JournalEvent], position: int) -> tuple[Decision, JournalEvent] | None:
    """The decision on the call that event number `position` is about, and its event; none without one.

    Of an id that came again it is the decision before the event, or the first after it.
    """
    call_id = call_of(recorded[position - 1])
    if call_id is None:
        return None
    near = recorded.bearing_on(call_id) if isinstance(recorded, MaskedEvents) else range(len(recorded))
    bearing = [
        event
        for event in (recorded[index] for index in near)
        if isinstance(event.body, SessionOpened | SessionResumed) or call_of(event) == call_id
    ]
    lines = decisions_of(bearing)
    line = next((line for line in reversed(lines) if line.seq <= position), lines[0] if lines else None)
    if line is None:
        return None
    decision = Decision.model_validate({**line._asdict(), "at": from_ms(line.at)})
    return decision, recorded[line.seq - 1]
