"""What holds of every painted line, whoever wrote the text in it."""

from __future__ import annotations

import unicodedata

from pyte.screens import wcwidth
from textual.app import App
from textual.strip import Strip

from ..support.clicks import clicks_of_others

STRANGE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
MOST_MARKS = 4
"""Characters without a cell of their own that one cell may hold."""


def strange(text: str) -> set[str]:
    """Characters that a terminal obeys, hides or shows as it likes."""
    return {character for character in text if unicodedata.category(character) in STRANGE}


def crowded(text: str) -> bool:
    """Whether more marks stand on one cell than anybody writes, or one on none."""
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
    """The cells that a terminal gives a text that is not strange, one character after the other."""
    return sum(max(0, wcwidth(character)) for character in text)


def strips(app: App[None]) -> list[Strip]:
    """The painted lines."""
    return app.screen._compositor.render_strips()


def assert_harmless(app: App[None]) -> None:
    """Nothing painted is obeyed, hidden or clicked, and every line is as wide as the screen."""
    for number, strip in enumerate(strips(app)):
        line = strip.text
        assert strange(line) == set(), f"{strange(line)!r} in line {number}: {line!r}"
        assert not crowded(line), f"line {number}: {line!r}"
        assert strip.cell_length == app.size.width
        assert cells(line) == app.size.width, f"line {number}: {line!r}"
        links = [style.link for _, style, _ in strip if style and style.link]
        assert links == []
    assert clicks_of_others(app) == []
