"""How a request ended, for those who answer it too late or see it go."""

from __future__ import annotations

from .events import ApprovalDecided, ApprovalExpired, ApprovalWithdrawn, EventBody


def end_of(body: EventBody) -> tuple[str, str] | None:
    """The request's id and a sentence: `Already denied by maria: not today`; `None` for other events."""
    match body:
        case ApprovalDecided(approved=approved, by=by, reason=reason):
            why = f": {reason}" if reason else ""
            return body.approval_id, f"Already {'approved' if approved else 'denied'} by {by}{why}"
        case ApprovalExpired(reason=reason):
            return body.approval_id, f"Too late: {reason}"
        case ApprovalWithdrawn(reason=reason):
            return body.approval_id, f"Withdrawn: {reason}"
        case _:
            return None


def own_end(body: ApprovalDecided) -> str:
    """The same for whoever decided it: `You have approved this: it is recorded`."""
    return f"You have {'approved' if body.approved else 'denied'} this: it is recorded"
