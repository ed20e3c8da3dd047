"""How long ago, or since when: `30m`, `24h`, `7d`, `2w`, or a date with or without a time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

_SPAN = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """The moment that `text` means, `now` being now; `zone` is where a time without one is.

    Raises `ValueError`, whose message says what is expected.
    """
    span = _SPAN.fullmatch(text.strip().lower())
    try:
        if span is not None:
            return now - timedelta(**{_UNITS[span[2]]: int(span[1])})
        at = datetime.fromisoformat(text.strip())
        return at.astimezone() if at.tzinfo is None and zone is None else _in(at, zone)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"'{text}' is no moment; expected a span as 24h or 7d, or a date as 2026-11-20 or "
            "2026-11-20T14:00"
        ) from error


def _in(at: datetime, zone: tzinfo | None) -> datetime:
    return at.replace(tzinfo=zone) if at.tzinfo is None else at
