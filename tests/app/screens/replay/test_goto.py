"""Finding an event by its number or a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from interlock.app.screens.replay.goto import MomentError, find_moment, span_words
from interlock.engine.history.model.events import JournalEvent, SessionStatus

from .recording import recording

RECORDED = recording()


class TestFindMoment:
    """The inputs of an operator and the events that they select."""

    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("1", 1),
            (" 12 ", 12),
            ("#29", 29),
            ("14:00", 1),
            ("14:00:05", 2),
            ("14:00:06", 3),
            ("2026-11-20 14:01", 13),
            ("11-20 14:01", 13),
            ("2026-11-20", 1),
            ("11-21", 29),
            ("13:00", 1),
            ("23:59", 29),
            ("+90s", 19),
            ("+1m", 13),
            ("+2h", 29),
            ("+1 M", 13),
            ("+1d", 29),
        ],
    )
    def test_number_or_time_selects_an_event(self, text: str, number: int) -> None:
        """A number selects that event. A time selects the first event from then on, or the last event."""
        assert find_moment(text, RECORDED, UTC) == number

    @pytest.mark.parametrize(
        "text", ["", "0", "30", "soon", "25:00", "14:61", "-3", "[red]x", "+5x", "13-40"]
    )
    def test_invalid_input_is_refused_with_examples(self, text: str) -> None:
        """An input that selects no event is refused with a message that shows valid ones."""
        with pytest.raises(MomentError, match=r"1 to 29|14:01:40"):
            find_moment(text, RECORDED, UTC)

    @pytest.mark.parametrize("text", ["+99999999h", "+99999999w", "+" + "9" * 5000])
    def test_too_long_time_is_refused(self, text: str) -> None:
        """A time too long after the beginning is refused."""
        with pytest.raises(MomentError, match="longer than any session"):
            find_moment(text, RECORDED, UTC)

    def test_number_of_many_digits_is_refused(self) -> None:
        """A number of very many digits is refused without parsing."""
        with pytest.raises(MomentError, match="neither an event's number"):
            find_moment("9" * 5000, RECORDED, UTC)

    def test_time_is_in_the_operators_zone(self) -> None:
        """A time is read in the operator's zone."""
        assert find_moment("16:00:05", RECORDED, timezone(timedelta(hours=2))) == 2

    def test_time_before_start_is_on_the_next_day(self) -> None:
        """For a session that ran over midnight, a time before its start is the next day's."""
        start = datetime(2026, 11, 20, 23, 50, tzinfo=UTC)
        body = SessionStatus(status="running")
        late = [
            JournalEvent(cursor=n, session="s", seq=n, at=start + timedelta(minutes=10 * n), body=body)
            for n in range(1, 5)
        ]
        assert find_moment("00:15", late, UTC) == 3


class TestSeveralDays:
    """A session that ran for days, over the turn of the year."""

    DAYS = tuple(
        JournalEvent(
            cursor=n,
            session="s",
            seq=n,
            at=datetime(2026, 12, 30, 9, 0, tzinfo=UTC) + timedelta(hours=12 * (n - 1)),
            body=SessionStatus(status="running"),
        )
        for n in range(1, 7)
    )

    @pytest.mark.parametrize(
        ("text", "number"), [("12-31 09:00", 3), ("01-01", 5), ("2027-01-01 10:00", 6)]
    )
    def test_day_without_year_is_a_day_of_the_session(self, text: str, number: int) -> None:
        """A day without a year is a day of the session."""
        assert find_moment(text, self.DAYS, UTC) == number

    def test_refusal_and_dialog_show_a_date(self) -> None:
        """For a session of several days the refusal and the dialog show a date."""
        with pytest.raises(MomentError, match=r"a time \(14:01:40, 12-30 14:01, \+90s\)"):
            find_moment("soon", self.DAYS, UTC)
        assert span_words(self.DAYS, UTC) == "1 to 6, 12-30 09:00 to 01-01 21:00"
        assert span_words(RECORDED, UTC) == "1 to 29, 14:00:00 to 14:02:20"
