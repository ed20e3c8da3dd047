"""Parts of a rule's line: the text before its comment, and the text before its condition."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors.problems import cut

_BLANK = r"[\t\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
# `when` is a keyword if the text after it can begin a condition; elsewhere it is a tool's name.
_WHEN = re.compile(
    rf"(?<={_BLANK})when(?={_BLANK}+(?:(?:input|session|hint)\b|\(|not\b|(?:every|any)(?={_BLANK})))"
)
_BECAUSE = re.compile(rf'(?<={_BLANK})because(?={_BLANK}+")')
"""`because` is a keyword if a text in quotes follows."""
# Words of a condition, as in condition.lark: only a text may contain `#`, only a pattern may contain a
# quote that begins no text, and a slash begins a pattern only at the beginning of a word.
_SIGNS = r"#()\[\]\"=<>!,\t\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_TEXT = r'"(?:[^"\\]|\\.)*"'
_PATTERN = rf"/(?:\\[^#]|[^\\#])*?/i?(?=[#)\],]|{_BLANK}|$)"
_WORDS = re.compile(rf"{_TEXT}|{_PATTERN}|[^/{_SIGNS}][^{_SIGNS}]*|#")

WRITTEN = 160
"""Longest line that is repeated with a correction."""


def head(text: str) -> str:
    """A rule without its condition, its reason and its comment."""
    when, because, end = _edges(text)
    return text[: min(edge for edge in (when, because, end) if edge is not None)].rstrip()


def code(text: str) -> str:
    """A rule without its comment. In the texts of a condition and of a reason `#` starts no comment."""
    return text[: _edges(text)[2]].rstrip()


@dataclass(frozen=True, slots=True)
class LineParts:
    """Parts of a rule's line: the text before `when`, its condition without that word, and the rest.

    `ends` are its reason, from `because` on, and its comment; missing parts are empty texts.
    """

    head: str
    condition: str
    ends: tuple[str, str]


def parts(text: str) -> LineParts:
    """Parts of a rule's line, without the blanks between them."""
    when, because, end = _edges(text)
    reason = end if because is None else because
    condition = "" if when is None else text[when + len("when") : reason].strip()
    return LineParts(head(text), condition, (text[reason:end].strip(), text[end:].strip()))


def _edges(text: str) -> tuple[int | None, int | None, int]:
    """Positions of a rule's `when` and `because`, and of its end, after which a comment may follow."""
    plain = text.partition("#")[0]
    when, because = _WHEN.search(plain), _BECAUSE.search(plain)
    if when is None and because is None:
        return None, None, len(plain)
    if when is None or (because is not None and because.start() < when.start()):
        assert because is not None
        return None, because.start(), _end_of_words(text, because.end())
    for found in _WORDS.finditer(text, when.end()):
        if found[0] == "#":
            return when.start(), None, found.start()
        if found[0] == "because" and _BECAUSE.match(text, found.start()):
            return when.start(), found.start(), _end_of_words(text, found.end())
    return when.start(), None, len(text)


def _end_of_words(text: str, start: int) -> int:
    """Position of the comment after `start`, or the end of the text."""
    return next((found.start() for found in _WORDS.finditer(text, start) if found[0] == "#"), len(text))


def write(line: str, start: int, length: int, instead: str) -> str:
    """Remedy that shows `line` with `length` characters from `start` replaced."""
    mended = code(line[:start] + instead + line[start + length :]).strip()
    return f"write: {mended if len(mended) <= WRITTEN else cut(instead.strip())}"
