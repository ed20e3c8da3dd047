"""Untrusted text as it is shown to operators."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.sanitize import MOST_MARKS, visible, visible_json


class TestHiddenCharacters:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("\x1b[2J", "\\x1b[2J"),
            ("a\x00b\x7f", "a\\x00b\\x7f"),
            ("a\rb\nc\td", "a\\rb\\nc\\td"),
            ("\u202egpj.exe", "\\u202egpj.exe"),
            ("\u2066x\u2069", "\\u2066x\\u2069"),
            ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
            ("\ue000", "\\ue000"),
            ("\U000e0041", "\\U000e0041"),
            ("\u2028", "\\u2028"),
            ("\ud800", "\\ud800"),
            ("\u3164", "\\u3164"),
            ("x\ufe0f", "x\\ufe0f"),
        ],
    )
    def test_shown_as_escapes(self, text: str, shown: str) -> None:
        """Control, bidirectional and hidden characters are shown as escapes."""
        assert visible(text) == shown

    def test_layout_is_kept_on_request(self) -> None:
        """Newlines and tabs are kept in texts of several lines; a carriage return is always escaped."""
        assert visible("a\n\tb\r\n", keep_newlines=True) == "a\n\tb\\r\n"

    @given(st.text())
    def test_result_has_no_hidden_characters(self, text: str) -> None:
        """The result never has control, format, surrogate or private-use characters."""
        assert not {unicodedata.category(c) for c in visible(text)} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}

    @given(st.text())
    def test_escaping_is_idempotent(self, text: str) -> None:
        """Making a visible text visible again changes nothing."""
        assert visible(visible(text)) == visible(text)


class TestReadableText:
    @pytest.mark.parametrize("text", ["", "deploy --env=prod", "Größe → 5 €", "日本語", "C:\\temp", "🚀"])
    def test_any_language_stays_unchanged(self, text: str) -> None:
        """Letters, symbols and spaces of any language stay unchanged."""
        assert visible(text) == text


class TestMarks:
    def test_flood_of_marks_is_escaped(self) -> None:
        """Spoofing: the first marks on a letter are kept, and all further ones are escaped."""
        assert visible("a" + "\u0301" * 6) == "a" + "\u0301" * MOST_MARKS + "\\u0301" * 2
        assert visible("\u1100" + "\u1161" * 5) == "\u1100" + "\u1161" * MOST_MARKS + "\\u1161"

    @pytest.mark.parametrize("text", ["\u0338x", " \u0338x", "\n\u0338x", "\u200b\u0338x", "│\u0338x"])
    def test_mark_without_a_base_is_escaped(self, text: str) -> None:
        """Spoofing: a mark without a letter or digit before it is escaped."""
        assert "\u0338" not in visible(text, keep_newlines=True)
        assert visible(text, keep_newlines=True).endswith("\\u0338x")

    @pytest.mark.parametrize(
        "text", ["cafe\u0301", "Tiê\u0301ng Viê\u0323t", "हिन्दी", "שָׁלוֹם", "\u1112\u1161\u11ab"]
    )
    def test_marks_of_languages_stay_unchanged(self, text: str) -> None:
        """Marks in usual texts of languages stay unchanged."""
        assert visible(text) == text


class TestJson:
    @pytest.mark.slow
    @given(
        st.recursive(st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)),
        st.none() | st.just(2),
    )
    def test_visible_json_has_the_same_value(self, value: object, indent: int | None) -> None:
        """Spoofing: visible JSON has no hidden characters or floods of marks, and the same value."""
        shown = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(shown) == value
        assert visible(shown, keep_newlines=True) == shown

    @pytest.mark.parametrize(
        ("character", "escape"),
        [
            ("\x7f", "\\u007f"),
            ("\x80", "\\u0080"),
            ("\u202e", "\\u202e"),
            ("\U000e0041", "\\udb40\\udc41"),
        ],
    )
    def test_json_escapes_are_used(self, character: str, escape: str) -> None:
        """JSON escapes are used, not Python escapes, which JSON readers refuse."""
        assert visible_json(f'"a{character}"') == f'"a{escape}"'
