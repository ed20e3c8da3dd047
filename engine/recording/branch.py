"""Points at which a recorded session may be branched, and the messages of the branch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from ..core.sanitize import visible
from ..history.model.events import CallResult, EventBody, JournalEvent, MessageAdded
from ..history.model.records import CallEnd, CallRecord
from ..history.model.state import SessionState
from .interrupted_calls import status_of
from .resume_checks import BranchError


def check_branch_point(events: Sequence[JournalEvent], at: int) -> None:
    """Raise `BranchError` unless every call has a result after event number `at`.

    A model rejects a conversation with open calls, and the gate's state in the middle of a call is not a
    valid start.
    """
    session, last = visible(events[0].session), len(events)
    if not 1 <= at <= last:
        raise BranchError(
            f"Session '{session}' has events 1 to {last}, not {at}. Choose one of them.",
            nearest=(1 if at < 1 else _points(events)[-1],),
        )
    points = _points(events)
    if at in points:
        return
    [*_, earlier] = (point for point in points if point < at)
    later = next((point for point in points if point > at), None)
    nearest = (earlier,) if later is None else (earlier, later)
    [*_, (_, unanswered)] = _unanswered(events[:at])
    calls = ", ".join(f"{visible(c.tool)} (call {visible(c.call_id)})" for c in unanswered.values())
    raise BranchError(
        f"Session '{session}' cannot be branched at event {at}: no result yet for {calls}. "
        f"The nearest events where it can be are {' and '.join(map(str, nearest))}.",
        nearest=nearest,
    )


def _points(events: Iterable[JournalEvent]) -> list[int]:
    """Numbers of the events after which no call is open; the first event is always one of them."""
    return [seq for seq, unanswered in _unanswered(events) if not unanswered]


def _unanswered(events: Iterable[JournalEvent]) -> Iterator[tuple[int, dict[str, CallRecord]]]:
    """Number of each event, with the calls that have no result after it."""
    unanswered: dict[str, CallRecord] = {}
    for event in events:
        match event.body:
            case MessageAdded(role="assistant", calls=calls):
                unanswered = {call.call_id: call for call in calls}
            case MessageAdded(role="tool", call_id=str(call_id)):
                unanswered.pop(call_id, None)
            case _:
                pass
        yield event.seq, unanswered


def copied(events: Iterable[JournalEvent], state: SessionState) -> list[EventBody]:
    """Messages in `events` for the branch's own record: texts in full, and the end of each call.

    Messages that were queued at that moment are left out: they were sent to the other session, which will
    read them. `state` is the fold of `events`.
    """
    outputs: dict[str, str] = {}
    messages: list[EventBody] = []
    for event in events:
        match event.body:
            case CallResult(call_id=call_id, output=output):
                outputs[call_id] = output
            case MessageAdded(role="tool", call_id=str(call_id)) as body:
                text = outputs.get(call_id, "") if body.text is None else body.text
                status = status_of(state, call_id)
                ended = status if status in get_args(CallEnd) else "skipped"
                messages.append(body.model_copy(update={"text": text, "ended": ended}))
            case MessageAdded() as body:
                messages.append(body.model_copy(update={"message_id": None}))
            case _:
                pass
    return messages
