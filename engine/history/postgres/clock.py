"""The database's clock as a server reads it without asking: its own steady clock, set by each renewal.

Everything that counts by time in a database (events, limits per hour, grants, deadlines) goes by it, so
that servers whose machines say different times agree.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime

from ...core.durations import format_duration
from ..database.location import PostgresLocation
from ..model.times import from_ms
from .connection import NOW
from .pool import reading

log = logging.getLogger(__name__)

JUMP_SECONDS = 1.0
"""Difference from which on a clock is said to have been set, not to run a little faster or slower."""


def now() -> float:
    """Seconds of a clock that also counts while the machine sleeps, and that nobody sets."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def time_of(location: PostgresLocation) -> datetime:
    """The database's time. Raises `JournalError`."""
    with reading(location) as connection:
        return from_ms(connection.number(f"SELECT {NOW}"))


class DatabaseClock:
    """The database's time, a `Clock`. Begins with an answer as `set` takes it.

    `steady` gives seconds that nobody sets. Any thread may read it.
    """

    def __init__(
        self, said: int, asked: float, answered: float, *, steady: Callable[[], float] = now
    ) -> None:
        self._steady = steady
        self._offset = said / 1000 - (asked + answered) / 2

    def set(self, said: int, asked: float, answered: float) -> None:
        """Take in that the database said this time, in UTC milliseconds, between two steady times."""
        earliest, latest = said / 1000 - answered, (said + 1) / 1000 - asked
        offset = min(max(self._offset, earliest), latest)
        jump, self._offset = offset - self._offset, offset
        if abs(jump) >= JUMP_SECONDS:
            log.warning(
                "the database's clock is %s %s what this server had counted on: limits per time, grants, "
                "deadlines and the times of events go by it from now on",
                format_duration(round(abs(jump))),
                "ahead of" if jump > 0 else "behind",
            )

    def __call__(self) -> datetime:
        return from_ms(int((self._steady() + self._offset) * 1000))
