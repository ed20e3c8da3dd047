"""An operator's acceptance that the database lost events of a session, after which it can be resumed."""

from __future__ import annotations

from ...core.sanitize import visible
from ...history.errors import FoldError, JournalError
from ...history.fold.fold import fold
from ...history.journal.journal import Journal
from ...history.model.events import EventBody, JournalEvent, LossAccepted, SessionStatus
from ...history.model.times import from_ms
from ...recording.interrupted_calls import withdrawals

ENDED = "acknowledged events of it were lost; it was ended as the database has it"


def record_acceptance(
    journal: Journal, session: str, *, by: str, reason: str
) -> tuple[JournalEvent, ...]:
    """Record that `by` accepts a session's missing events, and end the session at its last event.

    Raises `ValueError` for a session that did not diverge or that has no event left, and `JournalError`.
    """
    divergence = journal.divergence(session)
    if divergence is None:
        raise ValueError(f"session '{visible(session)}' did not diverge, or its loss is accepted already")
    events = list(journal.reader().events(session))
    if not events:
        raise ValueError(f"nothing is left of session '{visible(session)}'. {divergence.remedy}")
    accepted = LossAccepted(
        by=by,
        reason=reason,
        acknowledged=divergence.seq,
        kept=divergence.kept,
        noticed=from_ms(divergence.at),
        noticed_by=divergence.name,
        head=None if divergence.hash is None else divergence.hash.hex(),
    )
    try:
        questions: list[EventBody] = withdrawals(fold(events))
    except FoldError as error:
        raise JournalError(f"its record cannot be followed: {error}") from error
    end = SessionStatus(status="failed", error=ENDED, by=by)
    return journal.write(session, accepted, *questions, end, after=events[-1].seq)
