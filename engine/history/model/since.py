"""A past moment as people type it: an age, a time of day, or a date."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, tzinfo

from ...core.durations import parse_time

_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?", re.ASCII)


def moment(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Parse `30m`, `24h` or `7d` ago, `14:05`, `today`, `yesterday`, `2026-11-20`, `2026-11-20T14:00`.

    `zone` applies to times without a zone: the operator's, or the machine's for `None`. Raises
    `ValueError`, whose message says what to write instead.
    """
    typed = text.strip()
    local = now.astimezone(zone)
    age = parse_time(typed)
    if age is not None:
        try:
            return now - timedelta(seconds=age)
        except OverflowError as error:
            raise ValueError(f"'{typed}': this is too long ago") from error
    try:
        timestamp = _of_these_days(typed, local) or datetime.fromisoformat(typed)
        if timestamp.tzinfo is not None:
            return timestamp
        return timestamp.astimezone() if zone is None else timestamp.replace(tzinfo=zone)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"'{typed}' is not a time; use 30m, 24h, 7d, 14:05, {local:%Y-%m-%d} "
            f"or {local:%Y-%m-%dT%H:%M}"
        ) from error


def _of_these_days(typed: str, local: datetime) -> datetime | None:
    """Return a time of today, or of yesterday if it has not come yet today; `None` for any other text."""
    if typed in ("today", "yesterday"):
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - timedelta(days=typed == "yesterday")
    if not _CLOCK.fullmatch(typed):
        return None
    clock = time.fromisoformat(typed.zfill(5 if typed.count(":") == 1 else 8))
    moment_today = local.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
    return moment_today if moment_today <= local else moment_today - timedelta(days=1)
