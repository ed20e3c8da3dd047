"""Canonical JSON: each value has exactly one text."""

from __future__ import annotations

import json
import math

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.history.audit.canonical_json import canonical, canonical_line, common

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def of_text(text: str) -> str:
    """Return the canonical text; if the quick path applies, check that it gives the same text."""
    slow = canonical(json.loads(text))
    try:
        quick = common(orjson.loads(text))
    except ValueError:
        return slow
    assert quick is None or quick == slow.encode()
    return slow


class TestLine:
    @given(JSON | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[])))
    def test_is_the_canonical_text(self, value: object) -> None:
        """A line is the canonical text of any value, and raises the same errors."""
        shown = {"a": value, "b": [value]}
        body = json.dumps(shown)
        try:
            expected = canonical(shown).encode()  # pyright: ignore[reportArgumentType]
        except UnicodeEncodeError:
            with pytest.raises(UnicodeEncodeError):
                canonical_line(shown, body)  # pyright: ignore[reportArgumentType]
        else:
            assert canonical_line(shown, body) == expected  # pyright: ignore[reportArgumentType]


class TestCanonical:
    @given(JSON)
    def test_is_rfc_8785(self, value: object) -> None:
        """A value that I-JSON allows has the same text as with another implementation of RFC 8785."""
        expected = rfc8785.dumps(value).decode()  # pyright: ignore[reportArgumentType]
        assert canonical(value) == expected  # pyright: ignore[reportArgumentType]
        assert of_text(json.dumps(value)) == expected
        assert of_text(json.dumps(value, ensure_ascii=False, indent=1)) == expected

    @pytest.mark.parametrize(
        ("number", "text"),
        [
            (333333333.33333329, "333333333.3333333"),
            (1e30, "1e+30"),
            (4.50, "4.5"),
            (2e-3, "0.002"),
            (1e-27, "1e-27"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1.2345678901234568e20, "123456789012345680000"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (-0.0, "0"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
        ],
    )
    def test_numbers(self, number: float, text: str) -> None:
        """Numbers are written as ECMAScript writes them, whether or not they were parsed from text."""
        assert canonical(number) == text
        assert of_text(repr(number)) == text

    def test_keys_in_utf16_order(self) -> None:
        """Keys are sorted by UTF-16 code units, so characters beyond the first plane sort early."""
        value = {"\ue000": 1, "\U0001f600": 2, "a": 3}
        assert of_text(json.dumps(value)) == '{"a":3,"\U0001f600":2,"\ue000":1}'

    @pytest.mark.parametrize("text", ["12345678901234567890", "-9007199254740993"])
    def test_long_integers_keep_their_digits(self, text: str) -> None:
        """Two integers beyond 2^53 that round to the same double keep different texts."""
        assert of_text(text) == text
        assert of_text(f"[0.5,{text}]") == f"[0.5,{text}]"

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_nan_and_infinities_have_a_text(self, value: float) -> None:
        """NaN and infinities, which JSON forbids but a tool's input can have, have a text nonetheless."""
        assert canonical(value) == json.dumps(value) == of_text(json.dumps(value))

    def test_typical_events_take_the_quick_path(self) -> None:
        """The content of a typical event takes the quick path, whatever its ids and texts look like."""
        text = (
            '{"call_id":"call_1e5f:1.0","seconds":0.25,"at":1790000000123,"text":"über 7e3","n":[1,-2.5]}'
        )
        assert common(orjson.loads(text)) == canonical(json.loads(text)).encode()

    def test_lone_surrogate_is_refused(self) -> None:
        """A lone surrogate cannot be encoded, so it cannot be hashed."""
        with pytest.raises(UnicodeEncodeError):
            of_text('"\\ud800"').encode()
