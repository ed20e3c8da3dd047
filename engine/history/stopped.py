"""How the record of a flow's run says that the run stands and nothing went wrong with it."""

from __future__ import annotations

from .state import SessionState, SessionSummary

STOPPED = "the run was stopped"
LEFT = "left after step"
DIED = "the process that hosted this session ended without closing it"


def is_stopped(session: SessionState | SessionSummary) -> bool:
    """Whether this is a run that somebody stopped or left, or whose host died; it can be resumed."""
    error = session.error or ""
    ended = session.kind == "flow" and session.status == "failed"
    return ended and (error == DIED or error.startswith((STOPPED, LEFT)))
