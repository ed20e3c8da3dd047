"""Excerpts of calls in reasons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.sanitize import visible
from interlock.engine.gate.excerpt import MOST, excerpt

SECRET = "hunter2"


class TestExcerpt:
    """G-18: excerpts are short, on one line, printable and without secrets."""

    @pytest.mark.parametrize(
        "text",
        [
            "sudo ls",
            "rm -rf build",
            "git push origin main",
            "./deploy staging --env=prod",
            "find . -name x -delete",
            "scp a b:/tmp/c",
            "kubectl -n prod delete pod",
        ],
    )
    def test_ordinary_command_is_quoted_unchanged(self, text: str) -> None:
        """G-18: an ordinary command is quoted as it is."""
        assert excerpt(text) == text

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (f"mysql -u root -p{SECRET} -h db", "mysql -u … -p… -h db"),
            (f'curl -H "Authorization: Bearer {SECRET}" https://x', "curl -H … https://x"),
            (f"TOKEN={SECRET} deploy", "TOKEN=… deploy"),
            (f"deploy --token {SECRET} prod", "deploy --token … prod"),
            (f"deploy --password={SECRET} prod", "deploy --password=… prod"),
            (f'login --password "my {SECRET} word" now', "login --password … now"),
            (f"git push https://me:{SECRET}@host/x", "git push https://…@host/x"),
            (f"curl https://x?key={SECRET}&y=1", "curl https://x?key=…&y=…"),
            (f"aws set aws_secret_access_key {SECRET}", "aws set aws_secret_access_key …"),
            ("echo ghp_abcdefghijkl0123456789", "echo …"),
            (f'psql "password={SECRET} host=x"', 'psql "password=…'),
        ],
    )
    def test_secrets_are_omitted(self, text: str, expected: str) -> None:
        """G-18: text after a secret's name or option, or that looks random, is omitted."""
        shown = excerpt(text)
        assert SECRET not in shown
        assert shown == expected or expected.split("=…", maxsplit=1)[0] in shown

    def test_long_text_is_cut_between_words(self) -> None:
        """G-18: a long text ends after a whole word, because masking does not know parts of words."""
        shown = excerpt(f"rm {'name ' * 40}")
        assert shown == f"rm {'name ' * 15}…"
        assert excerpt("a" * 200) == "…"

    @given(st.text(max_size=300))
    def test_any_excerpt_is_one_short_printable_line(self, text: str) -> None:
        """G-18: for any text, the excerpt is one printable line of at most 80 characters."""
        shown = excerpt(text)
        assert len(shown) <= MOST
        assert visible(shown) == shown
