"""Where in a text a value is given to a name: as shells, URLs, headers, YAML and JSON write it.

A text may have any of these in it, cut off anywhere, and JSON in the strings of JSON. Where it can be
read in several ways, the longer value counts. Time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

Telling: TypeAlias = Callable[[str], bool]
"""Whether the value of a field of this name is looked for."""

Span: TypeAlias = tuple[int, int]

SENTENCES = frozenset(
    {"authorization", "cookie", "passcode", "passphrase", "passwd", "password", "passwords", "pwd"}
)
"""The last words of names whose value may have several words, as in `Cookie: a=b; c=d`."""

_SIGN = re.compile(r"(?<=[A-Za-z0-9_.-])(\\{0,15}[\"'])?[ \t]{0,8}(=>|:=|==?|:)")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_NAME_WINDOW = 64
_OPTION = re.compile(r"(?<![^\s\"'(,])--?([A-Za-z][A-Za-z0-9_.-]{0,60})[ \t]{1,8}(?![\s-])")
_BLANKS = re.compile(r"[ \t]{0,8}")
_SPACE = re.compile(r"\s{0,64}")
_CONSTANT = re.compile(r"(?:null|true|false|None|True|False)(?![^\s\"',;&|)}\]\\])")
_QUOTE = re.compile(r"(\\{0,15})([\"'])")
_BRACKET = re.compile(r"(\\{0,15})([\"'])|[\[\]{}]")
_SCALAR = re.compile(r"[^\s\"',}\]\\]+")
_REST = re.compile(r"(?:[^\r\n\"'\\]|\\(?![nr\"']))+")
_BLOCK = re.compile(r"[|>][+-]?[ \t]*\n(?:[ \t]+[^\n]*(?:\n|\Z))+")
_BARE = re.compile(r"(?:\\.|[^\s\"'&;|\\])+", re.DOTALL)
_LAST_WORD = re.compile(r"[A-Za-z]+(?=[^A-Za-z]*\Z)")


def given(text: str, telling: Telling) -> Iterator[Span]:
    """The spans of what `NAME=value`, `name: value`, `"name": "value"` and their like give, unquoted."""
    done = 0
    for sign in _SIGN.finditer(text):
        if sign.start() < done:
            continue
        name = _NAME.search(text, max(done, sign.start() - _NAME_WINDOW), sign.start())
        if name is None or not telling(name[0]):
            continue
        start, end = _named(text, sign, name[0]) if sign[1] is None else _quoted_name(text, sign)
        if start < end:
            yield start, end
            done = end


def options(text: str, telling: Telling) -> Iterator[Span]:
    """The spans of what `--name value` gives."""
    done = 0
    for option in _OPTION.finditer(text):
        if option.start() >= done and telling(option[1]):
            start, end = _word(text, option.end())
            if start < end:
                yield start, end
                done = end


def _quoted_name(text: str, sign: re.Match[str]) -> Span:
    """What stands behind `"name":`, a value of JSON or one like it."""
    start = _behind(_SPACE, text, sign.end())
    if _CONSTANT.match(text, start):
        return start, start
    if text.startswith(("[", "{"), start):
        return start, _bracketed(text, start)
    quote = _QUOTE.match(text, start)
    return _span(_SCALAR, text, start) if quote is None else _quoted(text, quote)[0]


def _named(text: str, sign: re.Match[str], name: str) -> Span:
    """What stands behind `name=` or `name:`, on the same line unless it is marked as a block."""
    start = _behind(_BLANKS, text, sign.end())
    if _CONSTANT.match(text, start):
        return start, start
    if text.startswith(("[", "{"), start):
        return start, _bracketed(text, start)
    quote = _QUOTE.match(text, start)
    if quote is not None:
        return _quoted(text, quote)[0] if quote[1] else _word(text, start)
    if sign[2] == ":":
        block = _BLOCK.match(text, start)
        if block is not None:
            return block.span()
        last = _LAST_WORD.search(name)
        if last is not None and last[0].lower().endswith(tuple(SENTENCES)):
            return _span(_REST, text, start)
    return _word(text, start)


def _word(text: str, start: int) -> Span:
    """A word as a shell reads it, without quotes around the whole.

    One that begins with a quote may be put together of parts, as in `'it'"'"'s'`. One that does not ends
    at a quote, which is more often that of a string around it all.
    """
    at, span = start, (start, start)
    while (quote := _QUOTE.match(text, at)) is not None and not quote[1]:
        inner, at = _quoted(text, quote)
        span = inner if span == (start, start) else (start, at)
    bare = _BARE.match(text, at)
    return span if bare is None else (start, bare.end())


def _quoted(text: str, opening: re.Match[str]) -> tuple[Span, int]:
    """What is between quotes, and where the text goes on; to the end where they are not closed."""
    level = len(opening[1])
    for closing in _QUOTE.finditer(text, opening.end()):
        if closing[2] == opening[2] and _closes(level, len(closing[1])):
            return (opening.end(), closing.end() - 1 - level), closing.end()
    return (opening.end(), len(text)), len(text)


def _closes(level: int, backslashes: int) -> bool:
    """Whether a quote ends a string that began with `level` backslashes: JSON in JSON doubles them."""
    return backslashes % (2 * (level + 1)) == level


def _bracketed(text: str, start: int) -> int:
    """Where the list or object ends that begins at `start`."""
    depth = 0
    string: tuple[str, int] | None = None
    for found in _BRACKET.finditer(text, start):
        quote: str | None = found[2]
        if quote is not None:
            level = len(found[1])
            if string is None:
                string = (quote, level)
            elif string[0] == quote and _closes(string[1], level):
                string = None
        elif string is None:
            depth += 1 if found[0] in "[{" else -1
            if depth == 0:
                return found.end()
    return len(text)


def _behind(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()


def _span(pattern: re.Pattern[str], text: str, start: int) -> Span:
    return start, _behind(pattern, text, start)
