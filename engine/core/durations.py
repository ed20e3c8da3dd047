"""Lengths of time: typed, as `15m`, and in words, as `15 min`.

Rules, scenarios, settings, options and filters accept the typed form. It is also used in text that quotes
them or can be typed again, such as `3 per 1h` and `wait 1h`. All other text for people uses words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Seconds of each unit that can be typed; rules do not accept weeks."""
LONGEST: Final = 365 * UNITS["d"]
"""Longest time of a rule, a grant or a request, in seconds."""

# Eight digits cover 365 days in seconds; as weeks they are still within any calendar's range.
_TYPED = re.compile(r"0*([0-9]{1,8})\s*([smhdw])", re.ASCII | re.IGNORECASE)
_WRITTEN = ("d", "h", "m", "s")
_WORDS = {"d": "d", "h": "h", "m": "min", "s": "s"}


def parse_time(typed: str) -> int | None:
    """Seconds of `30s`, `15m`, `36h`, `90d` or `12w`; `None` for anything else or too long a time."""
    match = _TYPED.fullmatch(typed.strip())
    return None if match is None else int(match[1]) * UNITS[match[2].lower()]


def as_typed(seconds: float) -> str:
    """`1h`, `90m`, `45s`: in the largest unit of which it is a whole number."""
    for unit in _WRITTEN:
        if seconds >= UNITS[unit] and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:.0f}{unit}"
    return f"{seconds:g}s"


def format_duration(seconds: float) -> str:
    """`15 min`, `1 h 30 min`, `2 d`: at most two units, rounded down; `0.2 s` below one second.

    A negative time is `0 s`.
    """
    if 0 < seconds < 1:
        return f"{seconds:.1g} s"
    remaining = max(0, int(seconds))
    parts: list[str] = []
    for unit in _WRITTEN:
        count, remaining = divmod(remaining, UNITS[unit])
        if count:
            parts.append(f"{count} {_WORDS[unit]}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0 s"
