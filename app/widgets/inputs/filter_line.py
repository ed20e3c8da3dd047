"""The line that a filter of decisions is typed into."""

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
"""Seconds after a key before it is searched."""
DECISIONS = "words, tool: rule: verdict: kind: by: session: agent: result: since:24h until:"


class FilterLine(Horizontal):
    """Line for a filter, hidden until opened; posts a message when its filter is to be searched for.

    Its text stays when it is opened again: one narrows a filter more often than one begins another, and a
    key clears it.
    """

    # Before the field, which has keys of its own for lines that scroll.
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
        """Nobody types for a moment, or is `done` with it."""

        done: bool

    @dataclass
    class Cleared(Message):
        """Everything is wanted again."""

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
        """Show it, and type where it ends."""
        self.display = True
        self._line.focus()
        self._line.action_end()

    def narrow(self, *named: tuple[str, str], anew: bool = False) -> bool:
        """Add what is `named`, each with its key, to the filter; with `anew` replace all but its time.

        False, without any change, where a name cannot be typed.
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
        """Empty it and put it away."""
        self._done = None
        self._line.value = ""
        self.display = False

    def typed_filter(self, now: datetime, zone: tzinfo | None) -> DecisionFilter:
        """The filter as typed, to be searched for at once. Raises `FilterError`."""
        self._hold()
        return parse_filter(self._line.value, now=now, zone=zone)

    @property
    def text(self) -> str:
        """The filter as it stands there."""
        return self._line.value

    def _hold(self) -> None:
        if self._typing is not None:
            self._typing.stop()
            self._typing = None

    @on(Input.Changed)
    def wait(self, message: Input.Changed) -> None:
        """Wait for a pause in typing before a search, unless the line was searched for as it is."""
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
        """Search, and go to what is found."""
        self._hold()
        self._done = self._line.value
        self.post_message(self.Settled(done=True))

    def action_leave(self) -> None:
        """Go to what is found."""
        self.action_done()

    def action_clear(self) -> None:
        """Everything again."""
        self.post_message(self.Cleared())
