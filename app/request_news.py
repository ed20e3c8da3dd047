"""What events of the hub mean for the one request that a dialog shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine.history.ends import end_of, own_end
from ..engine.history.events import (
    ApprovalDecided,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    JournalEvent,
)
from ..engine.history.state import ApprovalState
from ..engine.hub import HubEvent


@dataclass(slots=True)
class News:
    """`ended` says how the request ended, `again` is the id of the one that is asked in its place.

    `meanwhile` says who decided it while a decision from here is under way, be it that one or another.
    `changed` says that it stays open and is not what it was, `queue` that others have come.
    """

    ended: str | None = None
    meanwhile: str | None = None
    again: str | None = None
    changed: bool = False
    queue: bool = False

    @property
    def worth_a_look(self) -> bool:
        """Whether the hub's queue has to be read."""
        return self.changed or self.queue


def news_of(
    events: Sequence[HubEvent],
    request: ApprovalState,
    *,
    over: bool,
    deciding: bool,
    operator: str = "",
) -> News:
    """What is new about `request`; `over` when it had ended before, `deciding` while one decides here.

    An answer of the `operator` here is told as theirs: they need not look for who was faster.
    """
    news = News()
    for event in events:
        if not isinstance(event, JournalEvent):
            continue
        end = end_of(event.body)
        if end is not None and end[0] == request.id:
            said = end[1]
            if isinstance(event.body, ApprovalDecided) and operator and event.body.by == operator.strip():
                said = own_end(event.body)
            if deciding and isinstance(event.body, ApprovalDecided):
                news.meanwhile = said
            else:
                news.ended = said
        match event.body:
            case (
                ApprovalGiven(approval_id=i)
                | ApprovalExtended(approval_id=i)
                | ApprovalRevealed(approval_id=i)
            ) if i == request.id:
                news.changed = True
            case ApprovalRequested(approval_id=i, call_id=call):
                news.queue = True
                same_call = (event.session, call) == (request.session, request.call_id)
                if same_call and (over or news.ended is not None):
                    news.again = i
            case _:
                pass
    return news
