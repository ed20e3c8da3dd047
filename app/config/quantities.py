"""Lengths of time and amounts of money in options and settings."""

from __future__ import annotations

from datetime import timedelta

from ...engine.core.durations import parse_time


def age(text: str) -> timedelta:
    """Parse a length of time: `90d`, `12w`, `36h`, `15m`, `30s`.

    Raises `ValueError` for anything else.
    """
    seconds = parse_time(text)
    if seconds is None:
        raise ValueError(f"expected a length of time such as 90d, 12w or 36h, found '{text}'")
    return timedelta(seconds=seconds)


def length_of_time(value: object) -> timedelta:
    """Parse a length of time in a settings file. Raises `ValueError`."""
    return value if isinstance(value, timedelta) else age(str(value))


def one_or_more(value: object) -> object:
    """Return a value from a settings file as a list, also if it is a single text."""
    return [value] if isinstance(value, str) else value


def parse_dollars(text: str) -> float:
    """Parse an amount in US dollars. Raises `ValueError`, with a sentence, for anything else."""
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < float("inf"):
        raise ValueError(f"an amount in US dollars, more than 0, not '{text}'")
    return amount
