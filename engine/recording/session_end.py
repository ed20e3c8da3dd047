"""Ends of sessions that are closed or whose host died, and checks of where a session can be resumed."""

from __future__ import annotations

import logging
from contextlib import suppress

from ..history.errors import FoldError, SessionNewer
from ..history.fold.flow_steps import DIED, LEFT
from ..history.fold.fold import fold
from ..history.journal.journal import Journal, JournalError
from ..history.model.events import EventBody, JournalEvent, SessionStatus
from ..history.model.records import Kind
from ..history.model.state import SessionState, SessionSummary
from .interrupted_calls import withdrawals
from .resume_checks import ResumeError

log = logging.getLogger(__name__)

ENDED = ("done", "failed")
CLOSED = "the session was closed"
SHUT_DOWN = f"{CLOSED}: Interlock was shut down"


def end_left_open(journal: Journal) -> None:
    """End the sessions of a process that died; only for the sole writer of the journal.

    Sessions recorded by a newer version stay open.
    """
    for line in journal.reader().unfinished():
        if line.newer:
            log.warning("session '%s' has a value of a newer version; it was left open", line.id)
            continue
        try:
            end_session_left_open(journal, line)
        except SessionNewer as error:
            log.warning("%s", error)


def end_session_left_open(journal: Journal, line: SessionSummary) -> tuple[JournalEvent, ...]:
    """End the session of a process that died: withdraw its requests and mark it failed.

    Returns the recorded events. Raises `SessionNewer` if a newer version recorded some of it, and
    `JournalError`, also if another server has the session.
    """
    questions: list[EventBody] = []
    events: list[JournalEvent] = []
    try:
        events = list(journal.reader().events(line.id))
    except JournalError as error:
        # A damaged record is ended as well, if that leaves nothing open.
        if line.waiting or isinstance(error, SessionNewer):
            raise
    seq = events[-1].seq if events else line.events
    if line.waiting:
        with suppress(FoldError):  # contradictory records are ended as well
            questions = withdrawals(fold(events))
    if seq != line.events:
        raise JournalError(f"Session '{line.id}' has continued since; it was not changed.")
    died = SessionStatus(status="failed", error=DIED)
    return journal.write(line.id, *questions, died, after=seq)


def ending(state: SessionState, by: str | None = None) -> SessionStatus:
    """Final status of a session that is closed; a flow's run is done only if its flow is.

    Any other run states why or where it stopped, and can be resumed.
    """
    if state.flow is None or state.phase == "done":
        return SessionStatus(status="done", by=by)
    why = f"{LEFT} {state.flow.step}; `interlock flow resume {state.id}` continues it"
    if state.phase == "failed":  # as recorded; events that the journal refused are not included
        why = state.error or why
    return SessionStatus(status="failed", error=why, by=by)


def check_kind(state: SessionState, kind: Kind) -> None:
    """Raise `ResumeError` unless a recorded session can be resumed as one of this kind.

    A branch is resumed as `root`.
    """
    if state.kind == "child":
        raise ResumeError(
            f"Session '{state.id}' is a subagent's, judged by the nets of session '{state.parent}'. "
            "Resume that one."
        )
    if state.kind == "flow" and kind != "flow":
        raise ResumeError(
            f"Session '{state.id}' is a run of flow '{state.agent}'. "
            f"`interlock flow resume {state.id}` continues it."
        )
    if kind == "flow" and state.kind != "flow":
        raise ResumeError(
            f"Session '{state.id}' is not a run of a flow. `interlock resume` continues it."
        )
    if state.kind == "outside" and kind != "outside":
        raise ResumeError(
            f"Session '{state.id}' belongs to an external agent: its record has the calls "
            "but not the conversation. Only that agent can continue it."
        )
    if kind == "outside" and state.kind != "outside":
        raise ResumeError(
            f"Session '{state.id}' runs in Interlock; no external agent can continue it. "
            "Open another session."
        )
