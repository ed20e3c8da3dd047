"""A question before something that cannot be taken back. Nothing is chosen until a key says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ..keymap import hints
from ..text import shown
from .panel import Panel


class Confirm(Panel[bool]):
    """Asks `question`; `y` answers yes, `n` and escape no. Enter answers nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", id="confirm.yes", tooltip="Do it"),
        Binding("n", "answer(False)", "no", id="confirm.no", tooltip="Leave everything as it is"),
    ]

    DEFAULT_CSS = """
    Confirm > .frame { width: auto; max-width: 72; padding: 1 2; border: round $warning; }
    Confirm Static { width: auto; max-width: 100%; }
    """

    def __init__(self, title: str, question: str, details: Sequence[str] = ()) -> None:
        super().__init__()
        self._title = title
        self._question = question
        self._details = details

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = Content(shown(self._title))
            frame.border_subtitle = hints(
                self, ("confirm.yes", "yes"), ("confirm.no", "no"), ("panel.close", "no")
            )
            yield Static(Content.styled(shown(self._question), "bold"))
            for detail in self._details:
                yield Static(Content.styled(shown(detail), "$foreground 60%"))

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        if self.is_current:
            self.dismiss(yes)
