"""Positions: an editor's position and a place in rules convert to each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.lsp.positions import TextPositions

LETTERS = st.text(st.sampled_from("ab é😀\u0301\n\r\u2028\ufeff\ud800"), max_size=30)


class TestPositions:
    @pytest.mark.parametrize(
        ("encoding", "character"), [("utf-16", 4), ("utf-8", 7), ("utf-32", 3), ("unknown", 4)]
    )
    def test_count_units_of_the_encoding(self, encoding: str, character: int) -> None:
        """An emoji and a combining letter before a place count as in the encoding."""
        positions = TextPositions("#\n😀e\u0301x", encoding)
        assert positions.position(2, 4) == (1, character)
        assert positions.place(1, character) == (2, 4)

    def test_use_the_line_breaks_of_editors(self) -> None:
        """A carriage return ends an editor's line, but not a rule's line. U+2028 ends neither."""
        positions = TextPositions("a\rb\u2028c\r\nd")
        assert positions.position(1, 3) == (1, 0)
        assert positions.position(2, 1) == (2, 0)
        assert positions.place(1, 2) == (1, 5)

    def test_positions_outside_the_text_are_moved_into_it(self) -> None:
        """A position after a line or the text is moved to its end, one inside a letter to its start."""
        positions = TextPositions("a😀\nb")
        assert positions.place(0, 2) == (1, 2)
        assert positions.place(0, 99) == (1, 3)
        assert positions.place(9, 9) == (2, 2)
        assert positions.place(-1, -1) == (1, 1)
        assert positions.position(9, 9) == (1, 1)

    @given(LETTERS, st.sampled_from(["utf-8", "utf-16", "utf-32"]))
    def test_conversion_is_reversible(self, text: str, encoding: str) -> None:
        """Every place of a text has its own position, which leads back to it."""
        positions = TextPositions(text, encoding)
        for number, line in enumerate(text.split("\n"), 1):
            # An editor has no position between a carriage return and a line feed.
            last = len(line) if line.endswith("\r") and number <= text.count("\n") else len(line) + 1
            for column in range(1, last + 1):
                assert positions.place(*positions.position(number, column)) == (number, column)
