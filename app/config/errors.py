"""Pydantic's validation errors, reworded for a file's author: what is expected and what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Keys: TypeAlias = tuple[str | int, ...]
UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
"""Types of pydantic errors for an unknown key."""
_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_type": "a table",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "a whole number",
    "mapping_type": "a table",
    "model_attributes_error": "a table",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "path_type": "a path in quotes",
    "string_pattern_mismatch": "some text",
    "string_type": "text in quotes",
    "tuple_type": "a list, in [ ]",
}
_FEW = 24
"""Maximum number of keys that a message lists; for larger tables it suggests only the nearest one."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def describe_error(error: ErrorDetails) -> str:
    """Return `expected a whole number, found 'x'` for any error but an unknown or a missing key."""
    kind, bounds = error["type"], error.get("ctx", {})
    match kind:
        case "value_error":
            return str(error["msg"]).removeprefix("Value error, ")
        case "greater_than_equal":
            expected = f"a number from {bounds.get('ge', 0)}"
        case "greater_than":
            expected = f"more than {bounds.get('gt', 0):g}"
        case "string_too_short":
            return "expected some text, found none"
        case "too_long":
            return f"at most {bounds.get('max_length')}, found {len(error['input'])}"
        case _ if kind in _EXPECTED:
            expected = _EXPECTED[kind]
        case _:
            expected = str(error["msg"]).removeprefix("Input should ").removeprefix("be ")
    return f"expected {expected}, found {describe_value(error['input'])}"


def describe_value(value: object) -> str:
    """Return a value as it was found, or its type if it has no short form."""
    names: Mapping[type[object], str] = {bool: "true or false", dict: "a table", list: "a list"}
    return names.get(type(value)) or f"{value!r:.60}"


def unknown_setting(key: str, names: Collection[str]) -> str:
    """Return the message for an unknown key, with the known ones, or the nearest of many."""
    close = get_close_matches(key, sorted(names), n=1) if len(names) > _FEW else []
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"
    return f"unknown setting '{key}'; {hint}"


def dotted(keys: Keys) -> str:
    """Return `('tools', 1)` as `tools[1]`, `('limits', 'max_steps')` as `limits.max_steps`.

    Keys that need quotes in TOML have them.
    """
    return "".join(map(_dotted, keys)).removeprefix(".")


def _dotted(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)}"
