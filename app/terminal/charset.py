"""Characters that the terminal can show: all of them, or ASCII only.

Screens use symbols (`●`, `─`, `…`). For an ASCII terminal, each symbol is replaced by a stand-in of the
same width when the line is painted. Text from agents, models, tools and rules files is never changed.
`visible` replaces those of its characters that equal our symbols by marks, which are private-use
characters, and the painter turns the marks back. Private-use characters in such text are escaped before
that.

This module does not import Textual, because commands that print use it too.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Mapping

from ...engine.core.confusables import mark_words
from ...engine.core.sanitize import escaped, few_marks
from ...engine.core.sanitize import visible as _visible

# Characters whose width depends on the terminal: flags and skin tones.
#
# They take two cells, one or none, and would shift what is to their right. Combining marks, which have no
# cell of their own, are limited by `engine.core.sanitize`.


_UNSTEADY = re.compile("[\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")


def with_certain_width(text: str, escape: Callable[[str], str] = escaped) -> str:
    """Return `text` with escapes for characters of uncertain width and for excessive combining marks.

    Call this before `visible`.
    """
    if text.isascii():
        return text
    return few_marks(_UNSTEADY.sub(lambda found: escape(found[0]), text), escape)


_BY_STAND_IN = {
    "*": "●",
    "o": "○",
    "!": "◐",
    "X": "■",
    "v": "✓↓▼",
    "x": "✗×",
    "+": "▸",
    ">": "▶›⇒→▌",
    "^": "Δ↑▲",
    "-": "·•–—−",
    "u": "µ",
    "~": "…",
    '"': "“”",
    "'": "‘’",
    "<": "←",
    "=": "━═",
    "_": "▍",
}
"""Our symbols by their ASCII characters."""
_LEVELS = dict(zip("▁▂▃▄▅▆▇█", ":;=+*%#@", strict=True))
"""Levels of a sparkline, lowest first."""


def _box(character: str) -> str:
    """Return the ASCII stand-in for a box-drawing or block character: its direction, or a corner."""
    name = unicodedata.name(character, "")
    words = name.split()
    if "HORIZONTAL" in words and "VERTICAL" not in words:
        return "-"
    if "VERTICAL" in words and "HORIZONTAL" not in words and not {"LEFT", "RIGHT"} & set(words):
        return "|"
    if name.startswith("BOX DRAWINGS"):
        return "+"
    if name.startswith(("LEFT ", "RIGHT ")):
        return "|"
    return "-" if name.startswith(("UPPER ", "LOWER ")) else "#"


STAND_INS: Mapping[str, str] = {
    **{chr(code): _box(chr(code)) for code in range(0x2500, 0x25A0)},
    **_LEVELS,
    **{symbol: plain for plain, symbols in _BY_STAND_IN.items() for symbol in symbols},
}
"""ASCII characters for our symbols; both have a width of one cell."""

_FIRST_MARK = 0xF0000 + secrets.randbelow(0xF000)
"""First code point of the marks, in a private-use plane; random, so that no author of a text knows it."""
_MARKED = {ord(symbol): chr(_FIRST_MARK + index) for index, symbol in enumerate(STAND_INS)}
_TO_UNICODE = str.maketrans({mark: chr(code) for code, mark in _MARKED.items()})
_TO_ASCII = str.maketrans({**STAND_INS, **{mark: chr(code) for code, mark in _MARKED.items()}})


class _Terminal:
    """State of this process's terminal."""

    ascii_only = False


def use_ascii(on: bool) -> None:
    """Switch between ASCII stand-ins and the symbols themselves."""
    _Terminal.ascii_only = on


def ascii_only() -> bool:
    """Return whether the terminal gets ASCII stand-ins."""
    return _Terminal.ascii_only


def visible(text: str, *, keep_newlines: bool = False) -> str:
    """Make untrusted text safe with `engine.core.sanitize.visible`, and mark its symbols as not ours.

    May be applied twice, like that function.
    """
    if text.isascii():
        return _visible(text, keep_newlines=keep_newlines)
    if not _Terminal.ascii_only:
        return _visible(with_certain_width(text), keep_newlines=keep_newlines)
    theirs = with_certain_width(text.translate(_TO_UNICODE))
    return _visible(theirs, keep_newlines=keep_newlines).translate(_MARKED)


def visible_words(text: str, *, keep_newlines: bool = False) -> str:
    """Make a name or a command safe with `engine.core.sanitize.visible_words`, as `visible` does."""
    return visible(text if text.isascii() else mark_words(text, escaped), keep_newlines=keep_newlines)


def as_drawn(text: str) -> str:
    """Make a line safe that the engine built from recorded names; the arrows in it are ours."""
    safe = visible(text)
    return safe.replace(_MARKED[ord("→")], STAND_INS["→"]) if _Terminal.ascii_only else safe


def to_charset(text: str) -> str:
    """Convert our own text so that it can pass `visible` together with other people's text."""
    return text.translate(_TO_ASCII) if _Terminal.ascii_only else text


def pointer() -> str:
    """Return the symbol between a name and its action or message."""
    return ">" if _Terminal.ascii_only else "▸"


def as_ascii(text: str) -> str:
    """Return a piece of a painted line for an ASCII terminal. Characters that are not ours are kept."""
    return text if text.isascii() else text.translate(_TO_ASCII)


def remove_marks(text: str) -> str:
    """Return painted text as its author wrote it, for the clipboard."""
    return text.translate(_TO_UNICODE)


def needs_ascii(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal described by `environ` may not show more than ASCII.

    Python itself sets `LC_CTYPE` to UTF-8 in the C locale, which says nothing about the terminal.
    """
    if environ.get("TERM") in ("linux", "dumb"):
        return True
    chosen = environ.get("LC_CTYPE", "")
    if chosen in ("C.UTF-8", "C.utf8"):
        chosen = ""
    locale = environ.get("LC_ALL") or chosen or environ.get("LANG") or "C"
    encoding = locale.partition("@")[0].rpartition(".")[2]
    return encoding.upper().replace("-", "") != "UTF8"
