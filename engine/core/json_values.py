"""JSON values as tools distinguish them, and objects without duplicate keys.

If a key occurs twice, some readers take the first value and others the last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

_PLAIN = (str, bool, int, float, type(None))


def same_json(one: object, other: object) -> bool:
    """True if two values are the same JSON: `1`, `1.0` and `true` are three, a tuple is a list.

    Values that JSON does not have equal nothing.
    """
    first, second = _object(one), _object(other)
    if first is not None and second is not None:
        if first.keys() != second.keys() or any(type(key) is not str for key in (*first, *second)):
            return False
        return all(same_json(value, second[key]) for key, value in first.items())
    items, others = _items(one), _items(other)
    if items is not None and others is not None:
        return len(items) == len(others) and all(map(same_json, items, others))
    return type(one) is type(other) and type(one) in _PLAIN and one == other


def _object(value: object) -> Mapping[object, object] | None:
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None


def _items(value: object) -> list[object] | None:
    return list(cast("Iterable[object]", value)) if isinstance(value, list | tuple) else None


ValueT = TypeVar("ValueT")

LONGEST = 100
"""Most characters of a key that an error message shows."""


class RepeatedKeyError(ValueError):
    """An object with a duplicate key."""


def unique(pairs: list[tuple[str, ValueT]]) -> dict[str, ValueT]:
    """An object from its pairs, for `json.loads(…, object_pairs_hook=unique)`.

    Raises `RepeatedKeyError`.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise RepeatedKeyError(f"the key {json.dumps(key[:LONGEST])} occurs twice in one object")
            keys.add(key)
    return members


def check_unique(text: str, loaded: object) -> None:
    """Raise `RepeatedKeyError` if a text `loaded` by a reader that keeps the last value has a duplicate
    key.

    Every key is followed by a colon. If the text has no more colons than the loaded value has keys, no
    key was dropped, and the text need not be parsed again.
    """
    if text.count(":") > _keys(loaded):
        _READER.decode(text)


def _keys(value: object) -> int:
    """Number of keys in all objects."""
    count = 0
    elements: Iterable[object] = ()
    if type(value) is dict:
        members = cast("dict[str, object]", value)
        count, elements = len(members), members.values()
    elif type(value) is list:
        elements = cast("list[object]", value)
    for each in elements:
        if type(each) in _NESTED:
            count += _keys(each)
    return count


_NESTED = (dict, list)
_READER = json.JSONDecoder(object_pairs_hook=unique, parse_int=str, parse_float=str)
