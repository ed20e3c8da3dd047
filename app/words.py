"""Numbers with their nouns. Imports nothing: commands that never paint use it too."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """`1 session`, `2 sessions`, `1,204 sessions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
