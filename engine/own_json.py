"""JSON of one's own: copied, so that whoever gave it changes nothing of what was judged and recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import cast

from pydantic import JsonValue

from .records import json_input

_DEEPEST = 64
_SCALARS = frozenset({str, int, bool, float, type(None)})


def own_input(given: Mapping[str, object]) -> dict[str, JsonValue]:
    """A call's input as plain JSON. Raises `ValueError` for anything JSON cannot hold."""
    try:
        # What a frame was parsed to takes a tenth of the time that a check of anything takes.
        return cast("dict[str, JsonValue]", _plain(given, _DEEPEST))
    except _NotPlain:
        found = json_input(given)
        json.dumps(found, allow_nan=False)
        return found


def copied(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A copy of what is known to be JSON."""
    return {key: item if type(item) in _SCALARS else _copy(item) for key, item in value.items()}


def _copy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return copied(value)
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


class _NotPlain(Exception):  # noqa: N818 - not an error: it is looked at more closely
    pass


def _plain(value: object, levels: int) -> object:
    """A copy of what is made of the builtin types themselves."""
    kind = type(value)
    if kind is float and not isfinite(cast("float", value)):
        raise ValueError(f"{value} is no number of JSON, so nobody could see what they approve")
    if kind in _SCALARS:
        return value
    if levels == 0:
        raise _NotPlain
    if kind is dict:
        found = cast("dict[object, object]", value)
        for key in found:
            if type(key) is not str:
                raise _NotPlain
        return {key: _plain(item, levels - 1) for key, item in found.items()}
    if kind is list:
        return [_plain(item, levels - 1) for item in cast("list[object]", value)]
    raise _NotPlain
