"""Confirmation dialog before an action that cannot be undone.

Nothing is chosen until a key is pressed. The key for yes is inert until the question has been on screen
long enough to be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from ...format.text import MUTED, shown
from ...terminal.bindings import key_binding
from .guarded_keys import ASLEEP
from .panel import Panel

WIDEST = 72


def when_yes(act: Callable[[], object]) -> Callable[[bool | None], None]:
    """Return a callback for a `Confirm` dialog that calls `act` on yes only."""

    def answered(yes: bool | None) -> None:
        if yes:
            act()

    return answered


class Confirm(Panel[bool]):
    """Dialog that shows `question`; `y` answers yes, `n` and escape answer no. Enter answers nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding("y", "answer(True)", "yes", "confirm.yes", "Do it"),
        key_binding("n", "answer(False)", "no", "confirm.no", "Leave everything as it is"),
    ]

    DEFAULT_CSS = """
    Confirm > .frame { width: auto; padding: 1 2; border: round $warning; }
    Confirm Static { width: auto; max-width: 100%; }
    """

    def __init__(self, title: str, question: str, details: Sequence[str] = ()) -> None:
        super().__init__()
        self._title = title
        self._question = question
        self._details = details
        self._shown_at: float | None = None

    def compose(self) -> ComposeResult:
        answers = ("confirm.yes", "yes"), ("confirm.no", "no"), ("panel.close", "no")
        with self.panel_frame(shown(self._title), *answers):
            yield Static(Content.styled(shown(self._question), "bold"))
            for detail in self._details:
                yield Static(Content.styled(shown(detail), MUTED))

    def on_resize(self) -> None:
        """Limit the width to `WIDEST` and to the screen."""
        self.query_one(".frame").styles.max_width = min(WIDEST, self.app.size.width)

    def on_screen_resume(self) -> None:
        """Make the key for yes inert again whenever the question becomes visible."""
        self.fall_asleep()

    def fall_asleep(self) -> None:
        """Make the key for yes inert until the question has been shown long enough."""
        self._shown_at = None
        self.call_after_refresh(self._mark_shown)

    def _mark_shown(self) -> None:
        self._shown_at = self._seconds()

    def _seconds(self) -> float:
        """Return the console's monotonic seconds, or the machine's in an app that has none."""
        monotonic: Callable[[], float] = getattr(self.app, "monotonic", time.monotonic)
        return monotonic()

    def action_answer(self, yes: bool) -> None:
        """Close with the answer.

        A yes that comes too early is ignored, since it was meant for something else.
        """
        shown_at = self._shown_at
        if yes and (shown_at is None or self._seconds() - shown_at < ASLEEP):
            self.app.bell()
        elif self.is_current:
            self.dismiss(yes)
