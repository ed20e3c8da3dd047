"""Lengths of time: what is typed, and what is said."""

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
        """A whole number and one of five units, whatever their case and the spaces around them."""
        assert parse_time(typed) == seconds

    @pytest.mark.parametrize(
        "typed", ["", "90", "d", "-1d", "1.5d", "1y", "15min", "1h 30m", "٣m", "1ſ", "9" * 5000 + "s"]
    )
    def test_nothing_else(self, typed: str) -> None:
        """No fractions, no signs, no other digits or letters, and not so many digits."""
        assert parse_time(typed) is None

    @given(st.integers(0, 99_999_999), st.sampled_from([*UNITS]))
    def test_fits_what_counts_time(self, number: int, unit: str) -> None:
        """Whatever is read can be a `timedelta`."""
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
        """G-10: a time is given in the largest unit that it is a whole number of."""
        assert as_typed(seconds) == typed

    @given(st.integers(0, LONGEST))
    def test_is_read_as_what_it_was(self, seconds: int) -> None:
        """What is written can be typed, and means the same."""
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
        """Neighbouring units, rounded down; below a second a fraction, and nothing where it is over."""
        assert format_duration(seconds) == words
