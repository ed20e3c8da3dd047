"""Letters that look like ASCII: marked where they mislead, and only there."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.confusables import is_look_alike
from interlock.engine.core.sanitize import visible, visible_json, visible_words

COPY = "\u0441\u043e\u0440\u0443"
"""`copy` in Cyrillic letters."""


class TestMixedWords:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("d\u0435ploy prod", "d\\u0435ploy prod"),
            ("./depl\u03bfy", "./depl\\u03bfy"),
            ("rm -rf \uff41b", "rm -rf \\uff41b"),
            ("\U0001d42bm x", "\\U0001d42bm x"),
            ("tool_\u0430", "tool_\\u0430"),
        ],
    )
    def test_lookalikes_are_escaped(self, text: str, shown: str) -> None:
        """A look-alike in a word with Latin letters is shown as an escape, in any text."""
        assert visible(text) == shown
        assert visible_words(text) == shown

    @pytest.mark.parametrize(
        "text",
        [
            "Привет, мир: это тест и сор",
            "Καλημέρα κόσμε, οχι",
            "naïve café Straße, œuvre, İstanbul",
            "日本語textと漢字",
            "IT-отдел, 3D-модель, Δt, 5 µs, πr²",
        ],
    )
    def test_prose_stays(self, text: str) -> None:
        """Texts in one script and unambiguous words of two scripts stay unchanged."""
        assert visible(text) == text

    def test_escaped_line_break_ends_the_word(self) -> None:
        """A line break that is shown as an escape is not part of the next word."""
        assert visible("\nсор") == "\\nсор"
        assert visible(visible("\nсор")) == "\\nсор"
        assert visible_words("\\n\u0441") == "\\n\\u0441"

    def test_json_escapes_keep_the_value(self) -> None:
        """JSON uses JSON escapes, so its value stays the same."""
        text = json.dumps({"d\u0435ploy": "\U0001d42bm"}, ensure_ascii=False)
        shown = visible_json(text)
        assert shown.isascii()
        assert json.loads(shown) == json.loads(text)

    @given(
        st.text(st.sampled_from("ab Z_0-./\\n\u0430\u0435\u03bf\uff41\U0001d42b\u0301\n"), max_size=30)
    )
    def test_escaping_is_idempotent(self, text: str) -> None:
        """LAW: making a text visible twice changes nothing more, even with an escape before a word."""
        for keep in (True, False):
            once = visible(text, keep_newlines=keep)
            assert visible(once, keep_newlines=keep) == once
            words = visible_words(text, keep_newlines=keep)
            assert visible(words, keep_newlines=keep) == words


class TestNamesAndCommands:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            (COPY, "\\u0441\\u043e\\u0440\\u0443"),
            (f"{COPY} x y", "\\u0441\\u043e\\u0440\\u0443 x y"),
            (f"ls; {COPY} x", "ls; \\u0441\\u043e\\u0440\\u0443 x"),
            (f"привет; {COPY}", "привет; \\u0441\\u043e\\u0440\\u0443"),
            (f"sudo {COPY} файл", "sudo \\u0441\\u043e\\u0440\\u0443 файл"),
            ("rm\u2215x", "rm\\u2215x"),
            ("\uff52\uff4d -rf /", "\\uff52\\uff4d -rf /"),
        ],
    )
    def test_whole_lookalike_words_are_escaped(self, text: str, shown: str) -> None:
        """A whole word that looks like an ASCII word is marked in names and commands, not in prose."""
        assert visible_words(text) == shown

    @pytest.mark.parametrize(
        "text", ["git commit -m 'работа с кодом'", "echo привет", "cat отчёт.txt", "grep Δ файл"]
    )
    def test_sentences_stay(self, text: str) -> None:
        """Words of a sentence in a command stay unchanged."""
        assert visible_words(text) == text

    def test_every_letter_of_a_whole_word_is_needed(self) -> None:
        """Letters without an ASCII twin are not look-alikes."""
        assert is_look_alike("\u0430")
        assert not is_look_alike("ф")
        assert not is_look_alike("é")
        assert not is_look_alike("日")
