"""An event's body as stored and as hashed, without parsing the stored text again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Literal, NamedTuple, TypeAlias, Union, cast, get_args, get_origin

import orjson

from ..audit.canonical_json import is_plain
from ..audit.hash_chain import CONTENT
from ..model.events import EventBody, event_body
from ..model.fast_models import construct_tuple
from ..model.records import Record, RuleRecord

SURELY_SHALLOW = 100
"""Number of brackets up to which a JSON text can be parsed at any nesting depth."""

Parts: TypeAlias = tuple[bytes, bytes]
"""The canonical JSON of a body's facts and of its content."""

_AS_IT_IS = (
    orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
_SORTED = _AS_IT_IS | orjson.OPT_SORT_KEYS
_dumps = orjson.dumps
_NULL = b"null"
_SCALARS = frozenset({str, int, bool, type(None)})
_FACTS = _SCALARS | {tuple, dict, RuleRecord}


class Encoded(NamedTuple):
    """A body's JSON, and its canonical parts if they were computed along with it."""

    text: str
    parts: Parts | None


def encoded(body: EventBody) -> Encoded:
    """Encode a body for the database.

    Raises `ValueError` for text that is not valid Unicode, or that is nested deeper than a reader can
    follow.
    """
    members = body.__dict__
    facts = members.copy()
    content: dict[str, object] = {}
    names, loose_names = _kind(type(body))
    for name in names:
        content[name] = facts.pop(name)
    try:
        text = _dumps(members, _members, _AS_IT_IS)
        # ASCII keys have the same order in UTF-8 and UTF-16.
        if text.isascii():
            facts_json = _dumps(facts, _members, _SORTED)
            content_json = _dumps(content, _members, _SORTED)
            if (_are_plain(facts, loose_names) or _is_exact(facts_json, facts.values())) and (
                _has_scalars(content.values())
                or (_is_exact(content_json, content.values()) and _is_shallow(content_json))
            ):
                return construct_tuple(Encoded, (text.decode(), (facts_json, content_json)))
    except TypeError:
        # `orjson` does not know the type, or the text is not valid Unicode: pydantic writes another
        # character for a lone surrogate in a key.
        result = _slowly(body)
        json.dumps(body.model_dump(), ensure_ascii=False, default=str).encode()
        return result
    return _slowly(body)


def _slowly(body: EventBody) -> Encoded:
    text = body.model_dump_json()
    if not _is_shallow(text.encode()):
        event_body.validate_json(text)
    return Encoded(text, None)


def _are_plain(facts: dict[str, object], loose: tuple[str, ...]) -> bool:
    """Return whether all facts are of types with one notation, and those in `loose` are empty."""
    return _FACTS.issuperset(map(type, facts.values())) and not any(map(facts.__getitem__, loose))


def _has_scalars(values: Iterable[object]) -> bool:
    """Return whether all content values are scalars, including those in objects and records."""
    for value in values:
        kind = type(value)
        if kind in _SCALARS:
            continue
        if kind is dict:
            if not _SCALARS.issuperset(map(type, cast("dict[str, object]", value).values())):
                return False
        elif kind is tuple:
            for each in cast("tuple[object, ...]", value):
                if not isinstance(each, Record) or not _has_scalars(each.__dict__.values()):
                    return False
        else:
            return False
    return True


def _is_exact(text: bytes, values: Iterable[object]) -> bool:
    """Return whether the `text` that `orjson` wrote for `values` is certainly canonical and complete.

    `orjson` writes `null` for `NaN`.
    """
    return is_plain(text) and text.count(_NULL) == _nones(values)


def _nones(values: Iterable[object]) -> int:
    count = 0
    for value in values:
        if value is None:
            count += 1
        elif isinstance(value, Record):
            count += _nones(value.__dict__.values())
        elif isinstance(value, dict):
            count += _nones(cast("dict[str, object]", value).values())
        elif isinstance(value, list | tuple):
            count += _nones(cast("Sequence[object]", value))
    return count


def _is_shallow(text: bytes) -> bool:
    return len(text) <= 2 * SURELY_SHALLOW or text.count(b"[") + text.count(b"{") <= SURELY_SHALLOW


def _members(value: object) -> dict[str, object]:
    """Return the members of a record within a body. Other types have no JSON that is known here."""
    if isinstance(value, Record):
        return cast("dict[str, object]", value.__dict__)
    raise TypeError


@cache
def _kind(kind: type[Record]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a body class's content, and of the facts whose values may have several notations."""
    content = tuple(sorted(CONTENT & kind.model_fields.keys()))
    loose_names = (name for name, field in kind.model_fields.items() if not _is_fixed(field.annotation))
    return content, tuple(name for name in loose_names if name not in content)


def _is_fixed(annotation: object) -> bool:
    """Return whether every value of this type has only one notation."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return all(_is_fixed(field.annotation) for field in annotation.model_fields.values())
    if origin is Literal:
        return _SCALARS.issuperset(map(type, parts))
    if origin in (tuple, Union, UnionType):
        return all(_is_fixed(each) for each in parts if each is not ...)
    return annotation in (str, int, bool, NoneType)
