"""Reading what authors and client libraries hand over: mappings here, objects there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast


def as_mapping(thing: object) -> Mapping[str, object] | None:
    """`thing` when it is a mapping."""
    return cast("Mapping[str, object]", thing) if isinstance(thing, Mapping) else None


def as_list(thing: object) -> list[object]:
    """`thing` when it is a list, else nothing to go through."""
    return cast("list[object]", thing) if isinstance(thing, list) else []


def field_of(thing: object, name: str) -> object:
    """An entry of a mapping or an attribute of an object, `None` when there is none."""
    fields = as_mapping(thing)
    return getattr(thing, name, None) if fields is None else fields.get(name)
