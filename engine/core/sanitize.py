"""Untrusted text made safe to show: characters that a terminal would obey or hide become escapes.

Agents, models, tools, rules files and wires write text that operators read before deciding. A control
character could move the cursor, a bidi mark could swap left and right, and an invisible letter could hide
what a command does. Hundreds of combining marks on one letter paint over the lines above and below, or
hide a text in one cell. A mark at the start of a text is drawn on our text before it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from .confusables import mark_mixed, mark_words

MOST_MARKS = 4
"""Most zero-width characters that stay on one letter; languages need no more."""
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})

# Letters and marks by category that are invisible: fillers, joiners, variation selectors, blanks.
_HIDDEN_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0100, 0xE01EF),
)
# Vowels and final consonants of old Hangul are letters that are drawn into the preceding consonant's
# cell.
_HANGUL_PARTS = ((0x1161, 0x11FF), (0xD7B0, 0xD7FB))
_FIRST_MARK = 0x300
_CIRCLE = "◌"
"""Base on which a mark is shown by itself."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _is_hidden(character: str) -> bool:
    code = ord(character)
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or any(
        first <= code <= last for first, last in _HIDDEN_RANGES
    )


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code <= 0xFF else escaped(character)


def escaped(text: str) -> str:
    r"""Every character as a long escape: `\u0301`, `\U000e0041`."""
    return "".join(f"\\u{ord(c):04x}" if ord(c) <= 0xFFFF else f"\\U{ord(c):08x}" for c in text)


def json_escaped(text: str) -> str:
    r"""Every character as a JSON escape: `\u0080`, and two of them beyond `\uffff`."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class _Visible(dict[int, str]):
    """Table for `str.translate`, filled on demand, that replaces hidden characters by escapes."""

    def __init__(self, escape: Callable[[str], str], unchanged: str = "") -> None:
        super().__init__({ord(character): character for character in unchanged})
        self._escape = escape

    def __missing__(self, code: int) -> str:
        character = chr(code)
        replacement = self._escape(character) if _is_hidden(character) else character
        self[code] = replacement
        return replacement


_one_line = _Visible(_escape)
_with_newlines = _Visible(_escape, "\n\t")
_as_json = _Visible(json_escaped, "\n")


@lru_cache(maxsize=4096)
def folded_name(name: str) -> str:
    """A name without differences that are invisible or that few systems distinguish (G-66).

    NFKC, without case, without invisible and control characters, without blanks around it. Equal for
    `Deploy`, `deploy` in full-width letters and `deploy` with a zero-width space in it.
    """
    if name.isascii() and name.isprintable():
        return name.strip().casefold()
    folded_text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    visible_text = "".join(c for c in folded_text if c.isspace() or not _is_hidden(c))
    return unicodedata.normalize("NFKC", visible_text).strip().casefold()


def visible(text: str, *, keep_newlines: bool = False) -> str:
    r"""`text` with control, format, bidi, private-use, unassigned and invisible characters as escapes.

    An escape looks as in Python source: `\x1b`, `\u202e`. Also escaped are marks that are too many on one
    letter or have no base (see `few_marks`), and look-alikes of Latin letters in a word with Latin
    letters (see `mark_mixed`). `keep_newlines` leaves newlines and tabs, the layout of multi-line text,
    unchanged; a carriage return is always shown.
    """
    safe = few_marks(mark_mixed(text, escaped))
    return safe.translate(_with_newlines if keep_newlines else _one_line)


def visible_words(text: str, *, keep_newlines: bool = False) -> str:
    r"""`visible` for a name or a command, in which whole words must not look like ASCII either.

    A tool that is called `сору` in Cyrillic letters is shown as `\u0441\u043e\u0440\u0443`.
    """
    return visible(mark_words(text, escaped), keep_newlines=keep_newlines)


def visible_json(text: str) -> str:
    r"""`visible` for JSON, with JSON escapes: the result is JSON with the same value.

    Newlines between its parts are kept; in strings they are escaped anyway.
    """
    return few_marks(mark_mixed(text, json_escaped), json_escaped).translate(_as_json)


def few_marks(text: str, escape: Callable[[str], str] = escaped) -> str:
    """`text` with escapes for marks that are too many on one letter or have no base."""
    if text.isascii():
        return text
    marks = "".join(c for c in set(text) if ord(c) >= _FIRST_MARK and _is_mark(c))
    if not marks:
        return text

    def shortened_run(run: re.Match[str]) -> str:
        limit = MOST_MARKS if _carries(text[run.start() - 1 : run.start()]) else 0
        return run[0][:limit] + escape(run[0][limit:])

    return re.sub(f"[{re.escape(marks)}]+", shortened_run, text)


def cells(text: str) -> int:
    """Cells that a visible text takes on a screen: wide characters two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    """True if it is drawn into the cell of the preceding character. Hidden characters are not."""
    joins = unicodedata.category(character)[0] == "M" or any(
        first <= ord(character) <= last for first, last in _HANGUL_PARTS
    )
    return joins and not _is_hidden(character)


def _carries(character: str) -> bool:
    """True if marks may be attached to it: letters, digits and the circle that shows single marks."""
    if not character or _is_hidden(character):
        return False
    return unicodedata.category(character)[0] in "LMN" or character == _CIRCLE
