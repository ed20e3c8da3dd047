"""Inputs that are copied into plain JSON."""

from __future__ import annotations

import json
from collections import OrderedDict
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.engine.core.json_values import same_json
from interlock.engine.recording.records import copied, json_input, own_input

VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
INPUTS = st.dictionaries(st.text(), VALUES, max_size=5)


def _spoil(value: object) -> None:
    """Change every mutable part of a value."""
    if isinstance(value, dict):
        for item in value.values():
            _spoil(item)
        value.clear()
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            _spoil(item)
        value.append("spoilt")


class TestOwnInput:
    """An input from outside, as a plain JSON copy."""

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
    @pytest.mark.parametrize("made", [dict, OrderedDict])
    def test_nan_and_infinity_are_refused(self, made: type[dict], number: float) -> None:
        """NaN and infinity are refused, because JSON has no such numbers."""
        with pytest.raises(ValueError, match="JSON"):
            own_input(made(deep=[{"n": number}]))

    @pytest.mark.slow
    @given(INPUTS)
    def test_fast_and_careful_conversion_agree(self, given: dict[str, JsonValue]) -> None:
        """The fast and the careful conversion give the same result, and so does a copy."""
        found = own_input(given)
        assert same_json(found, json_input(given))
        assert same_json(copied(found), given)

    @pytest.mark.slow
    @given(INPUTS)
    def test_result_shares_no_mutable_state(self, given: dict[str, JsonValue]) -> None:
        """Changing the given input or a copy does not change the result."""
        before = json.dumps(given)
        found = own_input(given)
        copy = copied(found)
        _spoil(given)
        assert json.dumps(found) == before
        _spoil(copy)
        assert json.dumps(found) == before

    def test_json_like_values_become_plain_types(self) -> None:
        """Values that only behave like JSON are converted to plain types."""
        nested = OrderedDict(a=[1, OrderedDict(b=2)])
        found = own_input(MappingProxyType({"x": nested}))
        assert found == {"x": {"a": [1, {"b": 2}]}}
        assert type(found["x"]) is dict

    def test_deep_nesting_is_converted(self) -> None:
        """Deep nesting is converted, too."""
        deep: JsonValue = 1
        for _ in range(100):
            deep = [deep]
        assert own_input({"x": deep}) == {"x": deep}

    @pytest.mark.parametrize("value", [{1, 2}, (1, 2), object(), {1: "x"}, b"x"])
    def test_unsupported_value_is_refused(self, value: object) -> None:
        """A value that JSON cannot hold is refused at any level."""
        for wrong in ({"x": value}, {"x": [value]}, {"x": {"y": value}}):
            with pytest.raises(ValueError, match="validation error"):
                own_input(wrong)
