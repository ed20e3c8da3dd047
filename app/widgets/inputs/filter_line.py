"""Line in which a filter for decisions is typed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from ....engine.history.decisions.filter import LONGEST, DecisionFilter, parse_filter, quoted, time_of
from ...format.text import shown
from ...terminal.bindings import key_binding

TYPING_PAUSE = 0.15
"""Seconds after the last key before the filter is applied."""
DECISIONS = "words, tool: rule: verdict: kind: by: session: agent: result: since:24h until:"


class FilterLine(Horizontal):
    """Line for a filter, hidden until opened. It posts a message when the filter is to be applied.

    Its text stays when it is opened again, since filters are narrowed more often than replaced. A key
    clears it.
    """

    # Before the field, which binds the same keys for scrolling lines.
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "enter",
            "done",
            "list",
            "filter.done",
            "Search for this, and go to what is found",
            priority=True,
        ),
        key_binding(
            "down",
            "leave",
            "down to the list",
            "filter.down",
            "Go to what is found",
            priority=True,
            show=False,
        ),
        key_binding("escape", "clear", "clear", "filter.clear", "Clear the filter, and see all"),
    ]

    DEFAULT_CSS = """
    FilterLine {
        display: none;
        height: 1;
        padding: 0 1;
        background: $boost;
        & Input, & Input:focus { width: 1fr; height: 1; border: none; padding: 0; background: $boost; }
    }
    """

    @dataclass
    class Settled(Message):
        """Typing has paused, or is `done`."""

        done: bool

    @dataclass
    class Cleared(Message):
        """The filter was cleared."""

    def __init__(self, placeholder: str = DECISIONS) -> None:
        super().__init__()
        self._placeholder = placeholder
        self._typing: Timer | None = None
        self._done: str | None = None

    def compose(self) -> ComposeResult:
        yield Input(
            placeholder=self._placeholder,
            id="filter",
            max_length=LONGEST,
            select_on_focus=False,
        )

    @property
    def _line(self) -> Input:
        return self.query_one(Input)

    def open(self) -> None:
        """Show the line, with the cursor at its end."""
        self.display = True
        self._line.focus()
        self._line.action_end()

    def narrow(self, *named: tuple[str, str], anew: bool = False) -> bool:
        """Add `named` keys and values to the filter. With `anew`, replace everything but its times.

        Return `False`, without any change, if a value cannot be typed.
        """
        if not all('"' not in name and shown(name) == name for _, name in named):
            return False
        before = time_of(self._line.value) if anew else self._line.value.strip()
        keys = (f"{key}:{quoted(name)}" for key, name in named)
        self._line.value = " ".join([before, *keys]).strip()
        self.display = True
        self._line.action_end()
        return True

    def close(self) -> None:
        """Clear and hide the line."""
        self._done = None
        self._line.value = ""
        self.display = False

    def typed_filter(self, now: datetime, zone: tzinfo | None) -> DecisionFilter:
        """Return the filter as typed, and cancel a pending `Settled`. Raises `FilterError`."""
        self._hold()
        return parse_filter(self._line.value, now=now, zone=zone)

    @property
    def text(self) -> str:
        """Return the text of the filter."""
        return self._line.value

    def _hold(self) -> None:
        if self._typing is not None:
            self._typing.stop()
            self._typing = None

    @on(Input.Changed)
    def wait(self, message: Input.Changed) -> None:
        """Wait for a pause in typing before a search, unless this text has been applied already."""
        message.stop()
        self._hold()
        if message.value == self._done:
            return
        self._done = None
        self._typing = self.set_timer(TYPING_PAUSE, lambda: self.post_message(self.Settled(done=False)))

    @on(Input.Submitted)
    def submit(self, message: Input.Submitted) -> None:
        message.stop()
        self.action_done()

    def action_done(self) -> None:
        """Apply the filter and focus the results."""
        self._hold()
        self._done = self._line.value
        self.post_message(self.Settled(done=True))

    def action_leave(self) -> None:
        """Focus the results."""
        self.action_done()

    def action_clear(self) -> None:
        """Clear the filter."""
        self.post_message(self.Cleared())
