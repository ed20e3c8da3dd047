"""A call's input as written in scenarios: `env prod options.tags ["a", "b"] "odd name" 3`.

A name with dots is a path into objects, as in a condition's field; a quoted name is taken literally.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from lark import Token

from ..errors.fault import Fault, start
from ..errors.problems import quote

_LITERALS: Mapping[str, object] = {"true": True, "false": False, "null": None}
_NAME = re.compile(r'("(?:[^"\\]|\\.)*"|[^."]+)(?:\.(?=.)|$)')
_IN_QUOTES = "a text that begins with a bracket must be in double quotes"


def read_input(words: Sequence[Token], faults: list[Fault]) -> dict[str, object]:
    """A call's input from field, value, field, value … Faults are added to `wrong`."""
    values: dict[str, object] = {}
    for name, word in zip(words[::2], words[1::2], strict=True):
        path = _path(name, faults)
        value = read_value(word, faults)
        if path:
            _insert(values, path, value, name, faults)
    return values


def _insert(
    values: dict[str, object], path: Sequence[str], value: object, name: Token, faults: list[Fault]
) -> None:
    *outer, last = path
    target = values
    for part in outer:
        inside = target.setdefault(part, {})
        if not isinstance(inside, dict):
            message = f"the field {quote(name)} lies in {quote(part)}, which has a value already"
            faults.append(Fault.at(name, message, "give one of them, or one object in JSON"))
            return
        target = cast("dict[str, object]", inside)
    if last in target:
        faults.append(Fault.at(name, f"the field {quote(name)} is given twice", "remove one of them"))
    else:
        target[last] = value


def _path(name: Token, faults: list[Fault]) -> list[str]:
    """Names of a field, from the outermost on; empty for an invalid field."""
    if name.type == "STRING":
        return [read_text(name, faults)]
    path: list[str] = []
    at = 0
    while at < len(name):
        found = _NAME.match(name, at)
        if found is None:
            message = f"a field's names are separated by single dots, got {quote(name)}"
            remedy = f"write {json.dumps(str(name), ensure_ascii=False)} if that is one name"
            faults.append(Fault.at(name, message, remedy))
            return []
        part = found[1]
        if part.startswith('"'):
            part = read_text(Token("STRING", part, start_pos=start(name) + at), faults)
        path.append(part)
        at = found.end()
    return path


def read_value(word: Token, faults: list[Fault]) -> object:
    """A number, `true`, `false`, `null`, a list or an object as in JSON; any other word is a text."""
    if word.type == "STRING":
        return read_text(word, faults)
    if word in _LITERALS:
        return _LITERALS[word]
    if word.startswith(("[", "{")):
        return _json(word, faults)
    try:
        number = cast("object", json.loads(word, parse_constant=str))
    except (ValueError, RecursionError):
        return str(word)
    return number if isinstance(number, int | float) else str(word)


def read_output(word: Token, faults: list[Fault]) -> str:
    """The text that a tool returns: a list or an object as JSON, any other word unchanged."""
    if word.type == "STRING":
        return read_text(word, faults)
    if word.startswith(("[", "{")):
        _json(word, faults)
    return str(word)


def _json(word: Token, faults: list[Fault]) -> object:
    try:
        return cast("object", json.loads(word, parse_constant=_no_constant))
    except json.JSONDecodeError as error:
        at = min(error.pos, len(word) - 1)
        faults.append(Fault(start(word) + at, 1, f"not JSON: {error.msg}", _IN_QUOTES))
    except ValueError as error:
        faults.append(Fault.at(word, f"not JSON: {error}", _IN_QUOTES))
    return None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number in JSON")


def read_text(word: Token, faults: list[Fault]) -> str:
    """Text of a word, or of a text in quotes."""
    if word.type != "STRING":
        return str(word)
    try:
        return cast("str", json.loads(word, strict=False))
    except json.JSONDecodeError as error:
        remedy = r"a text in quotes has JSON's escapes; a backslash itself is written \\"
        faults.append(Fault(start(word) + error.pos, 1, f"not a JSON string: {error.msg}", remedy))
        return ""
