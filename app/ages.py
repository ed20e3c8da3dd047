"""Lengths of time as people type them."""

from __future__ import annotations

import re
from datetime import timedelta

_AGE = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def age(text: str) -> timedelta:
    """`90d`, `12w`, `36h`, `15m`, `30s`. Raises `ValueError` with a sentence for anything else."""
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"expected a length of time such as 90d, 12w or 36h, found '{text}'")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
