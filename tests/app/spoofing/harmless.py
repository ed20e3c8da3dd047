"""Conditions for every painted line, whoever wrote its text."""

from __future__ import annotations

import unicodedata

from pyte.screens import wcwidth
from textual.app import App
from textual.strip import Strip

from ..support.clicks import clicks_of_others

STRANGE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
MOST_MARKS = 4
"""The largest number of zero-width characters on one cell."""


def strange(text: str) -> set[str]:
    """Characters that a terminal obeys, hides or shows in its own way."""
    return {character for character in text if unicodedata.category(character) in STRANGE}


def crowded(text: str) -> bool:
    """Tell whether a cell has too many marks, or a mark has no cell."""
    marks = 0
    before = " "
    for character in text:
        if wcwidth(character) == 0:
            marks += 1
            if marks > MOST_MARKS or before.isspace():
                return True
        else:
            marks = 0
            before = character
    return False


def cells(text: str) -> int:
    """The cells of a text without strange characters in a terminal, counted by character."""
    return sum(max(0, wcwidth(character)) for character in text)


def strips(app: App[None]) -> list[Strip]:
    """The painted lines."""
    return app.screen._compositor.render_strips()


def assert_harmless(app: App[None]) -> None:
    """Check that the screen has no control, hidden or clickable text, and that its lines fit."""
    for number, strip in enumerate(strips(app)):
        line = strip.text
        assert strange(line) == set(), f"{strange(line)!r} in line {number}: {line!r}"
        assert not crowded(line), f"line {number}: {line!r}"
        assert strip.cell_length == app.size.width
        assert cells(line) == app.size.width, f"line {number}: {line!r}"
        links = [style.link for _, style, _ in strip if style and style.link]
        assert links == []
    assert clicks_of_others(app) == []
