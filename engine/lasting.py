"""Lengths of time in words."""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def lasting(seconds: float) -> str:
    """`15 min`, `1 h 30 min`, `2 d`: at most two units, rounded down; at least `0 s`."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0 s"
