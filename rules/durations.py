"""Times as rules write them: `90s`, `15m`, `1h`, `2d`."""

from __future__ import annotations

import re
from typing import Final

MOST_DAYS: Final = 365
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = MOST_DAYS * _SECONDS["d"]
_UNITS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
}
_MEANT = {name: unit for unit, names in _UNITS.items() for name in names}


def seconds(word: str) -> int | None:
    """The seconds of a whole number with its unit; `None` when they are none or more than a year's."""
    # A number of very many digits is refused before it is read.
    digits = word[:-1].lstrip("0")
    if not digits or len(digits) > len(str(_LONGEST)):
        return None
    length = int(digits) * _SECONDS[word[-1]]
    return length if length <= _LONGEST else None


def meant(word: str, unit: str = "m") -> str | None:
    """The time that `word` is nearly: `15` and `15min` are `15m`, `1.5h` is `90m`, `hour` is `1h`.

    A number without a unit is taken to have `unit`; `None` when it is no time at all.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)?-?([a-z]*)", word.lower())
    if found is None or not word:
        return None
    number, name = found[1] or "1", found[2]
    if name in {"w", "week", "weeks"}:
        length = float(number) * 7 * _SECONDS["d"]
    elif name or found[1]:
        known = _MEANT.get(name, "" if name else unit)
        if not known:
            return None
        length = float(number) * _SECONDS[known]
        if "." not in number:
            return _fitting(f"{int(number)}{known}")
    else:
        return None
    for name, each in reversed(_SECONDS.items()):
        if length >= each and length % each == 0:
            return _fitting(f"{int(length / each)}{name}")
    return None


def _fitting(word: str) -> str | None:
    return None if seconds(word) is None else word
