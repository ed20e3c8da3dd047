"""What every modal of the console is: a framed panel over the screen, closed by escape."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.visual import Visual

from ..widgets.behind import Behind
from .keys import COPY_KEY, FOCUS_KEYS

Answer = TypeVar("Answer")


class Panel(ModalScreen[Answer], inherit_bindings=False):
    """A modal with a frame; `escape` closes it with nothing decided."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *FOCUS_KEYS,
        COPY_KEY,
        Binding("escape", "close", "close", id="panel.close", tooltip="Close without doing anything"),
        # Under a modal the app's own bindings are out of reach.
        Binding(
            "question_mark,f1",
            "app.show_help",
            "help",
            show=False,
            id="panel.help",
            tooltip="The keys that work here",
        ),
        Binding("ctrl+q", "app.quit", "quit", show=False, id="panel.quit", tooltip="Leave the console"),
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

    def render(self) -> Visual:
        """The screen below, dimmed."""
        stack = self.app.screen_stack
        below = stack[stack.index(self) - 1] if self in stack[1:] else stack[0]
        return Behind(below, self.styles.background)

    def action_close(self) -> None:
        """Close the panel; only the screen on top may."""
        if self.is_current:
            self.dismiss(None)
