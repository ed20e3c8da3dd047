"""Fields with unusual names in quotes: `input."x.y"."a b"`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.core.condition import (
    Compare,
    Condition,
    comparisons,
    condition_text,
    holds,
    unknown_reason,
)
from interlock.rules import compile_rules

from ...support.laws import examples

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=6)


def condition_of(text: str) -> Condition:
    """Return the condition of a block rule."""
    condition = compile_rules(f"block a when {text}").nets[0].condition
    assert condition is not None
    return condition


def path_of(text: str) -> tuple[str, ...]:
    (compare,) = comparisons(condition_of(text))
    return compare.path


class TestReading:
    """Reading of fields with quotes."""

    @pytest.mark.parametrize(
        ("field", "path"),
        [
            ('input."x.y"."a b"', ("x.y", "a b")),
            ('input.a."b.c".d', ("a", "b.c", "d")),
            ('input."#1"', ("#1",)),
            ('input."say \\"no\\""', ('say "no"',)),
            ('input."\\u0061\\\\"', ("a\\",)),
            ('input.""', ("",)),
            ('input."not"."when"', ("not", "when")),
        ],
    )
    def test_quoted_name_is_a_json_string(self, field: str, path: tuple[str, ...]) -> None:
        """G-40: a quoted name is a JSON string and may follow a plain name."""
        assert path_of(f"{field} = 1") == path
        assert path_of(f"not ({field}=1)") == path

    def test_hash_in_a_name_starts_no_comment(self) -> None:
        """G-40: a `#` inside a name starts no comment, but one after the condition does."""
        assert path_of('input."a#b" = 1 # input."c"') == ("a#b",)

    def test_field_of_that_name_is_read(self) -> None:
        """G-10: the condition reads the field of that name, not a nested field."""
        condition = condition_of('input."x.y" = 1')
        answers: list[tuple[dict[str, Any], bool | None]] = [
            ({"x.y": 1}, True),
            ({"x.y": 2}, False),
            ({"x": {"y": 1}}, None),
        ]
        assert [holds(condition, value) for value, _ in answers] == [answer for _, answer in answers]

    def test_unknown_reason_spells_the_field(self) -> None:
        """G-60: the reason spells the field as the rule does."""
        assert unknown_reason(condition_of('input."a b".c = 1'), {}) == 'the call has no input."a b".c'


class TestWriting:
    """Writing of fields."""

    @given(st.lists(names, min_size=1, max_size=3))
    @settings(max_examples=examples(200), deadline=None)
    def test_reads_back(self, path: list[str]) -> None:
        """G-40: any field that is written is read as the same field."""
        shown = condition_text(Compare(tuple(path), "=", 1))
        assert shown.isprintable()
        assert path_of(shown.removesuffix(" = 1") + " = 1") == tuple(path)

    def test_plain_name_is_written_without_quotes(self) -> None:
        """G-40: a plain name is written without quotes even if the rule has them."""
        assert condition_text(condition_of('input."a"."b-c"."d e" = 1')) == 'input.a.b-c."d e" = 1'

    @pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\x1b", "\ufeff"])
    def test_invisible_characters_are_escaped(self, sign: str) -> None:
        """G-40: invisible and direction-changing characters are written as escapes."""
        shown = condition_text(Compare((f"a{sign}",), "=", 1))
        assert sign not in shown
