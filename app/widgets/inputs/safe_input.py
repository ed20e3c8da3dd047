"""Lines and texts to type into, where what is pasted can hide nothing.

A paste may come from what an agent wrote: characters that a terminal obeys or hides become escapes, as
everywhere else, so that what is read is what is sent.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from textual import events
from textual.widgets import Input, TextArea

from ....engine.core.sanitize import visible
from ...terminal.charset import with_certain_width
from ..base.typed_app import TypedApp


@runtime_checkable
class TakesText(Protocol):
    """A screen with a line that is shown only while it takes what is typed."""

    @property
    def open_line(self) -> Input | None:
        """The line, while it is shown."""


class _Pasting(TypedApp):
    """Takes pasting away from the widget it is put before."""

    def _insert(self, text: str) -> None:
        """Put `text`, made visible, where the cursor is."""
        raise NotImplementedError

    def on_paste(self, event: events.Paste) -> None:
        """Insert what the terminal pastes."""
        event.prevent_default()
        event.stop()
        self._insert(event.text)

    def action_paste(self) -> None:
        """Insert what was copied in the console."""
        self._insert(self.app.clipboard)


class TypedLine(_Pasting, Input):
    """One line; of what is pasted the first."""

    DEFAULT_CSS = """
    TypedLine, TypedLine:focus { height: 1; border: none; padding: 0; background: $panel; }
    """

    def _insert(self, text: str) -> None:
        lines = text.splitlines()
        if lines:
            self.replace(visible(with_certain_width(lines[0])), *sorted(self.selection))


class TypedText(_Pasting, TextArea):
    """Several lines."""

    DEFAULT_CSS = """
    TypedText, TypedText:focus {
        height: auto; min-height: 1; max-height: 12; border: none; padding: 0; background: $panel;
    }
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False)
        self.match_cursor_bracket = False

    def _insert(self, text: str) -> None:
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        result = self.replace(visible(with_certain_width(lines), keep_newlines=True), *self.selection)
        self.move_cursor(result.end_location)
