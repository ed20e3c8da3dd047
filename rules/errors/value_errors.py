"""Messages about faults in `let NAME = VALUE`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lark import Token

from ..parse.lines import code, write
from .condition_errors import in_list, no_source, no_value, still_open
from .fault import Fault, start
from .problems import cut, quote

_END = "$END"
_SHAPE = "write: let <name> = <value>"
_EXAMPLE = 'write for example: let team = ["a", "b"]'
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_KEYWORDS = frozenset(
    ("input", "true", "false", "null", "in", "contains", "matches", "under", "is", "present", "missing")
) | {"and", "or", "not", "every", "any", "because", "when", "let", "lines", "session", "hint", "from"}


def unexpected_value(line: str, begin: int, words: Sequence[Token], word: Token) -> Fault:
    """Fault of `word`, which cannot follow `words` in a value; it is empty at the end of the line.

    `begin` is where the value starts.
    """
    if word.type == "FIELD" and not words:
        return Fault.at(word, f"a name stands for a value, not for the field {quote(word)}", _EXAMPLE)
    if words and words[0].type == "FROM" and words[-1].type in {"FROM", "COMMA"}:
        return no_source(line, words[-1], word)
    if not words or words[-1].type in {"LSQB", "COMMA"}:
        return no_value(line, words[-1] if words else Token("OPERATOR", "="), word)
    if words[-1].type == "LINES":
        return _no_file(line, word)
    bracket = still_open(words, "LSQB", "RSQB")
    if bracket is not None:
        return in_list(line, bracket, words[-1], word)
    message = f"expected the end of the line after {quote(words[-1])}, got {quote(word)}"
    if word.type == "COMMA":
        whole = code(line)[begin:].strip()
        return Fault.at(word, message, write(line, begin, len(code(line)) - begin, f"[{whole}]"))
    return Fault.at(word, message, "remove it, or make it a comment with '#'")


def _no_file(line: str, word: Token) -> Fault:
    if word.type == _END:
        end = len(code(line))
        message = "expected a file's name in double quotes after 'lines', got the end of the line"
        return Fault(end, 1, message, write(line, end, 0, ' "<file>"'))
    message = f"a file's name must be in double quotes, got {quote(word)}"
    if word.type == "REGEX" or word == "(":
        return Fault.at(word, message, 'write for example: lines "payees.txt"')
    return Fault.at(word, message, write(line, start(word), len(word), f'"{word.strip(chr(34))}"'))


def no_name(name: Token) -> Fault | None:
    """Fault of a name that a value cannot have; `None` for a valid one."""
    if str(name) in _KEYWORDS:
        return Fault.at(
            name, f"{quote(name)} is a word of conditions and cannot be a name", "choose another name"
        )
    if _PLAIN.fullmatch(name) is None:
        message = f"a name has letters, digits, '_' and '-', got {quote(name)}"
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")
        remedy = (
            f"write: let {cut(plain)} = <value>" if _PLAIN.fullmatch(plain) else "choose another name"
        )
        return Fault.at(name, message, remedy)
    return None


def named_twice(name: Token, line: int) -> Fault:
    message = f"{quote(name)} has a value already, by line {line}"
    return Fault.at(name, message, "choose another name")


def misused_let(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a `let` without a separate `=`, or with another sign."""
    if not words or words[0] != "let" or (len(words) > 2 and words[2] == "="):
        return None
    if len(words) < 2:
        return Fault(len(code(line)), 1, "expected a name after 'let', got the end of the line", _SHAPE)
    name, sign, value = words[1].partition("=")
    if sign:
        apart = f"{name} = {value}".rstrip()
        message = f"'=' needs blanks around it, got {quote(words[1])}"
        return Fault.at(words[1], message, write(line, start(words[1]), len(words[1]), apart))
    if len(words) == 2:
        message = f"expected '=' after {quote(words[1])}, got the end of the line"
        return Fault(len(code(line)), 1, message, write(line, len(code(line)), 0, " = <value>"))
    instead = words[2]
    message = f"expected '=' after {quote(words[1])}, got {quote(instead)}"
    if str(instead) in {"is", ":=", ":", "==", "be", "to", "as"}:
        return Fault.at(instead, message, write(line, start(instead), len(instead), "="))
    if instead.startswith("="):
        return Fault.at(instead, message, write(line, start(instead), 1, "= "))
    return Fault.at(instead, message, write(line, start(instead), 0, "= "))


def no_lines(word: Token, count: int, most: int) -> Fault:
    """Fault of a file with no lines, or too many for a list."""
    if count:
        message = f"{quote(word)} has {count:,} values, at most {most:,} can be a list"
        return Fault.at(word, message, "let a tool look the value up, and require it before the call")
    return Fault.at(word, f"{quote(word)} has no line with a value", "add one, or check the name")
