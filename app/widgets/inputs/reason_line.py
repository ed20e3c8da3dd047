"""Line for a denial's reason, with preset reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ...format.text import MUTED, clip, in_rows, shown, wrap_all
from ..base.typed_app import TypedApp
from .safe_input import TypedLine

ROWS = 3
"""Maximum lines of the presets."""


class ReasonLine(TypedApp, Vertical):
    """Line for a reason, initially closed. The number of a preset, typed alone, means that preset."""

    DEFAULT_CSS = """
    ReasonLine {
        height: auto; padding: 0 2;
        & > Horizontal { height: 1; }
        & #reason-label { width: auto; }
        & #reason { width: 1fr; }
        & #presets, & #stops { height: auto; }
    }
    """

    @dataclass
    class Denied(Message):
        """Enter was pressed: the reason, if any, and whether the agent is to be stopped as well."""

        reason: str | None
        stopping: bool

    @dataclass
    class Typed(Message):
        """Something was typed."""

    def __init__(self, presets: Sequence[str]) -> None:
        super().__init__(id="reason-line")
        self._presets = presets
        self._line = TypedLine(placeholder="optional; the agent sees it", id="reason")
        self._label = Static("", id="reason-label")
        self._list = Static("", id="presets")
        self._stops = Static("", id="stops")
        self.stop = False
        self._stop_note = ""
        self.display = False

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self._label
            yield self._line
        yield self._list
        yield self._stops

    @property
    def is_open(self) -> bool:
        return self.display

    @property
    def input(self) -> Input:
        """Return the input line in which the reason is typed."""
        return self._line

    def open(self, *, stop: bool, agent: str) -> None:
        """Open the line; with `stop` the `agent` is stopped as well."""
        self.stop = stop
        self._label.update(
            Content.styled("Deny and stop, reason " if stop else "Reason ", "bold $text-warning")
        )
        self._stop_note = f"Enter denies it and stops {shown(agent)}; its other requests are withdrawn."
        self._stops.update(Content.styled(self._stop_note if stop else "", "bold $text-warning"))
        self._stops.display = stop
        self.display = True
        self._show_presets()

    def close(self) -> None:
        self.display = False

    def clear(self) -> None:
        """Clear and close the line."""
        self._line.value = ""
        self.close()

    def height_for(self, width: int) -> int:
        """Return the number of lines needed."""
        if not self.display:
            return 0
        stops = len(wrap_all([self._stop_note], max(1, width - 4))) if self.stop else 0
        return 1 + stops + len(self._rows(width))

    def on_resize(self) -> None:
        self._show_presets()

    def _rows(self, width: int) -> list[Content]:
        if not self._presets:
            return []
        typed = self._line.value.strip()
        pieces: list[Content] = []
        for number, text in enumerate(self._presets, 1):
            chosen = typed == str(number)
            style = "bold $foreground" if chosen else MUTED
            mark = "▸" if chosen else " "
            pieces.append(
                Content.assemble(
                    (f"{mark}{number} ", "bold $text-accent"),
                    (clip(shown(text), max(8, width - 8)), style),
                )
            )
        return in_rows(pieces, width - 4)[:ROWS]

    def _show_presets(self) -> None:
        rows = self._rows(self.size.width or self.app.size.width)
        self._list.display = bool(rows)
        self._list.update(Content("\n").join(rows))

    @property
    def reason(self) -> str | None:
        """Return the typed reason, or the preset whose number was typed; `None` if empty."""
        typed = self._line.value.strip()
        numbers = {str(n): text for n, text in enumerate(self._presets, 1)}
        return numbers.get(typed, typed) or None

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show_presets()
        self.post_message(self.Typed())

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Denied(self.reason, self.stop))
