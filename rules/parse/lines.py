"""The parts of a rule's line: the text before its comment, and the text before its condition."""

from __future__ import annotations

import re

from ..errors.problems import cut

_BLANK = r"[\t\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
# `when` is a keyword where what follows can begin a condition; elsewhere it is a tool's name.
_WHEN = re.compile(rf"(?<={_BLANK})when(?={_BLANK}+(?:input\b|\(|not\b))")
# The words of a condition, as condition.lark has them: only a text may hold a `#`, only a pattern a quote
# that begins no text, and a slash begins a pattern only where a word begins.
_SIGNS = r"#()\[\]\"=<>!,\t\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_TEXT = r'"(?:[^"\\]|\\.)*"'
_PATTERN = rf"/(?:\\[^#]|[^\\#])*?/i?(?=[#)\],]|{_BLANK}|$)"
_WORDS = re.compile(rf"{_TEXT}|{_PATTERN}|[^/{_SIGNS}][^{_SIGNS}]*|#")

WRITTEN = 160
"""A longer line is not written again to show what is right."""


def head(text: str) -> str:
    """A rule without its condition and its comment."""
    plain = text.partition("#")[0]
    when = _WHEN.search(plain)
    return (plain[: when.start()] if when else plain).rstrip()


def code(text: str) -> str:
    """A rule without its comment. In the texts of a condition `#` starts none."""
    plain = text.partition("#")[0]
    when = _WHEN.search(plain)
    for found in _WORDS.finditer(text, when.end()) if when else ():
        if found[0] == "#":
            return text[: found.start()].rstrip()
    return (text if when else plain).rstrip()


def write(line: str, start: int, length: int, instead: str) -> str:
    """The remedy that shows `line` with `length` characters from `start` replaced."""
    mended = code(line[:start] + instead + line[start + length :]).strip()
    return f"write: {mended if len(mended) <= WRITTEN else cut(instead.strip())}"
