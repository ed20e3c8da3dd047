"""G-83: conditions on elements of a list: `every input.to in team`, `any input.to not under "src/"`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.condition import Condition, condition_text, holds, unknown_reason
from interlock.rules import RuleError, compile_rules, condition_of
from interlock.rules.analysis.condition_logic import FAILS, HOLDS, ruled_out
from interlock.rules.analysis.findings import examine
from tests.engine.gate.support.helpers import manager, reason


def condition(text: str) -> Condition:
    found = condition_of(text)
    assert found is not None
    return found


class TestHolds:
    @pytest.mark.parametrize(
        ("value", "every", "some"),
        [
            (["a", "b"], True, True),
            (["a", "x"], False, True),
            (["x"], False, False),
            ([], True, False),
            (["a", ["b"]], None, True),
            (["x", ["b"]], False, None),
            ("a", None, None),
            (None, None, None),
            ({"a": 1}, None, None),
        ],
    )
    def test_elements_are_compared(self, value: object, every: bool | None, some: bool | None) -> None:
        """A text instead of a list makes the condition unclear."""
        assert holds(condition('every input.to in ["a", "b"]'), {"to": value}) is every
        assert holds(condition('any input.to in ["a", "b"]'), {"to": value}) is some

    @given(st.lists(st.sampled_from(["a", "b", "x", 1, None, ["a"]])), st.sampled_from(["=", "in"]))
    def test_any_not_in_negates_every_in(self, value: list[Any], operator: str) -> None:
        """`any … not in` is the negation of `every … in`, also for elements that cannot be compared."""
        right = '["a", "b"]' if operator == "in" else '"a"'
        every = holds(condition(f"every input.to {operator} {right}"), {"to": value})
        other = f"any input.to not in {right}" if operator == "in" else f"any input.to != {right}"
        assert holds(condition(other), {"to": value}) is (None if every is None else not every)

    def test_unknown_result_has_a_reason(self) -> None:
        about = condition('every input.to in ["a"]')
        assert unknown_reason(about, {"to": "a"}) == "input.to is not a list"
        assert unknown_reason(about, {}) == "the call has no input.to"
        assert unknown_reason(about, {"to": [["a"]]}) == "input.to cannot be compared by 'in'"

    @pytest.mark.parametrize(
        "text",
        [
            'every input.to in ["a"]',
            'any input.to not in ["a"]',
            'every input.to not under "src"',
            "not any input.to = 1",
            "any input.to matches /a b/ or every input.n < 3",
        ],
    )
    def test_reads_as_it_is_written(self, text: str) -> None:
        assert condition_text(condition(text)) == text


class TestRules:
    async def test_block_applies_to_one_other_element(self) -> None:
        gate = manager('block mail when any input.to not in ["ada@x.org", "bob@x.org"]')
        assert await reason(gate, "mail", "c1", to=["ada@x.org"]) is None
        said = await reason(gate, "mail", "c2", to=["ada@x.org", "eve@y.org"])
        assert said == 'mail is blocked when any input.to not in ["ada@x.org", "bob@x.org"].'
        said = await reason(gate, "mail", "c3", to="ada@x.org")
        assert said is not None
        assert "input.to is not a list" in said

    def test_long_lists_are_shortened(self) -> None:
        names = ", ".join(f'"p{number}"' for number in range(30))
        about = condition(f"every input.to in [{names}]")
        assert condition_text(about).endswith('"p17", … 12 more]')
        assert condition(condition_text(about, whole=True)) == about


class TestProofs:
    def test_element_comparisons_exclude_each_other(self) -> None:
        every = condition('every input.to in ["a"]')
        assert ruled_out((every, HOLDS), (every, FAILS))
        assert not ruled_out((every, HOLDS), (condition('every input.to in ["b"]'), HOLDS))
        assert ruled_out((every, HOLDS), (condition('input.to = "a"'), HOLDS))

    def test_list_with_elements_of_both_lists_is_possible(self) -> None:
        """A list may contain elements of two lists at once, so neither rule makes the other redundant."""
        rules = 'block m when any input.to in ["a"]\nrequire t before m when any input.to in ["b"]'
        found = examine(compile_rules(rules))
        assert not found.errors
        assert not found.warnings


class TestAllowLists:
    @pytest.mark.parametrize(
        "rule",
        [
            'block mail when not input.to contains "ada@x.org"',
            'block mail when input.to not contains "ada@x.org" or input.n > 3',
            'block mail when not (input.a = 1 or input.to contains "ada@x.org")',
        ],
    )
    def test_contains_causes_a_warning(self, rule: str) -> None:
        [warning] = examine(compile_rules(rule)).warnings
        assert warning.message == 'a list that has "ada@x.org" among others passes this as well'
        assert warning.remedy == 'if input.to is a list, write: every input.to in ["ada@x.org"]'

    @pytest.mark.parametrize(
        "rule",
        [
            'block mail when input.to contains "eve@y.org"',
            'block mail when not input.command contains "--dry-run"',
            'block mail when not any input.to contains "@x.org"',
            'block mail when not (not input.to contains "eve")',
        ],
    )
    def test_other_conditions_cause_no_warning(self, rule: str) -> None:
        assert not examine(compile_rules(rule)).warnings


class TestErrors:
    @pytest.mark.parametrize(
        ("written", "message", "remedy"),
        [
            (
                'all input.to in ["a"]',
                "a comparison begins with a field 'input.<field>', got 'all'",
                'write: block m when every input.to in ["a"]',
            ),
            (
                'input.to any in ["a"]',
                "'any' must come before the field",
                'write: block m when any input.to in ["a"]',
            ),
            (
                "every input.to is present",
                "'is present' is about a field, not about its elements",
                "write: block m when input.to is present",
            ),
            (
                "any input.to",
                "expected an operator after 'input.to', got the end of the line",
                "write: block m when any input.to = true",
            ),
        ],
    )
    def test_wrong_words_have_a_remedy(self, written: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(f"block m when {written}")
        [problem] = caught.value.problems
        assert (problem.message, problem.remedy) == (message, remedy)
