"""Notice for the model that a person has changed the input of one of its calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from ..core.json_equality import same_json

LONGEST = 200
"""Characters of a value that are told; of a longer one only what differs, with what stands around it."""
AROUND = 20


def changed_by_a_person(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> str | None:
    """`A person changed env from "prod" to "staging"`; `None` when both are the same JSON."""
    changes = list(_changes(before, after))
    if not changes:
        return None
    *most, last = changes
    return f"A person {', '.join(most)} and {last}" if most else f"A person {last}"


def _changes(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, value in before.items():
        if name not in after:
            yield f"removed {name}"
        elif not same_json(value, after[name]):
            old, new = _apart(_json(value), _json(after[name]))
            yield f"changed {name} from {old} to {new}"
    for name, value in after.items():
        if name not in before:
            yield f"added {name}: {_cut(_json(value))}"


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _apart(old: str, new: str) -> tuple[str, str]:
    """Both, or of long ones the parts that differ."""
    if max(len(old), len(new)) <= LONGEST:
        return old, new
    same = _common(old, new)
    room = min(len(old), len(new)) - same
    tail = min(room, _common(old[::-1], new[::-1]))
    return _part(old, same, len(old) - tail), _part(new, same, len(new) - tail)


def _common(one: str, other: str) -> int:
    """Characters at the start of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _part(text: str, start: int, end: int) -> str:
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    return f"{'…' if first else ''}{_cut(text[first:last])}{'…' if last < len(text) else ''}"


def _cut(text: str) -> str:
    """`text`, without its middle when it is long."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}…{text[-half:]}"
