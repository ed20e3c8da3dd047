"""Names of those who have approved so far, and when, where several people must."""

from __future__ import annotations

from datetime import datetime
from itertools import zip_longest

from ....engine.history.model.state import ApprovalState
from ...format.text import ago, seconds_between, shown


def given_names(request: ApprovalState, now: datetime) -> list[str]:
    """`ada 2 min ago ✓` for each of them, in their order; a time that was not recorded is left out."""
    times = request.given_at[: len(request.given)]
    return [
        f"{shown(name)} ✓" if at is None else f"{shown(name)} {ago(seconds_between(at, now))} ✓"
        for name, at in zip_longest(request.given, times)
    ]
