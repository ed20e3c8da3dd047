"""More time for a request, a quarter of an hour at a time, from wherever it is asked for."""

from __future__ import annotations

from datetime import datetime

from ..engine.history.state import ApprovalState
from .text import seconds_between

MORE_TIME = 15 * 60.0
"""Seconds that a request gets at once, beside those it has left."""


def with_more(request: ApprovalState, now: datetime) -> float | None:
    """The seconds from `now` on that a request is to wait; `None` for one that waits for ever anyway."""
    return None if request.expires is None else seconds_between(now, request.expires) + MORE_TIME
