"""Base of panels over the approval dialog that decide about the same request while it is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.content import Content

from ....engine.history.model.state import ApprovalState
from ...format.text import shown
from ...terminal.keymap import hints
from ...widgets.base.greyed_keys import Parameters
from ..common.guarded_keys import Answer, GuardedKeys


class RequestPanel(GuardedKeys[Answer]):
    """Panel with a frame, and in it a line `#said` for messages.

    `DECIDES` is the deciding action, its binding id and its label. `BACK` is the label for escape.
    """

    DECIDES: ClassVar[tuple[str, str, str]]
    BACK: ClassVar[str] = "go back"

    def __init__(self, request: ApprovalState, monotonic: Callable[[], float], quiet: float) -> None:
        super().__init__(monotonic, quiet)
        self.request = request
        self.over = False
        self._ending = ""

    def tick(self) -> None:
        """Show what the keys do, or that they are inert."""
        if not self.is_mounted:
            return
        _, binding, words = self.decides
        ways = hints(self, ("panel.close", self.BACK))
        if not self.over:
            ways = self.how() + hints(self, (binding, words)) + " · " + ways
        self.query_one(".frame").border_subtitle = self.sleep_note() or ways

    @property
    def decides(self) -> tuple[str, str, str]:
        """Return the deciding action, its binding id, and the label for its effect now."""
        return self.DECIDES

    def how(self) -> Content:
        """Return hints for choosing, shown before the hint of the deciding key."""
        return Content("")

    def say(self, text: str, *, bad: bool = True) -> None:
        self.show_text("#said", shown(text), "bold $text-error" if bad else "bold $text-warning")

    def request_over(self, text: str) -> None:
        """Disable decisions here: the request is no longer open, or has changed."""
        self.over = True
        self._ending = text
        self.fall_asleep()
        self.say(text, bad=False)
        self.refresh_bindings()

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return why the deciding action is not possible: the request is over."""
        return self._ending if self.over and action == self.DECIDES[0] else None
