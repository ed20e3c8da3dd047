"""What events of the hub mean for the one request that a dialog shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine.history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    JournalEvent,
)
from ..engine.history.state import ApprovalState
from ..engine.hub import HubEvent


@dataclass(slots=True)
class News:
    """`ended` says how the request ended, `again` is the id of the one that is asked in its place.

    `changed` says that it stays open and is not what it was, `queue` that others have come.
    """

    ended: str | None = None
    again: str | None = None
    changed: bool = False
    queue: bool = False

    @property
    def worth_a_look(self) -> bool:
        """Whether the hub's queue has to be read."""
        return self.changed or self.queue


def news_of(events: Sequence[HubEvent], request: ApprovalState, *, over: bool, deciding: bool) -> News:
    """What is new about `request`; `over` when it had ended before, `deciding` while one decides here."""
    news = News()
    for event in events:
        if not isinstance(event, JournalEvent):
            continue
        match event.body:
            case ApprovalDecided(approval_id=i, approved=yes, by=by, reason=reason) if i == request.id:
                if not deciding:
                    why = f": {reason}" if reason else ""
                    news.ended = f"Already {'approved' if yes else 'denied'} by {by}{why}"
            case ApprovalExpired(approval_id=i, reason=reason) if i == request.id:
                news.ended = f"Too late: {reason}"
            case ApprovalWithdrawn(approval_id=i, reason=reason) if i == request.id:
                news.ended = f"Withdrawn: {reason}"
            case ApprovalGiven(approval_id=i) | ApprovalExtended(approval_id=i) if i == request.id:
                news.changed = True
            case ApprovalRequested(approval_id=i, call_id=call):
                news.queue = True
                same_call = (event.session, call) == (request.session, request.call_id)
                if same_call and (over or news.ended is not None):
                    news.again = i
            case _:
                pass
    return news
