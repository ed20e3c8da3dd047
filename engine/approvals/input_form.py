"""Input that a request needs besides an approval: its JSON Schema, and checks of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from ..core.sanitize import visible

NOTHING = "This request wants an answer: fill it in"
DEEPEST = 40
"""Maximum depth of a schema that is checked; deeper levels are left to the receiver of the answer."""
_NUMBERS = {"integer": "a whole number", "number": "a number"}


@dataclass(frozen=True, slots=True)
class RequestedInput:
    """An answer to fill in: its JSON Schema, and `unfit`, which returns why one is invalid, or `None`.

    `title` and `message` are the texts of the request.
    """

    title: str
    message: str
    schema: dict[str, JsonValue]
    unfit: Callable[[dict[str, JsonValue]], str | None]

    def problem(self, answer: dict[str, JsonValue] | None) -> str | None:
        """Return why an answer cannot be accepted; `None` if it can.

        Values that would be dropped or converted are rejected: fields that the schema does not name, and
        booleans in place of numbers.
        """
        if answer is None:
            return NOTHING
        misreading = next(_misreadings(self.schema, answer, "", self.schema, DEEPEST), None)
        return self.unfit(answer) if misreading is None else misreading


def _misreadings(
    schema: JsonValue, value: JsonValue, path: str, root: dict[str, JsonValue], levels: int
) -> Iterator[str]:
    """Yield the parts of `value` that a lenient reader of `schema` would drop or convert, as text."""
    if not isinstance(schema, dict) or levels <= 0:
        return
    schema = _resolved(schema, root)
    for name in ("anyOf", "oneOf"):
        options = schema.get(name)
        if isinstance(options, list) and options:
            fitting = [each for each in options if _may_be(each, value, root)] or options
            faults = [list(_misreadings(each, value, path, root, levels - 1)) for each in fitting]
            if all(faults):
                yield faults[0][0]
    match value:
        case bool():
            kinds = schema.get("type")
            kinds = kinds if isinstance(kinds, list) else [kinds]
            expected = next((_NUMBERS[str(kind)] for kind in kinds if kind in _NUMBERS), None)
            if expected is not None and "boolean" not in kinds:
                yield f"{path or 'the answer'}: expected {expected}, found {'true' if value else 'false'}"
        case dict():
            yield from _object_misreadings(schema, value, path, root, levels)
        case list():
            first = schema.get("prefixItems")
            for index, each in enumerate(value):
                is_prefix = isinstance(first, list) and index < len(first)
                inner = first[index] if isinstance(first, list) and is_prefix else schema.get("items")
                yield from _misreadings(inner, each, f"{path}[{index}]", root, levels - 1)
        case _:
            pass


def _may_be(schema: JsonValue, value: JsonValue, root: dict[str, JsonValue]) -> bool:
    """True if an alternative accepts this type of value at all; one for numbers accepts booleans too."""
    kinds = _resolved(schema, root).get("type") if isinstance(schema, dict) else None
    if kinds is None:
        return True
    own = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return any(
        isinstance(value, own.get(str(kind), int | float))
        for kind in (kinds if isinstance(kinds, list) else [kinds])
    )


def _object_misreadings(
    schema: dict[str, JsonValue],
    value: dict[str, JsonValue],
    path: str,
    root: dict[str, JsonValue],
    levels: int,
) -> Iterator[str]:
    """Yield the same for an object's fields. A field that no part of the schema names is unknown."""
    named = _properties(schema, root, levels)
    more = schema.get("additionalProperties")
    combined = any(name in schema for name in ("patternProperties", "anyOf", "oneOf"))
    free = combined or (not named and "properties" not in schema)
    for name, each in value.items():
        inner = f"{path}.{visible(name)}" if path else visible(name)
        if name in named:
            yield from _misreadings(named[name], each, inner, root, levels - 1)
        elif isinstance(more, dict):
            yield from _misreadings(more, each, inner, root, levels - 1)
        elif more is False or (more is None and not free):
            yield f"{inner}: there is no such field to fill in"


def _properties(
    schema: dict[str, JsonValue], root: dict[str, JsonValue], levels: int
) -> dict[str, JsonValue]:
    """Return the fields that a schema names, with those of its `allOf`."""
    named = schema.get("properties")
    found = {**named} if isinstance(named, dict) else {}
    parts = schema.get("allOf")
    for part in parts if isinstance(parts, list) and levels > 0 else ():
        if isinstance(part, dict):
            found = {**_properties(_resolved(part, root), root, levels - 1), **found}
    return found


def _resolved(schema: dict[str, JsonValue], root: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a schema with its reference in `root` resolved; an invalid reference allows anything."""
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        rest = {name: each for name, each in schema.items() if name != "$ref"}
        schema = {**_target(reference, root), **rest}
    return schema


def _target(reference: str, root: dict[str, JsonValue]) -> dict[str, JsonValue]:
    found = root
    for step in filter(None, reference.removeprefix("#").split("/")):
        inner = found.get(step.replace("~1", "/").replace("~0", "~"))
        if not isinstance(inner, dict):
            return {}
        found = inner
    return found
