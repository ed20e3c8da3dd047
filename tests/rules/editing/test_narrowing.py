"""A rule's line with a further condition, and a recorded call in a scenario's words."""

from __future__ import annotations

import pytest

from interlock.engine.core.condition import Compare, Not, Or
from interlock.rules import compile_rules
from interlock.rules.editing.narrowing import narrowed
from interlock.rules.scenarios.scenarios import parse_call
from interlock.rules.scenarios.written_call import call_words

ONE = Compare(("env",), "!=", "dev # 1")
EITHER = Or((Compare(("n",), "<", 1), Compare(("n",), ">", 5)))


class TestNarrowed:
    @pytest.mark.parametrize(
        ("line", "after"),
        [
            ("block rm", 'block rm when input.env != "dev # 1"'),
            ("  block rm  # why", '  block rm when input.env != "dev # 1" # why'),
            ('block rm because "no"', 'block rm when input.env != "dev # 1" because "no"'),
            (
                'block rm when input.a = "#" or input.b = 2 because "x" #',
                'block rm when (input.a = "#" or input.b = 2) and input.env != "dev # 1" because "x" #',
            ),
            ("block when when input.a = 1", 'block when when input.a = 1 and input.env != "dev # 1"'),
            (
                'block rm when session.agent = "bot # 1" or input.a = 1 because "x" # why',
                'block rm when (session.agent = "bot # 1" or input.a = 1) and input.env != "dev # 1" '
                'because "x" # why',
            ),
            (
                "block rm when session.labels is missing",
                'block rm when session.labels is missing and input.env != "dev # 1"',
            ),
        ],
    )
    def test_condition_is_added_in_its_place(self, line: str, after: str) -> None:
        """The condition is added in its place, and the rest of the line stays."""
        [net] = compile_rules(line)
        assert net.rule is not None
        assert narrowed(line, net.rule.when, ONE) == after
        assert len(compile_rules(after)) == 1

    def test_or_gets_parentheses_where_needed(self) -> None:
        """A condition with `or` gets parentheses only beside another condition."""
        assert narrowed("block rm", None, EITHER) == "block rm when input.n < 1 or input.n > 5"
        when = Compare(("a",), "=", 1)
        text = narrowed("block rm when input.a = 1", when, EITHER)
        assert text == "block rm when input.a = 1 and (input.n < 1 or input.n > 5)"

    def test_names_and_long_lists_are_kept(self) -> None:
        """Names of values stay, and a long list is written completely."""
        values = tuple(range(30))
        text = narrowed(
            "block rm when input.a in team", Compare(("a",), "=", 1), Not(Compare(("b",), "in", values))
        )
        assert text.startswith("block rm when input.a in team and input.b not in [0, 1, 2")
        assert text.endswith("28, 29]")


class TestCallWords:
    @pytest.mark.parametrize(
        "values",
        [
            {},
            {"env": "dev", "n": 1, "f": 2.5, "b": True, "none": None},
            {"odd name": "a # b", "fails": "returns", "returns": 1, "a.b": "x"},
            {"list": ["a", {"b": [1]}], "text": 'quotes " and \\ and\nlines'},
        ],
    )
    def test_words_read_back_as_the_same_call(self, values: dict[str, object]) -> None:
        """The words are read as the same call."""
        words = call_words("deploy", values)
        assert words is not None
        read = parse_call(words)
        assert (read.tool, read.input) == ("deploy", values)

    def test_plain_names_need_no_quotes(self) -> None:
        """Plain field names need no quotes."""
        assert call_words("deploy", {"env": "dev"}) == 'deploy env "dev"'

    @pytest.mark.parametrize(("tool", "values"), [("two words", {}), ("a", {"x": object()}), ("", {})])
    def test_inexpressible_call_yields_none(self, tool: str, values: dict[str, object]) -> None:
        """A call that scenarios cannot express yields `None`."""
        assert call_words(tool, values) is None
