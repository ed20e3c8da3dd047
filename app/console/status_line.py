"""Lines at the top of every screen that report a state of the hub, while it lasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Generic, TypeVar

from textual.app import App
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

LOOKS_PER_SECOND = 2

State = TypeVar("State")


class StatusLine(Widget, Generic[State]):
    """A line that reports `state`. On a dialog it overlays the screen below."""

    DEFAULT_CSS = """
    StatusLine {
        dock: top; padding: 0 1; text-style: bold;
        &.-over { layer: _loading; }
    }
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state

    def update_on(self, screen: Screen[object]) -> None:
        """Adapt the line, whose state is still current, to a screen and the time."""


class StatusDisplay(ABC, Generic[State]):
    """Shows a `StatusLine` on every screen of `app`, including screens opened later."""

    def __init__(self, app: App[None], kind: type[StatusLine[State]]) -> None:
        self._app = app
        self._kind = kind

    @abstractmethod
    def _state(self) -> State | None:
        """Return the state to report, or `None`. May raise any error of the hub."""

    @abstractmethod
    def _line(self, state: State) -> StatusLine[State]:
        """Return a new line."""

    def begin(self) -> None:
        """Start to follow the hub. Polls, because not every hub reports changes."""
        self._app.set_interval(1 / LOOKS_PER_SECOND, self.look)
        self._app.call_after_refresh(self.look)

    async def look(self) -> None:
        """Update the line on every screen to the current state."""
        state: State | None = None
        with suppress(Exception):  # The screens show the hub's error.
            state = self._state()
        for screen in list(self._app.screen_stack):
            if not screen.is_mounted:
                continue
            lines = list(screen.query(self._kind))
            if [line.state for line in lines] == ([] if state is None else [state]):
                for line in lines:
                    line.update_on(screen)
                continue
            for line in lines:
                await line.remove()
            if state is not None:
                line = self._line(state)
                line.set_class(isinstance(screen, ModalScreen), "-over")
                line.update_on(screen)
                await screen.mount(line, before=0)
