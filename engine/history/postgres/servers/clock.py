"""The database's time, read without a query: the server's monotonic clock plus an offset.

Each renewal of the lease corrects the offset. Event times, limits per hour, grants and deadlines all use
this clock, so that servers agree although the clocks of their machines differ.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime

from ....core.durations import format_duration
from ...database.location import PostgresLocation
from ...model.times import from_ms
from ..connection import NOW
from ..pool import reading

log = logging.getLogger(__name__)

JUMP_SECONDS = 1.0
"""Smallest correction that is reported as a jump of the database's clock; smaller ones are drift."""


def now() -> float:
    """Seconds of a monotonic clock that also counts while the machine sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def time_of(location: PostgresLocation) -> datetime:
    """Query the database's current time. Raises `JournalError`."""
    with reading(location) as connection:
        return from_ms(connection.number(f"SELECT {NOW}"))


class DatabaseClock:
    """`Clock` with the database's time. The arguments are those of `set`, for the first answer.

    `steady` is the monotonic clock in seconds. Any thread may read the time.
    """

    def __init__(
        self, said: int, asked: float, answered: float, *, steady: Callable[[], float] = now
    ) -> None:
        self._steady = steady
        self._offset = said / 1000 - (asked + answered) / 2

    def set(self, said: int, asked: float, answered: float) -> None:
        """Correct the offset: the database reported `said`, in UTC milliseconds.

        The query was sent at `asked` and answered at `answered`, in seconds of the steady clock.
        """
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
