"""Untrusted text made safe to look at: what a terminal would obey or hide is shown as an escape.

Agents, models, tools, rules files and wires write text that a person reads before deciding. A control
character could move the cursor, a bidi mark could swap what stands left and right, an invisible letter
could hide what a command does.
"""

from __future__ import annotations

import unicodedata

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})

# Letters and marks by their category, yet nothing to see: fillers, joiners, variation selectors, blanks.
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
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class _Visible(dict[int, str]):
    """A table for `str.translate` that learns characters as they come."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = _escape(character) if _is_hidden(character) else character
        self[code] = shown
        return shown


_one_line = _Visible()
_with_newlines = _Visible({ord("\n"): "\n", ord("\t"): "\t"})


def visible(text: str, *, keep_newlines: bool = False) -> str:
    r"""`text` with control, format, bidi, private-use, unassigned and invisible characters as escapes.

    An escape looks as in Python source: `\x1b`, `\u202e`. `keep_newlines` leaves newlines and tabs, the
    layout of a text of several lines, as they are; a carriage return is always shown.
    """
    return text.translate(_with_newlines if keep_newlines else _one_line)
