"""Times as written in rules: `90s`, `15m`, `1h`, `2d`."""

from __future__ import annotations

import re
from typing import Final

from ...engine.core.durations import LONGEST, UNITS, as_typed, parse_time

MOST: Final = as_typed(LONGEST)
LIMITS: Final = f"at least 1s and at most {MOST}"
_NAMES = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_MEANT = {name: unit for unit, names in _NAMES.items() for name in names}
_NEXT = {"w": "d", "d": "h", "h": "m", "m": "s"}
_JOINED = re.compile(r"([0-9]{1,8})([a-z]*)")
ONE_UNIT: Final = "a time is one number and one unit"


def seconds(word: str) -> int | None:
    """Seconds of a whole number with its unit; `None` for another word, zero, or more than a year."""
    length = parse_time(word)
    return length if length is not None and 0 < length <= LONGEST else None


def joined(word: str) -> int | None:
    """Seconds of several numbers and units in one word, `1h30m` or `1h30`, else `None`."""
    found = _JOINED.findall(word.lower())
    if len(found) < 2 or "".join(number + unit for number, unit in found) != word.lower():
        return None
    length, before = 0, ""
    for number, name in found:
        unit = _MEANT.get(name) if name else _NEXT.get(before)
        if unit is None:
            return None
        length += int(number) * UNITS[unit]
        before = unit
    return length


def nearest_duration(word: str) -> str | None:
    """The time that `word` probably means: `15` and `15min` are `15m`, `1.5h` is `90m`, `hour` is `1h`.

    `1h30m`, several in one, is `90m`. A number alone counts minutes; `None` if it is not like a time.
    """
    length = joined(word)
    if length is not None:
        time = as_typed(length)
        return None if seconds(time) is None else time
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)?-?([a-z]*)", word.lower())
    if found is None or not word:
        return None
    number, name = found[1] or "1", found[2]
    unit = _MEANT.get(name) if name else "m"
    if unit is None or not (name or found[1]):
        return None
    if "." in number or unit == "w":
        time = as_typed(float(number) * UNITS[unit])
    else:
        time = f"{int(number)}{unit}"
    return None if seconds(time) is None else time
