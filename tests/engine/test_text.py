"""Untrusted text as people are shown it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.text import visible


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
    def test_become_escapes(self, text: str, shown: str) -> None:
        """What a terminal obeys, reorders or hides is spelt out."""
        assert visible(text) == shown

    def test_layout_is_kept_on_request(self) -> None:
        """Newlines and tabs stay where a text has several lines; a carriage return never does."""
        assert visible("a\n\tb\r\n", keep_newlines=True) == "a\n\tb\\r\n"

    @given(st.text())
    def test_nothing_hidden_is_left(self, text: str) -> None:
        """No text at all leaves a control, format, surrogate or private-use character behind."""
        assert not {unicodedata.category(c) for c in visible(text)} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}

    @given(st.text())
    def test_twice_is_as_once(self, text: str) -> None:
        """A text that was made visible already stays as it is."""
        assert visible(visible(text)) == visible(text)


class TestReadableText:
    @pytest.mark.parametrize("text", ["", "deploy --env=prod", "Größe → 5 €", "日本語", "C:\\temp", "🚀"])
    def test_stays(self, text: str) -> None:
        """Letters, symbols and spaces of any language are as they were written."""
        assert visible(text) == text
