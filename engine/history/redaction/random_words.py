"""Words that look random, like keys and generated passwords, unlike names and sentences."""

from __future__ import annotations

import re

SHORTEST = 12
"""Minimum length of a word that can look random; shorter ones may be anything."""

_WORD = re.compile(r"[A-Za-z0-9+/_.~-]{12,512}={0,2}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SPOKEN = re.compile(r"[a-z]{6}")
_TURN = re.compile(
    r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Z])(?=[a-z])"
)


def looks_random(word: str) -> bool:
    """Return whether a word is hexadecimal, or alternates lower case, upper case and digits.

    In `Zq8rT2vL` most characters are of another kind than the one before, and none form a word.
    """
    if _HEX.fullmatch(word) is not None:
        return True
    if _WORD.fullmatch(word) is None or not any(c.isdigit() for c in word):
        return False
    letters = [c for c in word if c.isalpha()]
    mixed = any(c.islower() for c in letters) and any(c.isupper() for c in letters)
    return mixed and _SPOKEN.search(word) is None and len(_TURN.findall(word)) * 5 >= len(word) * 2
