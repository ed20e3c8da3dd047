"""What every modal of the console is: a framed panel over the screen, closed by escape."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

Answer = TypeVar("Answer")


class Panel(ModalScreen[Answer]):
    """A modal with a frame; `escape` closes it with nothing decided."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close", id="panel.close", tooltip="Close without doing anything"),
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

    def action_close(self) -> None:
        """Close the panel; only the screen on top may."""
        if self.is_current:
            self.dismiss(None)
