"""Moments in words, for tables, headlines and scrubbers.

`zone` is where the operator's clock is; `None` is the machine's own.
"""

from __future__ import annotations

from datetime import datetime, tzinfo


def clock(at: datetime, zone: tzinfo | None = None) -> str:
    """`14:01:40`."""
    return f"{at.astimezone(zone):%H:%M:%S}"


def day(at: datetime, zone: tzinfo | None = None) -> str:
    """`2026-11-20`."""
    return f"{at.astimezone(zone):%Y-%m-%d}"


def day_and_time(at: datetime, zone: tzinfo | None = None) -> str:
    """`2026-11-20 14:01`."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M}"


def short_day_and_time(at: datetime, zone: tzinfo | None = None) -> str:
    """`11-20 14:01`, where there is no room for the year."""
    return f"{at.astimezone(zone):%m-%d %H:%M}"
