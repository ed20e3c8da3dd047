"""Text helpers: clipping, wrapping, ages."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from interlock.app.format.text import age, ago, clip, count, duration, glance, pad, spread, width_of, wrap

LETTERS = st.text(alphabet=string.ascii_letters + " -äß漢字🚆", max_size=120)


class TestWidths:
    @given(text=LETTERS, width=st.integers(2, 60))
    def test_wrapping_keeps_every_character_and_fits(self, text: str, width: int) -> None:
        """The folded lines joined are the original line, and none is wider than requested."""
        rows = wrap(text, width)
        assert "".join(rows) == text
        assert all(width_of(row) <= width for row in rows)

    @given(text=LETTERS, width=st.integers(0, 60))
    def test_clipped_text_fits_and_ends_in_an_ellipsis(self, text: str, width: int) -> None:
        """A clipped text ends in an ellipsis and is never wider than requested."""
        clipped = clip(text, width)
        assert width_of(clipped) <= width
        assert clipped == text or width == 0 or clipped.endswith("…")

    @given(text=LETTERS, width=st.integers(1, 60))
    def test_padding_is_exact(self, text: str, width: int) -> None:
        """A padded cell has exactly the width of its column."""
        assert width_of(pad(text, width)) == width

    @given(left=LETTERS, right=st.text(alphabet="0123456789:", max_size=8), width=st.integers(1, 60))
    def test_a_spread_line_never_overflows(self, left: str, right: str, width: int) -> None:
        """Both sides together fit the width."""
        assert spread(Content(left), Content(right), width).cell_length <= width


class TestTimes:
    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [
            (0, "0:00"),
            (42.9, "0:42"),
            (727, "12:07"),
            (3723, "1:02:03"),
            (86_399, "23:59:59"),
            (86_400, "1d 0:00"),
            (180_120, "2d 2:02"),
            (-5, "0:00"),
        ],
    )
    def test_ages(self, seconds: float, shown: str) -> None:
        """Ages have minutes and seconds, with hours or days if needed. None is negative."""
        assert age(seconds) == shown

    @pytest.mark.parametrize(
        ("seconds", "shown"), [(1, "just now"), (40, "40 s ago"), (120, "2 min ago"), (10_800, "3 h ago")]
    )
    def test_past_times_use_the_largest_fitting_unit(self, seconds: float, shown: str) -> None:
        """A past time is given in the largest fitting unit."""
        assert ago(seconds) == shown

    def test_durations_and_counts(self) -> None:
        """Durations have a unit, counts a plural."""
        assert [duration(s) for s in (0.01, 8.44, 125)] == ["<0.1 s", "8.4 s", "2:05"]
        assert [count(n, "request") for n in (0, 1, 2)] == ["0 requests", "1 request", "2 requests"]
        assert count(1204, "session") == "1,204 sessions"


class TestGlance:
    def test_a_lone_string_is_shown_as_it_is(self) -> None:
        """A single string is shown as it is, several fields as JSON."""
        assert glance({"command": "ls -l"}) == "ls -l"
        assert glance({"env": "prod", "n": 2, "to": ["a"]}) == 'env="prod" n=2 to=["a"]'

    def test_long_input_is_cut(self) -> None:
        """A long input is cut, and its line breaks become visible."""
        line = glance({"command": "a\n" + "x" * 1_000_000})
        assert len(line) < 500
        assert "\n" not in line
