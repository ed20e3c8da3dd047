"""Base of every modal dialog of the console: a framed panel over the screen, closed by escape."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, TypeVar

from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.visual import Visual
from textual.widgets import Static

from ...terminal.ascii_filter import UnfilteredWidget
from ...terminal.bindings import COPY_KEY, FOCUS_KEYS, HELP_KEY, LEAVE_KEY, key_binding
from ...terminal.keymap import hints
from ...widgets.base.backdrop import Backdrop
from .deferred_paint import SettledScreen

Answer = TypeVar("Answer")


class Panel(UnfilteredWidget, SettledScreen[Answer], ModalScreen[Answer], inherit_bindings=False):
    """Modal with a frame. `escape` closes it without a decision."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *FOCUS_KEYS,
        COPY_KEY,
        key_binding("escape", "close", "close", "panel.close", "Close without doing anything"),
        # The app's bindings do not reach a modal.
        replace(HELP_KEY, show=False),
        replace(LEAVE_KEY, priority=False),
    ]

    DEFAULT_CSS = """
    Panel {
        align: center middle;
        background: $background 60%;
        & > .frame {
            width: 90%;
            max-width: 118;
            height: auto;
            max-height: 94%;
            border: round $primary;
            border-title-color: $text-primary;
            border-title-style: bold;
            border-subtitle-color: $foreground 60%;
            background: $surface;
            padding: 0 1;
        }
        & BlockList { height: auto; max-height: 1fr; background: $surface; }
    }
    """

    _backdrop: Backdrop | None = None

    def panel_frame(self, title: str, *parts: tuple[str, str] | str) -> Vertical:
        """Return the frame with its title and with hints on the panel's keys; see `hints`."""
        frame = Vertical(classes="frame")
        frame.border_title = Content(title)
        frame.border_subtitle = hints(self, *parts)
        return frame

    def show_text(self, selector: str, text: str, style: str) -> None:
        """Show text in the panel's `Static` that `selector` matches."""
        static = self.query_one(selector, Static)
        static.update(Content.styled(text, style))
        static.display = True

    # Textual paints whatever a widget's `render` returns, also for a screen.
    def render(self) -> Visual:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the screen below, dimmed."""
        stack = self.app.screen_stack
        below = stack[stack.index(self) - 1] if self in stack[1:] else stack[0]
        if self._backdrop is None or not self._backdrop.covers(below, self.styles.background):
            self._backdrop = Backdrop(below, self.styles.background)
        return self._backdrop

    def action_close(self) -> None:
        """Close the panel if it is the top screen; only the top screen may be dismissed."""
        if self.is_current:
            self.dismiss(None)
