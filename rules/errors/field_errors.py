"""Messages about faults in a field that a condition names: `input.env`, `input."a b"`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from lark import Token

from ...engine.core.condition import SESSION_FIELDS, is_session_list
from ...engine.core.hints import HINTS
from ..parse.lines import code, write
from .fault import Fault, closest, one_of, start
from .problems import cut, quote

_TEXT = r'"(?:[^"\\]|\\.)*"'
_BARE = r'[^\s.#()\[\]"=<>!,\ufeff]+'
_NAMES = re.compile(rf"input(?:\.(?:{_TEXT}|{_BARE}))*", re.IGNORECASE)
_AFTER = re.compile(rf"\.?(?:{_TEXT}|{_BARE})?\.?")
_INDEX = re.compile(rf"\[\s*({_TEXT}|'[^'#]*'|[^\s\[\]\"'#]*)\s*\]")
_SINGLE = re.compile(r"'([^'#]*)'")


def misnamed(line: str, word: Token) -> Fault | None:
    """Fault in the names behind `input` at `word`, in quotes or brackets, if any."""
    begin = start(word)
    names = _NAMES.match(line, begin)
    if names is None or len(names[0]) < len(word.rstrip(".")):
        return None
    end = names.end()
    rest = code(line)[end:]
    if rest.startswith('."') and re.match(rf"\.{_TEXT}", rest) is None:
        return _unclosed(line, end + 1, rest[1:])
    index = _INDEX.match(rest)
    if index is not None:
        return _indexed(line, end, index)
    if names[0].endswith('"') and rest[:1] not in ("", " ", "\t"):
        more = _AFTER.match(rest)
        got = line[begin:end] + (more[0] if more else "")
        message = f"a field's names are separated by single dots, got {quote(got)}"
        if rest.startswith("."):
            return Fault(begin, len(got), message, write(line, end, 1, ""))
        return Fault(begin, len(got), message, write(line, end, 0, "."))
    return None


def no_session_field(line: str, field: Token, names: Sequence[str]) -> Fault | None:
    """Fault of a field that sessions do not have; `None` for one that they have."""
    if len(names) == 1 and names[0] in SESSION_FIELDS:
        return None
    known = [f"session.{name}" for name in SESSION_FIELDS]
    message = f"a session has {one_of(known)}, got {quote(field)}"
    near = closest(str(field), known, 0.6)
    remedy = (
        write(line, start(field), len(field), near)
        if near
        else f'write for example: when {known[0]} = "bot"'
    )
    return Fault.at(field, message, remedy)


def no_hint(line: str, field: Token, names: Sequence[str]) -> Fault | None:
    """Fault of a field that is not a hint of tools; `None` for one that is."""
    if len(names) == 1 and names[0] in HINTS:
        return None
    known = [f"hint.{name}" for name in HINTS]
    in_mcp = {f"hint.{name}".lower(): f"hint.{ours}" for ours, name in HINTS.items()}
    message = f"the hints of a tool are {one_of(known).replace(' or ', ' and ')}, got {quote(field)}"
    near = in_mcp.get(field.lower()) or closest(str(field), known, 0.7)
    remedy = (
        write(line, start(field), len(field), near) if near else "write for example: when not " + _HINT
    )
    return Fault.at(field, message, remedy)


_HINT = "hint.read_only = true"


def no_hint_value(line: str, field: Token, first: Token, last: Token) -> Fault:
    """Fault of a hint compared with anything but true or false."""
    length = start(last) + len(last) - start(first)
    message = f"{quote(field)} is true or false, got {quote(line[start(first) : start(first) + length])}"
    return Fault(start(first), length, message, write(line, start(first), length, "true"))


def wrong_quantity(
    line: str, field: Token, name: str, operator: str, quantifier: Token | None
) -> Fault | None:
    """Fault of a session's list compared as one value, or of one value compared as a list; else `None`.

    `name` is the field's name. A list as a whole can contain a text or come from a source. A hint is true
    or false, so only `=` and `!=` can compare it.
    """
    if field.startswith("hint.") and quantifier is None:
        if operator in ("=", "!="):
            return None
        message = f"{quote(field)} is true or false, which '{operator}' does not compare"
        return Fault.at(field, message, f"write for example: when {field} = true")
    if quantifier is not None and not is_session_list(name):
        message = f"{quote(field)} is one value, got {quote(quantifier)} before it"
        length = start(field) - start(quantifier)
        return Fault.at(quantifier, message, write(line, start(quantifier), length, ""))
    if quantifier is None and is_session_list(name) and operator not in ("contains", "from"):
        message = f"{quote(field)} is a list, which '{operator}' does not compare as a whole"
        return Fault.at(field, message, write(line, start(field), 0, "any "))
    return None


def in_single_quotes(line: str, field: Token) -> Fault | None:
    """Fault of a name in single quotes that contains a blank, and begins with `field`."""
    at = line.find(".'", start(field), start(field) + len(field))
    found = None if at < 0 else _SINGLE.match(line, at + 1)
    if found is None:
        return None
    message = f"a name must be in double quotes, got {quote(found[0])}"
    remedy = write(line, found.start(), len(found[0]), _quoted(found[1]))
    return Fault(found.start(), len(found[0]), message, remedy)


def _unclosed(line: str, at: int, name: str) -> Fault:
    message = f"the name {quote(name)} has no closing quote"
    if re.match(r'"[^"]*\\("|$)', name):
        return Fault(at, len(name), message, r'a \ at its end is written \\, and then comes a "')
    closed = re.match(r'"[^\s")#=<>!]*', name)
    whole = closed[0] if closed else name
    return Fault(at, len(name), message, write(line, at, len(whole), f'{whole}"'))


def _indexed(line: str, at: int, index: re.Match[str]) -> Fault:
    inside = index[1]
    if inside.isdecimal() or not inside:
        message = f"a condition cannot test a single item of a list, got {quote(index[0])}"
        return Fault(at, len(index[0]), message, "'contains' tests whether a list has an item")
    name = inside if inside.startswith('"') else _quoted(inside.strip("'"))
    message = f"a field's name follows a dot, got {quote(index[0])}"
    return Fault(at, len(index[0]), message, write(line, at, len(index[0]), f".{name}"))


def _quoted(name: str) -> str:
    return json.dumps(cut(name), ensure_ascii=False)
