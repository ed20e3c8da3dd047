"""Lengths of time: typed, as `15m`, and in words, as `15 min`.

Rules, scenarios, settings, options and filters take the typed form; so does text that quotes them or can
be typed again, such as `3 per 1h` and `wait 1h`. Everything else that people read is in words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Seconds of each unit that is typed; rules know no weeks."""
LONGEST: Final = 365 * UNITS["d"]
"""Seconds of the longest time that a rule, a grant or a request can have."""

# Eight digits are 365 days in seconds, and few enough for any calendar to count that many weeks.
_TYPED = re.compile(r"0*([0-9]{1,8})\s*([smhdw])", re.ASCII | re.IGNORECASE)
_WRITTEN = ("d", "h", "m", "s")
_WORDS = {"d": "d", "h": "h", "m": "min", "s": "s"}


def parse_time(typed: str) -> int | None:
    """The seconds of `30s`, `15m`, `36h`, `90d` or `12w`; `None` for all else, and what is too long."""
    found = _TYPED.fullmatch(typed.strip())
    return None if found is None else int(found[1]) * UNITS[found[2].lower()]


def as_typed(seconds: float) -> str:
    """`1h`, `90m`, `45s`: in the largest unit that it is a whole number of."""
    for unit in _WRITTEN:
        if seconds >= UNITS[unit] and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:.0f}{unit}"
    return f"{seconds:g}s"


def format_duration(seconds: float) -> str:
    """`15 min`, `1 h 30 min`, `2 d`: at most two units, rounded down; `0.2 s` below one second.

    What is over is `0 s`.
    """
    if 0 < seconds < 1:
        return f"{seconds:.1g} s"
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit in _WRITTEN:
        count, left = divmod(left, UNITS[unit])
        if count:
            parts.append(f"{count} {_WORDS[unit]}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0 s"
