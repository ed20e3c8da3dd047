"""Durations: parsed and formatted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.durations import LONGEST, UNITS, as_typed, format_duration, parse_time


class TestParsing:
    @pytest.mark.parametrize(
        ("typed", "seconds"),
        [
            ("30s", 30),
            ("15m", 900),
            ("36h", 129_600),
            ("90d", 7_776_000),
            ("12w", 7_257_600),
            (" 12 W ", 7_257_600),
            ("0d", 0),
            ("0000000000007m", 420),
        ],
    )
    def test_a_number_and_its_unit(self, typed: str, seconds: int) -> None:
        """A whole number with one of five units is accepted, ignoring case and surrounding spaces."""
        assert parse_time(typed) == seconds

    @pytest.mark.parametrize(
        "typed", ["", "90", "d", "-1d", "1.5d", "1y", "15min", "1h 30m", "٣m", "1ſ", "9" * 5000 + "s"]
    )
    def test_other_texts_are_refused(self, typed: str) -> None:
        """Fractions, signs, other digits or letters and too many digits are refused."""
        assert parse_time(typed) is None

    @given(st.integers(0, 99_999_999), st.sampled_from([*UNITS]))
    def test_accepted_duration_fits_a_timedelta(self, number: int, unit: str) -> None:
        """Every accepted duration fits a `timedelta`."""
        seconds = parse_time(f"{number}{unit}")
        assert seconds is not None
        assert timedelta(seconds=seconds).total_seconds() == seconds


class TestTyped:
    @pytest.mark.parametrize(
        ("seconds", "typed"),
        [
            (45, "45s"),
            (5400, "90m"),
            (3600, "1h"),
            (129_600, "36h"),
            (172_800, "2d"),
            (1_000_001, "1000001s"),
            (0.5, "0.5s"),
            (0, "0s"),
            (LONGEST, "365d"),
        ],
    )
    def test_in_the_largest_whole_unit(self, seconds: float, typed: str) -> None:
        """G-10: a duration is given in the largest unit of which it is a whole number."""
        assert as_typed(seconds) == typed

    @given(st.integers(0, LONGEST))
    def test_formatted_duration_parses_back(self, seconds: int) -> None:
        """The formatted duration parses back to the same value."""
        assert parse_time(as_typed(seconds)) == seconds


class TestWords:
    @pytest.mark.parametrize(
        ("seconds", "words"),
        [
            (900, "15 min"),
            (5400, "1 h 30 min"),
            (172_800, "2 d"),
            (3601, "1 h"),
            (93_784, "1 d 2 h"),
            (59.9, "59 s"),
            (0.25, "0.2 s"),
            (0, "0 s"),
            (-3, "0 s"),
        ],
    )
    def test_two_units_at_most(self, seconds: float, words: str) -> None:
        """Up to two neighbouring units, rounded down; below a second a fraction; empty if over."""
        assert format_duration(seconds) == words
