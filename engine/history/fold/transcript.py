"""A session's transcript and its calls, to which events add.

A call is in the transcript once, and under its id in `calls`, where the latest of a repeated id replaces
earlier ones. Both refer to the same object, which is replaced, never changed in place.
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
"""Template: an event's values are valid, and validating them again takes three times as long."""


def say(
    state: SessionState,
    kind: Literal["user", "assistant", "note", "summary"],
    at: datetime,
    text: str,
    by: str | None = None,
    reported_by: str | None = None,
) -> None:
    """Add a message of the user or the agent, a summary, or a note."""
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
    """Add a call that the agent wants to make."""
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
    """Return the latest call with this id and one of `statuses`."""
    call = state.calls.get(call_id)
    if call is None or call.status in statuses:
        return call
    for entry in reversed(state.transcript):
        if entry.call is not None and entry.call.call_id == call_id and entry.call.status in statuses:
            return entry.call
    return None


def replace_call(state: SessionState, call: CallState, changed: CallState) -> None:
    """Replace `call` by `changed`, in the transcript and under its id."""
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
    """Compare by value too: a state received over the wire has each call twice, as equal objects."""
    return one is not None and one.call_id == other.call_id and one == other


def end_turn(state: SessionState) -> None:
    """Mark calls of the turn that were never decided as skipped."""
    for index in range(len(state.transcript) - 1, -1, -1):
        entry = state.transcript[index]
        if entry.kind == "user":
            return
        if entry.call is not None and entry.call.status == "proposed":
            replace_call(state, entry.call, copy_with(entry.call, {"status": "skipped"}))


def reopen(state: SessionState, asked_again: Container[str] = (), going_on: Container[str] = ()) -> None:
    """Resume an ended session: undecided calls of its last turn may still be decided.

    Calls of subagents end with it, unless the subagent continues and they are in `asked_again`. Calls in
    `going_on` run.
    """
    for index in range(len(state.transcript) - 1, -1, -1):
        entry = state.transcript[index]
        if entry.kind == "user":
            return
        call = entry.call
        if call is None or call.output is not None:
            continue
        is_asked_again = call.via is None or call.call_id in asked_again
        if call.status == "skipped" and is_asked_again:
            replace_call(state, call, copy_with(call, {"status": "proposed", "waits_for": ()}))
        elif call.waits_for:
            replace_call(state, call, copy_with(call, {"waits_for": ()}))
        elif call.status == "unknown" and call.call_id in going_on:
            replace_call(state, call, copy_with(call, {"status": "running"}))


def resumed_words(body: SessionResumed) -> str:
    """Return the note on a resumed session: who resumed it, and what continues automatically."""
    words = [f"resumed by {body.by}" if body.by else "resumed"]
    if calls := len(body.asked_again):
        words.append(f"{calls} {'call is' if calls == 1 else 'calls are'} asked again")
    if calls := len(body.going_on):
        words.append(f"{calls} {'call continues' if calls == 1 else 'calls continue'}")
    return "; ".join(words)


def replaced_words(body: RulesReplaced) -> str:
    """Return the note on a live session with replaced rules: who replaced them, and why."""
    applied = body.applied
    who = " and ".join((*applied.others, applied.by))
    return f"rules replaced by {who}" + (f": {applied.reason}" if applied.reason else "")


def end_session(state: SessionState, *, running_on: bool = False) -> None:
    """End a session: calls without a decision are skipped, calls without a result become unknown.

    With `running_on` running calls may still get a result.
    """
    for entry in list(state.transcript):
        call = entry.call
        if call is not None and call.status in UNDECIDED:
            replace_call(state, call, copy_with(call, {"status": "skipped"}))
        elif call is not None and call.status == "running" and not running_on:
            replace_call(state, call, copy_with(call, {"status": "unknown"}))


# Messages that the agent has not taken up yet, in the fold.


def queue(state: SessionState, event: JournalEvent, body: MessageQueued) -> None:
    """Add a message that waits for the model. Raises `FoldError` if it waits already."""
    if any(message.id == body.message_id for message in state.queued):
        raise impossible(event, f"message '{body.message_id}' waits already")
    message = QueuedState(id=body.message_id, since=event.at, mode=body.mode, text=body.text, by=body.by)
    state.queued = [*state.queued, message]


def take_queued(state: SessionState, event: JournalEvent, message_id: str) -> QueuedState:
    """Remove and return the waiting message with this id. Raises `FoldError` if it does not wait."""
    message = next((each for each in state.queued if each.id == message_id), None)
    if message is None:
        raise impossible(event, f"message '{message_id}' does not wait")
    state.queued = [each for each in state.queued if each is not message]
    return message
