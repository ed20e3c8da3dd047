"""Fields of recorded inputs that a condition can name, with short plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from re import compile as pattern
from typing import TypeAlias, cast

from pydantic import JsonValue

from ..core.condition import Scalar
from ..core.sanitize import visible
from ..history.redaction.redaction import Redaction

LONGEST = 80
DEPTH = 3
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")

PlainField: TypeAlias = tuple[tuple[str, ...], type, Scalar]
"""Path of a field, the type of its value, and the value; for Python `true` equals 1."""


def plain_fields(values: Mapping[str, object], parents: tuple[str, ...] = ()) -> Iterator[PlainField]:
    """Fields of an input that hold a number, true, false, or a short text of visible characters."""
    for name, value in values.items():
        path = (*parents, name)
        if not _NAME.fullmatch(name):
            continue
        if isinstance(value, str):
            if 0 < len(value) <= LONGEST and visible(value) == value:
                yield path, str, value
        elif isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
            yield path, type(value), value
        elif isinstance(value, Mapping) and len(path) < DEPTH:
            yield from plain_fields(cast("Mapping[str, object]", value), path)


def paths_beside(
    values: Mapping[str, object], named: Collection[tuple[str, ...]], parents: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Fields of an input that are not `named`; an object that contains none of these is one field."""
    for name, value in values.items():
        path = (*parents, name)
        if isinstance(value, Mapping) and any(
            each[: len(path)] == path and each != path for each in named
        ):
            yield from paths_beside(cast("Mapping[str, object]", value), named, path)
        elif path not in named:
            yield path


def is_hidden(field: PlainField, redaction: Redaction) -> bool:
    """True if the value of a field is masked."""
    path, _, value = field
    wrapper: JsonValue = value
    for name in reversed(path):
        wrapper = {name: wrapper}
    whole = cast("dict[str, JsonValue]", wrapper)
    return redaction.fields(whole) != whole


def shown_fields(values: Mapping[str, object], redaction: Redaction) -> tuple[PlainField, ...]:
    """Plain fields of a whole input, without those in which anything is masked."""
    whole = cast("dict[str, JsonValue]", dict(values))
    masked_fields = frozenset(plain_fields(redaction.fields(whole)))
    return tuple(field for field in plain_fields(values) if field in masked_fields)
