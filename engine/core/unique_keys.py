"""JSON whose objects name each key once: of two values for a key readers take either."""

from __future__ import annotations

import json
from typing import TypeVar, cast

ValueT = TypeVar("ValueT")

LONGEST = 100
"""Characters of a key in an error."""


class RepeatedKeyError(ValueError):
    """An object that names a key twice."""


def unique(pairs: list[tuple[str, ValueT]]) -> dict[str, ValueT]:
    """An object from its pairs, for `json.loads(…, object_pairs_hook=unique)`.

    Raises `RepeatedKeyError`.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(f"the key {json.dumps(key[:LONGEST])} stands twice in one object")
            seen.add(key)
    return found


def check_unique(text: str, loaded: object) -> None:
    """Raises `RepeatedKeyError` for a text that was `loaded` by a reader that takes the last of two.

    Every key is followed by a colon: where there are no more colons than keys in what was loaded, no key
    was passed over, and the text need not be read again.
    """
    if text.count(":") > _keys(loaded):
        _READER.decode(text)


def _keys(value: object) -> int:
    """The number of keys in all objects."""
    if type(value) is dict:
        found = cast("dict[str, object]", value)
        return len(found) + sum(_keys(each) for each in found.values() if type(each) in _NESTED)
    if type(value) is list:
        return sum(_keys(each) for each in cast("list[object]", value) if type(each) in _NESTED)
    return 0


_NESTED = (dict, list)
_READER = json.JSONDecoder(object_pairs_hook=unique, parse_int=str, parse_float=str)
