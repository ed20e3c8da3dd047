"""A session's transcript and its calls, as events add to them.

A call is in the transcript once, and under its id in `calls`, where the latest of a repeated id wins.
Both hold the same value, which is replaced, never changed in place.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from ..errors import impossible
from ..model.events import JournalEvent, MessageQueued, RulesReplaced, SessionResumed
from ..model.fast_models import copy_with
from ..model.state import CallState, QueuedState, SessionState, TranscriptEntry

UNDECIDED = frozenset({"proposed", "waiting"})
UNRESOLVED = frozenset({"running", "unknown"})
_PROPOSED = CallState(call_id="", tool="", input={}, at=datetime.min)
_ENTRY = TranscriptEntry(at=datetime.min, kind="call")
"""Templates: what an event holds is valid, and validating it again takes three times as long."""


def say(
    state: SessionState,
    kind: Literal["user", "assistant", "note", "summary"],
    at: datetime,
    text: str,
    by: str | None = None,
    reported_by: str | None = None,
) -> None:
    """Add what the user or the agent said, a summary of it, or a note."""
    entry = TranscriptEntry(at=at, kind=kind, text=text, by=by, reported_by=reported_by)
    state.transcript.append(entry)


def propose(
    state: SessionState,
    at: datetime,
    call_id: str,
    tool: str,
    arguments: dict[str, JsonValue],
    shell_fields: tuple[str, ...] = (),
) -> CallState:
    """Add a call the agent wants to make."""
    fields = {
        "call_id": call_id,
        "tool": tool,
        "input": arguments,
        "at": at,
        "shell_fields": shell_fields,
    }
    call = state.calls[call_id] = copy_with(_PROPOSED, fields)
    state.transcript.append(copy_with(_ENTRY, {"at": at, "call": call}))
    return call


def find_call(state: SessionState, call_id: str, statuses: Container[str]) -> CallState | None:
    """The latest call of this id with one of `statuses`."""
    call = state.calls.get(call_id)
    if call is None or call.status in statuses:
        return call
    for entry in reversed(state.transcript):
        if entry.call is not None and entry.call.call_id == call_id and entry.call.status in statuses:
            return entry.call
    return None


def replace_call(state: SessionState, call: CallState, changed: CallState) -> None:
    """Put `changed` where `call` was, in the transcript and under its id."""
    transcript = state.transcript
    for index in range(len(transcript) - 1, -1, -1):
        entry = transcript[index]
        if entry.call is call or _same(entry.call, call):
            transcript[index] = copy_with(entry, {"call": changed})
            break
    latest = state.calls.get(call.call_id)
    if latest is call or _same(latest, call):
        state.calls[call.call_id] = changed


def _same(one: CallState | None, other: CallState) -> bool:
    """A state that came over a wire holds a call twice, as equal values."""
    return one is not None and one.call_id == other.call_id and one == other


def end_turn(state: SessionState) -> None:
    """Calls of the turn that were never decided are skipped."""
    for index in range(len(state.transcript) - 1, -1, -1):
        entry = state.transcript[index]
        if entry.kind == "user":
            return
        if entry.call is not None and entry.call.status == "proposed":
            replace_call(state, entry.call, copy_with(entry.call, {"status": "skipped"}))


def reopen(state: SessionState, asked_again: Container[str] = (), going_on: Container[str] = ()) -> None:
    """An ended session goes on: calls of its last turn without an answer may still be decided.

    A subagent's end with it, unless it goes on and they are `asked_again`. Calls that are `going_on` run.
    """
    for index in range(len(state.transcript) - 1, -1, -1):
        entry = state.transcript[index]
        if entry.kind == "user":
            return
        call = entry.call
        if call is None or call.output is not None:
            continue
        again = call.via is None or call.call_id in asked_again
        if call.status == "skipped" and again:
            replace_call(state, call, copy_with(call, {"status": "proposed", "waits_for": ()}))
        elif call.waits_for:
            replace_call(state, call, copy_with(call, {"waits_for": ()}))
        elif call.status == "unknown" and call.call_id in going_on:
            replace_call(state, call, copy_with(call, {"status": "running"}))


def resumed_words(body: SessionResumed) -> str:
    """The note on a session that goes on: who resumed it, and what of it goes on by itself."""
    words = [f"resumed by {body.by}" if body.by else "resumed"]
    if calls := len(body.asked_again):
        words.append(f"{calls} {'call is' if calls == 1 else 'calls are'} asked again")
    if calls := len(body.going_on):
        words.append(f"{calls} {'call goes' if calls == 1 else 'calls go'} on")
    return "; ".join(words)


def replaced_words(body: RulesReplaced) -> str:
    """The note on a live session whose rules are others: who replaced them, and why."""
    applied = body.applied
    who = " and ".join((*applied.others, applied.by))
    return f"rules replaced by {who}" + (f": {applied.reason}" if applied.reason else "")


def end_session(state: SessionState, *, running_on: bool = False) -> None:
    """Nothing more will come: what was not decided was skipped, what has no result stays unknown.

    Calls that are `running_on` may still get one.
    """
    for entry in list(state.transcript):
        call = entry.call
        if call is not None and call.status in UNDECIDED:
            replace_call(state, call, copy_with(call, {"status": "skipped"}))
        elif call is not None and call.status == "running" and not running_on:
            replace_call(state, call, copy_with(call, {"status": "unknown"}))


# Messages from people that the agent has not taken up yet, in the fold.


def queue(state: SessionState, event: JournalEvent, body: MessageQueued) -> None:
    """Add a message that waits for the model. Raises `FoldError` where it waits already."""
    if any(waits.id == body.message_id for waits in state.queued):
        raise impossible(event, f"message '{body.message_id}' waits already")
    waits = QueuedState(id=body.message_id, since=event.at, mode=body.mode, text=body.text, by=body.by)
    state.queued = [*state.queued, waits]


def take_queued(state: SessionState, event: JournalEvent, message_id: str) -> QueuedState:
    """The message of this id, which waits no more. Raises `FoldError` where it does not wait."""
    found = next((waits for waits in state.queued if waits.id == message_id), None)
    if found is None:
        raise impossible(event, f"message '{message_id}' does not wait")
    state.queued = [waits for waits in state.queued if waits is not found]
    return found
