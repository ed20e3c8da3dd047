"""Equality of JSON values, as tools distinguish them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

_PLAIN = (str, bool, int, float, type(None))


def same_json(one: object, other: object) -> bool:
    """True if two values are the same JSON: `1`, `1.0` and `true` are three, a tuple is a list.

    What JSON does not have equals nothing.
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
