"""Moments and lengths of time in words, for tables, headlines and scrubbers.

`zone` is where the operator's clock is; `None` is the machine's own.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo


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


def length(span: timedelta) -> str:
    """`0:07`, `1:40`, `2:00:05`, `3d 2:00`: minutes and seconds, with hours or days where needed."""
    seconds = max(0, int(span.total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}:{minutes:02}"
    if hours:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{minutes}:{seconds:02}"
