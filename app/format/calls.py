"""Decisions on a call, by whom and why, from the events around a moment of a recorded session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ...engine.core.approvers import with_groups
from ...engine.gate.edit_notice import describe_edit
from ...engine.history.decisions.index import decisions_of
from ...engine.history.decisions.reader import Decision
from ...engine.history.fold.event_text import grant_words
from ...engine.history.model.events import (
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalWithdrawn,
    CallDecided,
    CallLate,
    CallRepeated,
    CallWaits,
    GrantGiven,
    JournalEvent,
    MessageAdded,
    ModeChanged,
    RequestStep,
    SessionOpened,
    SessionResumed,
)
from ...engine.history.model.records import FlowStepped, RuleRecord
from ...engine.history.model.times import from_ms
from ...engine.history.redaction.masked_events import MaskedEvents
from .text import ago, as_json, rule_line, seconds_between

FARTHEST = 5_000
"""Maximum number of events searched for earlier facts about a call."""
LONGEST = 400
"""Maximum characters of an answer."""


def call_of(event: JournalEvent) -> str | None:
    """Return the id of the call that an event is about."""
    call_id: str | None = vars(event.body).get("call_id")
    return call_id


def call_timeline(recorded: Sequence[JournalEvent], position: int) -> list[tuple[str, str]]:
    """Return the decisions so far on the call of event number `position`, by whom and why.

    They are labels with texts, as agents and operators wrote them.
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
                if body.mode == "shadow" and body.outcome != "allow":
                    rows.append(("was off", _shadowed(recorded, number)))
                asked_for = asked_input(recorded, number) if body.edited else None
                rows.extend(_decided(body, asked_for))
            case ApprovalDecided() as body:
                reason = f": {body.reason}" if body.reason else ""
                word = "approved" if body.approved else "denied"
                answers.append((len(rows), body))
                edited = ", with another input" if body.input is not None else ""
                by = with_groups(body.by, body.groups)
                rows.append(("person", f"{word} by {by}{edited}{reason}"))
            case ApprovalGiven() as body:
                when = ago(seconds_between(event.at, recorded[position - 1].at))
                by = with_groups(body.by, body.groups)
                rows.append(("person", f"approved by {by} {when}, others must too"))
            case ApprovalExtended() as body:
                time = body.until if body.proposed is None else body.proposed.until
                until = "forever" if time is None else f"until {time:%H:%M:%S} UTC"
                by = " and ".join((*body.others, body.by))
                verb = "may wait" if body.proposed is None else "wanted to wait"
                rows.append(("person", f"{verb} {until}, by {by}"))
            case ApprovalRevealed() as body:
                rows.append(("person", f"masked text viewed by {body.by}"))
            case ApprovalEscalated() as body:
                rows.append(("person", f"escalated to {body.group}"))
            case ApprovalExpired() as body:
                rows.append(("person", f"expired: {body.reason}"))
            case GrantGiven() as body:
                why = f": {body.reason}" if body.reason else ""
                words = f"{grant_words(body.grant, body.input)}{why}"
                rows.append(("granted", f"{body.grant.key} by {body.by}: {words}"))
            case ApprovalWithdrawn() as body:
                rows.append(("person", f"no longer asked: {body.reason}"))
            case ApprovalRequested(wants=dict()):
                for index, answer in answers:
                    if answer.input is not None:
                        text = as_json(answer.input)[:LONGEST]
                        rows[index] = "person", f"answered by {answer.by}: {text}"
                rows.append(("asked because", _step_before(recorded, number)))
            case CallLate() as body:
                rows.append(("late", f"its client is gone, open until {body.until:%H:%M:%S}"))
            case CallRepeated() as body:
                new_id = "" if body.made_as == body.call_id else f" as {body.made_as}"
                rows.append(("late", f"made again{new_id}"))
            case RequestStep() as body:
                rows.append(("request", body.step))
            case CallWaits() as body:
                rows.append(("waits for", ", ".join(body.waits_for) or "no other call"))
            case ApprovalRequested() as body:
                new_id = (
                    f", about the input that {body.edited_by or 'an operator'} chose"
                    if body.edited
                    else ""
                )
                rows.append(("asked because", f"{_because(body.net, body.rule)}{new_id}"))
                if body.beyond:
                    rows.append(("although", body.beyond))
            case _:
                pass
    return rows[::-1]


def _step_before(recorded: Sequence[JournalEvent], number: int) -> str:
    """Return which step of a flow waits for the answer that event `number` requests."""
    opened = recorded[0].body
    flow = opened.flow if isinstance(opened, SessionOpened) else None
    for before in range(number - 1, max(0, number - FARTHEST), -1):
        if isinstance(body := recorded[before - 1].body, FlowStepped):
            of = "" if flow is None else f" of flow {flow.name}"
            return f"step {body.step}{of} waits for an answer"
    return "a step of a flow waits for an answer"


def asked_input(recorded: Sequence[JournalEvent], position: int) -> dict[str, JsonValue] | None:
    """Return the agent's own input of the call that an event is about; `None` if unknown."""
    call_id = call_of(recorded[position - 1])
    found: dict[str, JsonValue] | None = None
    for number in range(position, max(0, position - FARTHEST), -1):
        match recorded[number - 1].body:
            case MessageAdded(calls=calls):
                for call in calls:
                    if call.call_id == call_id:
                        return call.input
            case ApprovalRequested(call_id=asked, edited=False) as body if asked == call_id:
                found = body.input
            case _:
                pass
    return found


def edited_words(
    by: str | None, original: Mapping[str, JsonValue] | None, runs: Mapping[str, JsonValue]
) -> str:
    """Return an edit's author and changes (G-75): `by ada: changed env from "prod" to "staging"`."""
    who = f"by {by or 'an operator'}"
    changed = None if original is None else describe_edit(original, runs)
    if changed is None:
        return who if original is None else f"{who}: only in text that is masked here"
    return f"{who}: {changed.removeprefix('A person ')}"


def _decided(body: CallDecided, asked_for: dict[str, JsonValue] | None) -> list[tuple[str, str]]:
    """Return the rows in reverse order; `asked_for` is the agent's own input of an edited call."""
    would = "would " if body.mode == "shadow" and body.outcome != "allow" else ""
    word = {"allow": "allowed", "block": "blocked", "ask": "asked"}[body.outcome] if not would else ""
    verdict = word or f"would {body.outcome}, in shadow mode: it ran"
    by = f", approved by {body.approver_names}" if body.approved_by else ""
    by += f", by {', '.join(body.granted)}" if body.granted else ""
    by += f" ({body.off_words})" if body.off_words else ""
    rows = [("decided", f"{verdict}{by}")]
    if body.edited:
        rows.append(("edited", edited_words(body.edited_by, asked_for, body.input)))
    if body.net is not None and body.outcome != "allow":
        rows.append(("because", _because(body.net, body.rule)))
    if body.reason:
        rows.append(("reason", body.reason))
    if body.uninspectable is not None:
        rows.append(("unclear", f"cannot be fully analysed: {body.uninspectable}"))
    if body.judged_as:
        rows.append(("judged as", ", ".join(body.judged_as)))
    return rows[::-1]


def _shadowed(recorded: Sequence[JournalEvent], number: int) -> str:
    """Return who had switched to the shadow mode in which event `number` was decided."""
    for before in range(number - 1, max(0, number - FARTHEST), -1):
        match recorded[before - 1].body:
            case ModeChanged(mode="shadow") as body:
                who = ", ".join(dict.fromkeys((*body.others, body.by)))
                return f"shadow mode, switched to by {who}" + (f": {body.reason}" if body.reason else "")
            case SessionOpened(mode="shadow", opened_by=by) | SessionResumed(mode="shadow", by=by):
                return "shadow mode, from the start" + (f": {by}" if by else "")
            case _:
                pass
    return "shadow mode"


def _because(net: str, rule: RuleRecord | None) -> str:
    return rule_line(rule) or f"net {net}"


def decision_at(recorded: Sequence[JournalEvent], position: int) -> tuple[Decision, JournalEvent] | None:
    """Return the decision on the call of event `position`, with its event; `None` without one.

    If the call id was used several times, it is the decision before the event, or the first after it.
    """
    call_id = call_of(recorded[position - 1])
    if call_id is None:
        return None
    near = recorded.bearing_on(call_id) if isinstance(recorded, MaskedEvents) else range(len(recorded))
    bearing = [
        event
        for event in (recorded[index] for index in near)
        if isinstance(event.body, SessionOpened | SessionResumed | ModeChanged)
        or call_of(event) == call_id
    ]
    lines = [line for line in decisions_of(bearing) if line.kind == "call"]
    line = next((line for line in reversed(lines) if line.seq <= position), lines[0] if lines else None)
    if line is None:
        return None
    event = recorded[line.seq - 1]
    unclear = isinstance(event.body, CallDecided) and event.body.uninspectable is not None
    values = {**line._asdict(), "at": from_ms(line.at), "unclear": unclear}
    return Decision.model_validate(values), event
