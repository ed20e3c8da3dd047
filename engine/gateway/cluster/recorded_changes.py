"""Operators' changes to a session that runs at no server, recorded after its last event.

Only changes that tighten are made in this way: they hold when the session is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...history.errors import FoldError, JournalError
from ...history.fold.fold import fold
from ...history.journal.journal import Journal
from ...history.model.events import EventBody, GrantRevoked, JournalEvent, ModeChanged
from ...history.model.state import SessionState
from ...hub.api import Outcome

RECORDED = ("revoke_grant", "set_mode")
"""Operations that can be recorded in a session without a server, if they tighten it."""
Change = Callable[[SessionState], tuple[tuple[EventBody, ...], Outcome]]
"""Returns the events that make the change in a session's state, and the answer to the operator."""


def tightening(operation: str, arguments: Mapping[str, object]) -> Change | None:
    """Return the change that an operation makes in a recorded session; `None` if it needs a live one."""
    by = str(arguments.get("by") or "").strip() or "unnamed"
    if operation == "revoke_grant":
        key = str(arguments.get("key"))
        return lambda state: _revocation(state, key, by)
    if operation == "set_mode" and arguments.get("mode") == "enforce":
        return lambda state: _enforcement(state, by)
    return None


def record_change(journal: Journal, session: str, change: Change) -> tuple[list[JournalEvent], Outcome]:
    """Record a change of a session that no other server owns.

    Raises `SessionNotFound`, and `JournalError` if nothing was recorded.
    """
    session = journal.reader().session(session, whole=True).id
    events = list(journal.reader().events(session))
    try:
        bodies, outcome = change(fold(events))
    except FoldError as error:
        raise JournalError(f"its record cannot be followed: {error}") from error
    return list(journal.write(session, *bodies, after=events[-1].seq)) if bodies else [], outcome


def _revocation(state: SessionState, key: str, by: str) -> tuple[tuple[EventBody, ...], Outcome]:
    """Revoke a grant and all others of its plan, by the key of one of them or of the plan (G-110)."""
    active = {each: grant.record.plan for each, grant in state.grants.items() if grant.net.active}
    plan = active.get(key) or key
    ended = [each for each, of in active.items() if each == key or of == plan]
    if not ended:
        return (), Outcome(ok=False, message=f"{state.id} has no grant '{key}' in force")
    revoked = tuple(GrantRevoked(key=each, by=by) for each in ended)
    return revoked, Outcome(ok=True, message=f"{key} revoked by {by}")


def _enforcement(state: SessionState, by: str) -> tuple[tuple[EventBody, ...], Outcome]:
    """Return a session to enforce mode."""
    bodies = () if state.mode == "enforce" else (ModeChanged(mode="enforce", by=by),)
    return bodies, Outcome(ok=True, message=f"{state.id} is now in enforce mode")
