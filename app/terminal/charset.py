"""Characters that the terminal can show: all of them, or ASCII only.

Screens are written with symbols (`●`, `─`, `…`). Where the terminal has none of these, a stand-in of the
same width takes the place of each as the line is painted. What agents, models, tools and rules files
wrote is never changed: `visible` puts a mark, a private-use character, for those of their characters
that look like ours, and the painter turns it back. Such a character of theirs is escaped before.

No Textual here: commands that print use it too.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Mapping

from ...engine.core.confusables import mark_words
from ...engine.core.sanitize import escaped, few_marks
from ...engine.core.sanitize import visible as _visible

# Characters that terminals draw unlike: flags and skin tones.
#
# They take two cells, one or none, as the terminal likes, and would move what stands right of them.
# Marks, which have no cell of their own, are limited for everybody by `engine.text`.


_UNSTEADY = re.compile("[\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")


def with_certain_width(text: str, escape: Callable[[str], str] = escaped) -> str:
    """`text` with escapes for what takes no certain number of cells, and for marks that are too many.

    To be called before `visible`.
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
"""Our symbols by the ASCII character for them."""
_LEVELS = dict(zip("▁▂▃▄▅▆▇█", ":;=+*%#@", strict=True))
"""A sparkline's levels, from the lowest on."""


def _box(character: str) -> str:
    """ASCII stand-in for a box-drawing or block character: its direction, or a corner."""
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
"""The ASCII character of one cell for each of ours, of one cell too."""

_FIRST_MARK = 0xF0000 + secrets.randbelow(0xF000)
"""Where the marks begin, in a plane for private use: nobody who writes a text knows."""
_MARKED = {ord(symbol): chr(_FIRST_MARK + index) for index, symbol in enumerate(STAND_INS)}
_TO_UNICODE = str.maketrans({mark: chr(code) for code, mark in _MARKED.items()})
_TO_ASCII = str.maketrans({**STAND_INS, **{mark: chr(code) for code, mark in _MARKED.items()}})


class _Terminal:
    """The one terminal of this process."""

    ascii_only = False


def use_ascii(on: bool) -> None:
    """Switch between ASCII stand-ins for our symbols and the symbols themselves."""
    _Terminal.ascii_only = on


def ascii_only() -> bool:
    """Tell whether the terminal gets ASCII stand-ins."""
    return _Terminal.ascii_only


def visible(text: str, *, keep_newlines: bool = False) -> str:
    """Untrusted text made safe by `engine.core.sanitize.visible`, marked as not ours where that matters.

    Like that one it may be applied twice.
    """
    if text.isascii():
        return _visible(text, keep_newlines=keep_newlines)
    if not _Terminal.ascii_only:
        return _visible(with_certain_width(text), keep_newlines=keep_newlines)
    theirs = with_certain_width(text.translate(_TO_UNICODE))
    return _visible(theirs, keep_newlines=keep_newlines).translate(_MARKED)


def visible_words(text: str, *, keep_newlines: bool = False) -> str:
    """The same for a name or a command, by `engine.core.sanitize.visible_words`."""
    return visible(text if text.isascii() else mark_words(text, escaped), keep_newlines=keep_newlines)


def as_drawn(text: str) -> str:
    """A line that the engine made of recorded names, safe to paint; its arrows are ours."""
    safe = visible(text)
    return safe.replace(_MARKED[ord("→")], STAND_INS["→"]) if _Terminal.ascii_only else safe


def to_charset(text: str) -> str:
    """A text of ours that will pass `visible` together with what others wrote."""
    return text.translate(_TO_ASCII) if _Terminal.ascii_only else text


def pointer() -> str:
    """Symbol between a name and its action or message."""
    return ">" if _Terminal.ascii_only else "▸"


def as_ascii(text: str) -> str:
    """A piece of a painted line as an ASCII terminal gets it: others' characters stay as they were."""
    return text if text.isascii() else text.translate(_TO_ASCII)


def remove_marks(text: str) -> str:
    """Painted text for the clipboard, as its author wrote it."""
    return text.translate(_TO_UNICODE)


def needs_ascii(environ: Mapping[str, str]) -> bool:
    """Tell whether the terminal that `environ` describes is not known to show more than ASCII.

    Python itself sets `LC_CTYPE` to UTF-8 where the locale is C; that says nothing of the terminal.
    """
    if environ.get("TERM") in ("linux", "dumb"):
        return True
    chosen = environ.get("LC_CTYPE", "")
    if chosen in ("C.UTF-8", "C.utf8"):
        chosen = ""
    locale = environ.get("LC_ALL") or chosen or environ.get("LANG") or "C"
    encoding = locale.partition("@")[0].rpartition(".")[2]
    return encoding.upper().replace("-", "") != "UTF8"
