"""Times as stored in the journal: UTC milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(at: datetime) -> int:
    """Return the UTC milliseconds of an aware datetime, rounded down."""
    return (at - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    """Return the datetime of UTC milliseconds. Raises `OverflowError` if it is outside the calendar."""
    return _EPOCH + ms * _MILLISECOND
