"""Past moments as they are typed: in a filter, after `--since` and on the backtest screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.history.model.since import moment

NOW = datetime(2026, 11, 20, 14, 2, 30, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))


class TestMoments:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("30m", NOW - timedelta(minutes=30)),
            ("24h", NOW - timedelta(hours=24)),
            ("7d", NOW - timedelta(days=7)),
            (" 2W ", NOW - timedelta(weeks=2)),
            ("14:01", datetime(2026, 11, 20, 14, 1, tzinfo=UTC)),
            ("14:05", datetime(2026, 11, 19, 14, 5, tzinfo=UTC)),
            ("9:30", datetime(2026, 11, 20, 9, 30, tzinfo=UTC)),
            ("9:30:05", datetime(2026, 11, 20, 9, 30, 5, tzinfo=UTC)),
            ("today", datetime(2026, 11, 20, tzinfo=UTC)),
            ("yesterday", datetime(2026, 11, 19, tzinfo=UTC)),
            ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
            ("2026-03-01T09:30", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
            ("2026-03-01 09:30+02:00", datetime(2026, 3, 1, 7, 30, tzinfo=UTC)),
        ],
    )
    def test_spans_times_and_dates_are_accepted(self, text: str, expected: datetime) -> None:
        """Spans back from now, past times of the day, and dates are accepted."""
        assert moment(text, NOW, UTC) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("16:00", datetime(2026, 11, 20, 14, tzinfo=UTC)),
            ("today", datetime(2026, 11, 19, 22, tzinfo=UTC)),
            ("2026-03-01", datetime(2026, 2, 28, 22, tzinfo=UTC)),
        ],
    )
    def test_without_zone_use_the_operators_zone(self, text: str, expected: datetime) -> None:
        """A time without a zone is in the operator's zone."""
        assert moment(text, NOW, EAST) == expected

    def test_default_to_the_machine_zone(self) -> None:
        """Without a given zone the machine's zone is used."""
        assert moment("2026-03-01", NOW) == datetime(2026, 3, 1).astimezone()


class TestNone:
    @pytest.mark.parametrize("text", ["", "soon", "7", "7y", "-1d", "25:00", "2026-02-30", "1e9"])
    def test_other_text_is_refused_with_accepted_forms(self, text: str) -> None:
        """Other text is refused with the accepted forms."""
        with pytest.raises(ValueError, match=r"is not a time; use 30m, 24h, 7d, 14:05, 2026-11-20 or"):
            moment(text, NOW, UTC)

    @pytest.mark.parametrize("text", ["999999w", "99999999w"])
    def test_span_beyond_the_calendar_is_refused(self, text: str) -> None:
        """A span beyond the calendar is refused."""
        with pytest.raises(ValueError, match="this is too long ago"):
            moment(text, NOW, UTC)

    @given(st.text(max_size=30) | st.from_regex(r"\A[0-9]{1,12}[smhdw]\Z"))
    def test_any_input_gives_moment_or_value_error(self, text: str) -> None:
        """Any input gives a moment with a zone or a `ValueError`."""
        assert _zoned_or_refused(text)


def _zoned_or_refused(text: str) -> bool:
    try:
        return moment(text, NOW, UTC).tzinfo is not None
    except ValueError as error:
        return text.strip() in str(error)
