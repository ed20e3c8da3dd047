"""Messages to operators about their answers to requests."""

from __future__ import annotations

from datetime import datetime

from ..core.durations import format_duration
from ..gate.types import GrantTerms
from ..history.model.state import ApprovalState


def more_needed(shown: ApprovalState, by: str, missing: int) -> str:
    """One of several people has approved."""
    rest = "one more person" if missing == 1 else f"{missing} more people"
    so_far = f"{len(shown.given) + 1} of {shown.people}"
    return f"{shown.tool} approved by {by} ({so_far}); {rest} must approve"


def expired(shown: ApprovalState, since: datetime | None = None) -> str:
    """The reason for which a late request is denied; `since` is when it was first asked, if earlier."""
    assert shown.expires is not None
    where = "" if shown.rule is None else f" ({shown.rule.where})"
    time = (shown.expires - (since or shown.since)).total_seconds()
    return f"nobody decided within {format_duration(time)}{where}"


def ungrantable(shown: ApprovalState, grant: GrantTerms) -> str | None:
    """Reason why this request gives no such grant; `None` when it does."""
    if not shown.may_grant:
        why = "its rule asks for several people" if shown.people > 1 else "its rule says 'no grants'"
        return f"{shown.tool} cannot be granted beyond this call: {why}"
    if grant.scope == "names" and shown.exact_only is not None:
        return f"Only this exact input can be granted: {shown.exact_only}"
    return None
