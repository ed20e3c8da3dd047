"""Equality of inputs, as JSON."""

from __future__ import annotations

from math import nan

import pytest

from interlock.engine.core.json_values import same_json


class TestSameJson:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"a": [1, {"b": None}]}, {"a": (1, {"b": None})}),
            ({"a": [1, {"b": None}], "c": 2}, {"c": 2, "a": [1, {"b": None}]}),
            ("", ""),
            (1.5, 1.5),
        ],
    )
    def test_same_json(self, one: object, other: object) -> None:
        """G-13, A-45: the order of names does not matter, and tuples equal lists."""
        assert same_json(one, other)
        assert same_json(other, one)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            *[(1, True), (0, False), (1, 1.0), ([], {}), ([], None), ({}, None), ("1", 1), (nan, nan)],
            ({1: 2}, {1: 2}),
            ([1, 2], [1]),
            ([1], [1, 2]),
            ({"a": 1}, {"a": 1, "b": 1}),
            ({"a": None}, {"b": None}),
            (object, object),
        ],
    )
    def test_different_json(self, one: object, other: object) -> None:
        """G-13, A-45: values that differ in JSON are different, and non-JSON values equal nothing."""
        assert not same_json(one, other)
        assert not same_json(other, one)
        assert not same_json({"x": [one]}, {"x": [other]})
