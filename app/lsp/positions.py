"""Conversion between positions of editors and positions of rules in one text.

Editors end lines at every kind of line break and count code units of an agreed encoding. Rules end lines
at line feeds and count characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import TypeAlias

UTF_16 = "utf-16"
_BREAK = re.compile(r"\r\n|\r|\n")
_UNIT_BYTES: Mapping[str, tuple[str, int]] = {
    "utf-8": ("utf-8", 1),
    UTF_16: ("utf-16-le", 2),
    "utf-32": ("utf-32-le", 4),
}
Position: TypeAlias = tuple[int, int]
"""Line and code unit of an editor, from 0."""


class TextPositions:
    """Lines of a text as editors and as rules count them."""

    def __init__(self, text: str, encoding: str = UTF_16) -> None:
        self._text = text
        self._codec, self._bytes = _UNIT_BYTES.get(encoding, _UNIT_BYTES[UTF_16])
        breaks = [found.span() for found in _BREAK.finditer(text)]
        self._starts = [0, *(end for _, end in breaks)]
        self._ends = [*(start for start, _ in breaks), len(text)]
        self._rule_starts = [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]

    def position(self, line: int, column: int) -> Position:
        """Return the editor's position for a rule's line and column, which count from 1."""
        first = self._rule_starts[min(line, len(self._rule_starts)) - 1]
        return self._position_of(min(first + column - 1, len(self._text)))

    def place(self, line: int, character: int) -> tuple[int, int]:
        """Return line and column, from 1, for an editor's position.

        A position outside the text is clamped.
        """
        row = min(max(line, 0), len(self._starts) - 1)
        offset = self._starts[row] + self._characters(row, character)
        number = bisect_right(self._rule_starts, offset)
        return number, offset - self._rule_starts[number - 1] + 1

    def _position_of(self, offset: int) -> Position:
        row = bisect_right(self._starts, offset) - 1
        text = self._text[self._starts[row] : offset]
        return row, self._units(text)

    def _units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        return len(text.encode(self._codec, "surrogatepass")) // self._bytes

    def _characters(self, row: int, units: int) -> int:
        """Return the number of characters in a line's first code units; partial ones do not count."""
        text = self._text[self._starts[row] : self._ends[row]]
        if text.isascii():
            return min(max(units, 0), len(text))
        used = 0
        for count, letter in enumerate(text):
            used += self._units(letter)
            if used > units:
                return count
        return len(text)
