"""Fields (G-88) of a session from its record, and texts in which conditions look for values (G-86)."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.sources import USER
from ..history.model.events import CallResult, EventBody, MessageAdded, SessionOpened, SessionResumed
from ..history.model.records import Kind
from ..history.model.state import SessionState


def texts_in(body: EventBody, kind: Kind) -> Iterator[tuple[str, str]]:
    """Sources and texts that an event of a session of this kind adds.

    A result counts for the tool of its call, unless it is an error. In flows and subagents, programs or
    models write messages in the user's place: there, messages count only with a person's name.
    """
    match body:
        case MessageAdded(role="user", text=str(text), by=by):
            if by is not None or kind not in _SPOKEN_TO_BY_PROGRAMS:
                yield USER, text
        case MessageAdded(role="tool", text=str(text), tool=str(tool), ended="done"):
            yield tool, text
        case CallResult(is_error=False, anomaly=None, unknown=False, tool=tool, output=output):
            yield tool, output
        case _:
            pass


def recorded_texts(state: SessionState) -> Iterator[tuple[str, str]]:
    """Sources and texts of a session so far, in the order of its events."""
    for entry in state.transcript:
        if entry.kind == "user" and entry.text is not None:
            if entry.by is not None or state.kind not in _SPOKEN_TO_BY_PROGRAMS:
                yield USER, entry.text
        elif entry.call is not None and entry.call.status == "done" and entry.call.output is not None:
            yield entry.call.tool, entry.call.output


def session_fields(state: SessionState) -> dict[str, object]:
    """Fields of a session that conditions can test: see `SESSION_FIELDS`."""
    return {"agent": state.agent, "started_by": state.started_by, "labels": state.session_labels}


def session_hints(state: SessionState) -> dict[str, dict[str, bool]]:
    """Hints of tools that count: see `Surroundings.hints`."""
    return {tool: known.hints for tool, known in state.hints.items()}


def opening_fields(body: SessionOpened | SessionResumed) -> dict[str, object]:
    """Fields of a session, from the event that opens or resumes it."""
    by = body.opened_by if isinstance(body, SessionOpened) else body.by
    return {"agent": body.agent, "started_by": by, "labels": body.session_labels}


_SPOKEN_TO_BY_PROGRAMS = frozenset[Kind]({"child", "flow"})
