"""The time, passed to the code that needs it: the machine's clock, or a test's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Returns the time as an aware datetime."""


LOOK_AGAIN = 30.0
"""Longest time in seconds for which a timer waits before it reads the clock again.

Timers stop while the machine sleeps, and do not notice that the journal's clock was set.
"""


def utc_now() -> datetime:
    """Time of the machine's clock."""
    return datetime.now(UTC)


def timer_delay(seconds: float) -> float:
    """Return the delay of a timer for what is due in so many seconds; it checks whether it is due."""
    return min(max(0.0, seconds), LOOK_AGAIN)
