"""Jump to a moment of a replay, given as an event's number or a time."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from ....engine.core.durations import parse_time
from ....engine.history.model.events import JournalEvent
from ...format.times import clock, day, short_day_and_time
from ...terminal.charset import visible
from ..common.panel import Panel

_NUMBER = re.compile(r"#?0*([0-9]{1,12})")
_LATER = re.compile(r"\+([0-9]+)\s*([smhdw]?)", re.IGNORECASE | re.ASCII)
_TIME = re.compile(
    r"(?:(?:(\d{4})-)?(\d{1,2})-(\d{1,2})(?:[ T]+|$))?(?:(\d{1,2}):(\d{2})(?::(\d{2}))?)?", re.ASCII
)


class MomentError(ValueError):
    """Text that does not name an event of this session. The message says what would."""


def find_moment(text: str, recorded: Sequence[JournalEvent], zone: tzinfo | None = None) -> int:
    """Return the number, from 1, of the event that `text` names.

    `31` is an event's number. `14:01` or `14:01:40` is the first event at or after that time. `+90s` or
    `+5m` is relative to the session's start. In a session of several days a date may precede the time or
    stand alone: `2026-11-20` or `11-20`. A time after the last event means the last event. Raises
    `MomentError`.
    """
    text = text.strip()
    total = len(recorded)
    if number := _NUMBER.fullmatch(text):
        if not 1 <= int(number[1]) <= total:
            raise MomentError(f"There is no event {number[1]}; this session has 1 to {total}.")
        return int(number[1])
    if later := _LATER.fullmatch(text):
        moment = _after(recorded[0].at, f"{later[1]}{later[2] or 's'}")
    elif text and (time := _TIME.fullmatch(text)):
        moment = _moment(time, recorded, zone)
    else:
        raise MomentError(
            f"'{visible(text)}' is neither an event's number (1 to {total}) nor a time "
            f"(14:01:40, {_dated(recorded, zone)}+90s)."
        )
    at = bisect_left(recorded, moment, key=lambda event: event.at)
    return min(at + 1, total)


def _after(begin: datetime, typed: str) -> datetime:
    seconds = parse_time(typed)
    later = timedelta.max if seconds is None else timedelta(seconds=seconds)
    try:
        return begin + later
    except OverflowError as error:
        raise MomentError(f"+{typed} is longer than any session; give less.") from error


def _moment(time: re.Match[str], recorded: Sequence[JournalEvent], zone: tzinfo | None) -> datetime:
    """Return the named time; without a date, the first such time not before the session's start."""
    first, last = (recorded[at].at.astimezone(zone) for at in (0, -1))
    year, month, day, hour, minute, second = time.groups()
    try:
        moment = first.replace(hour=int(hour or 0), minute=int(minute or 0), second=int(second or 0))
        moment = moment.replace(microsecond=0)
        if month is not None:
            there = moment.replace(year=int(year or first.year), month=int(month), day=int(day))
            before = year is None and there.date() < first.date()
            return there.replace(year=last.year) if before else there
    except ValueError as error:
        what = "time of day" if month is None else "day"
        like = "14:01:40" if month is None else f"{first:%m-%d} 14:01:40"
        raise MomentError(f"'{time[0]}' is not a {what}; write it like {like}.") from error
    tomorrow = moment + timedelta(days=1)
    if moment < first.replace(second=0, microsecond=0) and tomorrow <= last:
        return tomorrow
    return moment


def ends_of(recorded: Sequence[JournalEvent], zone: tzinfo | None = None) -> tuple[str, str]:
    """Return the first and last time of a session; with their dates if it covers several days."""
    first, last = recorded[0].at, recorded[-1].at
    words = clock if day(first, zone) == day(last, zone) else short_day_and_time
    return words(first, zone), words(last, zone)


def span_words(recorded: Sequence[JournalEvent], zone: tzinfo | None = None) -> str:
    """Return the range of moments as text, such as `1 to 29, 14:00:00 to 14:02:20`."""
    return f"1 to {len(recorded)}, {' to '.join(ends_of(recorded, zone))}"


def _dated(recorded: Sequence[JournalEvent], zone: tzinfo | None) -> str:
    """Return an example with a date for a session of several days, else an empty string."""
    first, last = (day(recorded[at].at, zone) for at in (0, -1))
    return "" if first == last else f"{first[5:]} 14:01, "


class GoToScreen(Panel[int | None]):
    """Panel for an event's number or a time; dismissed with the number, or with `None` on escape."""

    DEFAULT_CSS = """
    GoToScreen > .frame { width: 64; max-width: 95%; }
    GoToScreen Input, GoToScreen Input:focus { height: 1; border: none; padding: 0; background: $boost; }
    GoToScreen Static { height: auto; margin-top: 1; color: $text-muted; }
    """

    def __init__(self, recorded: Sequence[JournalEvent], *, zone: tzinfo | None = None) -> None:
        super().__init__()
        self._recorded = recorded
        self._zone = zone

    def compose(self) -> ComposeResult:
        with self.panel_frame("Go to", "enter go", ("panel.close", "stay")):
            yield Input(placeholder="event number or time", id="moment")
            span = span_words(self._recorded, self._zone)
            yield Static(Content(f"{span}, or +90s after the start"), id="hint")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def go(self, message: Input.Submitted) -> None:
        try:
            number = find_moment(message.value, self._recorded, self._zone)
        except MomentError as error:
            self.query_one("#hint", Static).update(Content.styled(str(error), "$text-error"))
            return
        if self.is_current:
            self.dismiss(number)
