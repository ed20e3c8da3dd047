"""G-84: conditions on whether a call has a field: `is present` and `is missing`."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.core.condition import Condition, condition_text, holds, unknown_reason
from interlock.rules import RuleError, compile_rules, condition_of
from interlock.rules.analysis.condition_logic import FAILS, HOLDS, covers, ruled_out
from interlock.rules.analysis.findings import examine
from tests.engine.gate.support.helpers import manager, reason


def condition(text: str) -> Condition:
    found = condition_of(text)
    assert found is not None
    return found


class TestHolds:
    @pytest.mark.parametrize(
        ("value", "missing"),
        [
            ({}, True),
            ({"x": None}, True),
            ({"x": 0}, False),
            ({"x": []}, False),
            ({"x": ""}, False),
            ({"y": 1}, True),
            ({"x": 1, "X": 1}, None),
        ],
    )
    def test_present_and_missing(self, value: dict[str, Any], missing: bool | None) -> None:
        """`null` counts as missing; a second field that looks alike makes the condition unclear."""
        present = None if missing is None else not missing
        assert holds(condition("input.x is missing"), value) is missing
        assert holds(condition("input.x is present"), value) is present
        if missing is None:
            said = "another field differs from input.x only in looks"
            assert unknown_reason(condition("input.x is missing"), value) == said

    def test_nested_field(self) -> None:
        where = condition("input.a.b is present")
        assert [holds(where, value) for value in ({"a": {"b": 1}}, {"a": {}}, {"a": "b"}, {})] == [
            *(True, False, False, False)
        ]

    @pytest.mark.parametrize(
        "text", ["input.x is present", "input.x is missing", "not input.x is missing"]
    )
    def test_reads_as_it_is_written(self, text: str) -> None:
        assert condition_text(condition(text)) == text
        assert condition(text.replace("is ", "is \t ")) == condition(text)


class TestRules:
    async def test_present_exempts_a_call_without_the_field(self) -> None:
        """`is present` exempts a call without the field, which would otherwise need approval."""
        gate = manager('require human-approval before mail when input.to is present and input.to != "me"')
        assert await reason(gate, "mail", "c1") is None
        assert await reason(gate, "mail", "c2", to="me") is None
        assert await reason(gate, "mail", "c3", to="you") is not None

    async def test_block_reason_contains_missing(self) -> None:
        gate = manager("block pay when input.limit is missing")
        assert await reason(gate, "pay", "c1") == "pay is blocked when input.limit is missing."
        assert await reason(gate, "pay", "c2", limit=3) is None


class TestProofs:
    def test_present_and_missing_are_complements(self) -> None:
        present, missing = condition("input.x is present"), condition("input.x is missing")
        assert ruled_out((present, HOLDS), (missing, HOLDS))
        assert ruled_out((present, FAILS), (missing, FAILS))
        assert not ruled_out((present, HOLDS))

    def test_compared_field_is_present(self) -> None:
        """A field with a value is present, and a missing field cannot be compared."""
        assert ruled_out((condition('input.x = "a"'), HOLDS), (condition("input.x is missing"), HOLDS))
        assert covers(condition("input.x is present"), condition('input.x is present and input.x = "a"'))
        assert not covers(condition("input.x is present"), condition('input.x = "a"'))

    def test_blocks_of_both_cover_every_call(self) -> None:
        """Blocks of present and missing fields cover every call; a repeated one has no effect."""
        both = examine(compile_rules("block a when input.x is present\nblock a when input.x is missing"))
        assert any("blocks every call of 'a'" in warning.message for warning in both.warnings)
        found = examine(
            compile_rules("block a when input.x is missing\nblock a when not input.x is present")
        )
        assert any("this rule has no effect" in warning.message for warning in found.warnings)


class TestErrors:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("is not present", "is missing"),
            ("is not missing", "is present"),
            ("is set", "is present"),
            ("is absent", "is missing"),
            ("exists", "is present"),
            ("is defined", "is present"),
            ("missing", "is missing"),
        ],
    )
    def test_wrong_words_have_a_remedy(self, written: str, meant: str) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(f"block a when input.x {written}")
        [problem] = caught.value.problems
        assert problem.remedy == f"write: block a when input.x {meant}"

    def test_other_word_after_is_counts_as_a_value(self) -> None:
        """Another word after `is` is treated as a value."""
        with pytest.raises(RuleError) as caught:
            compile_rules('block a when input.x is "prod"')
        assert caught.value.problems[0].remedy == 'write: block a when input.x = "prod"'
