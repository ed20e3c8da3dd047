"""The functions that every untrusted text passes through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size

from interlock.app.format.text import clip, pad, shown, shown_lines, wrap, wrap_all
from interlock.app.terminal.charset import use_ascii, visible, with_certain_width

from .attacks import ATTACKS
from .harmless import MOST_MARKS, cells, crowded, strange

PIECES = st.sampled_from(
    ["\u0301", "\u0338", "\u1161", "👍🏽", "🇩🇪", "\x1b[31m", "\u202e", "全", " ", "\n", "x"]
)
TEXT = st.lists(st.text(max_size=6) | PIECES | st.sampled_from(list(ATTACKS.values())), max_size=8).map(
    "".join
)


class TestVisible:
    @pytest.mark.parametrize("name", ATTACKS)
    def test_line_is_harmless_and_has_its_width(self, name: str) -> None:
        """Spoofing: the shown line is harmless and takes exactly its cells in a terminal."""
        text = shown(ATTACKS[name])
        assert strange(text) == set()
        assert not crowded(text)
        assert cell_len(text) == cells(text)

    @given(TEXT)
    def test_arbitrary_text_is_harmless(self, text: str) -> None:
        """Spoofing: any text is harmless, in one line and in several, escaped once or twice."""
        for line in (shown(text), *shown_lines(text)):
            assert strange(line) == set()
            assert not crowded(line)
            assert cell_len(line) == cells(line)
        assert visible(visible(text)) == visible(text)

    @given(TEXT)
    def test_arbitrary_text_in_ascii_is_not_wider(self, text: str) -> None:
        """Spoofing: with ASCII only, the text is no wider and can be escaped twice."""
        plain = visible(text)
        use_ascii(True)
        try:
            marked = visible(text)
            assert visible(marked) == marked
            assert cell_len(marked) == cell_len(plain)
        finally:
            use_ascii(False)

    @pytest.mark.parametrize(
        "text",
        [
            "café",
            "cafe\u0301",
            "Tiê\u0301ng Viê\u0323t",
            "हिन्दी",
            "ภาษาไทย",
            "שָׁלוֹם",
            "한국어",
            "\u1112\u1161\u11ab",
            "日本語",
            "😀",
        ],
    )
    def test_languages_stay_readable(self, text: str) -> None:
        """Spoofing: marks as languages use them stay as they are."""
        assert shown(text) == text

    def test_excess_marks_are_escaped(self) -> None:
        """Spoofing: the first marks on a letter stay, the others are escaped one by one."""
        assert shown("a" + "\u0301" * 6) == "a" + "\u0301" * MOST_MARKS + "\\u0301" * 2

    @pytest.mark.slow
    def test_characters_without_a_cell_are_hidden_or_escaped(self) -> None:
        """Spoofing: the engine hides or escapes every character that has no cell of its own."""
        codes = (code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
        free = [chr(code) for code in codes if get_character_cell_size(chr(code)) == 0]
        assert len(free) > 2000
        assert [
            character for character in free if visible(with_certain_width(character)) == character
        ] == []

    def test_mark_without_a_letter_is_escaped(self) -> None:
        """Spoofing: a mark without a letter before it is escaped."""
        assert shown("\u0338x \u0338y\u200b\u0338z│\u0338") == r"\u0338x \u0338y\u200b\u0338z│\u0338"
        assert shown_lines("a\n\u0338b") == ["a", "\\u0338b"]


class TestFolding:
    @given(TEXT, st.integers(2, 60))
    def test_no_line_is_wider_than_its_width(self, text: str, width: int) -> None:
        """Spoofing: folded, clipped and padded lines keep their width, and none begins with a mark."""
        rows = wrap_all(shown_lines(text), width)
        for row in (*rows, clip(shown(text), width)):
            assert cells(row) <= width
            assert not crowded(row)
        assert cells(pad(shown(text), width)) == width

    @given(TEXT, st.integers(2, 60))
    def test_every_character_is_kept(self, text: str, width: int) -> None:
        """Spoofing: folding loses no character."""
        for line in shown_lines(text):
            assert "".join(wrap(line, width)) == line
