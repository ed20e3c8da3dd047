"""Input lines and text areas in which pasted text cannot hide anything.

Pasted text may come from an agent. Characters that a terminal interprets or hides become escapes, as
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
    """A screen with a text line that is shown only while it accepts text."""

    @property
    def open_line(self) -> Input | None:
        """Return the line while it is shown."""


class _Pasting(TypedApp):
    """Mixin that handles pasting instead of the widget's own base."""

    def _insert(self, text: str) -> None:
        """Insert `text` at the cursor, with special characters made visible."""
        raise NotImplementedError

    def on_paste(self, event: events.Paste) -> None:
        """Insert text pasted by the terminal."""
        event.prevent_default()
        event.stop()
        self._insert(event.text)

    def action_paste(self) -> None:
        """Insert text copied in the console."""
        self._insert(self.app.clipboard)


class TypedLine(_Pasting, Input):
    """Single line; of pasted text only the first line is inserted."""

    DEFAULT_CSS = """
    TypedLine, TypedLine:focus { height: 1; border: none; padding: 0; background: $panel; }
    """

    def _insert(self, text: str) -> None:
        lines = text.splitlines()
        if lines:
            self.replace(visible(with_certain_width(lines[0])), *sorted(self.selection))


class TypedText(_Pasting, TextArea):
    """Text area of several lines."""

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
