"""What a line of a rules file looks like: a caret finds its place by cells, not by characters."""

from __future__ import annotations

import unicodedata

from ..engine.text import visible

TAB = "    "


def shown(text: str) -> str:
    """A piece of one line, safe for a terminal; tabs become four blanks wherever they stand."""
    return visible(text.replace("\t", TAB))


def cells(text: str) -> int:
    """How many screen cells `shown(text)` takes: wide characters two, combining ones none."""
    seen = shown(text)
    return len(seen) if seen.isascii() else sum(map(_width, seen))


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
