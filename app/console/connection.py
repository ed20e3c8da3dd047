"""Display of a console's connection to a server: a line on every screen while the connection is lost."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ..format.text import shown
from ..terminal.charset import to_charset

CHECKS_PER_SECOND = 5
CONSEQUENCES = (
    ". You see the last known state; nothing can be decided.",
    ". Nothing can be decided.",
    "",
)


class ConnectionLine(Widget):
    """Line over the first line of a screen until the connection is back.

    The layout below does not move.
    """

    DEFAULT_CSS = """
    ConnectionLine {
        layer: _loading; dock: top; height: 1; padding: 0 1;
        background: $error; color: $text; text-style: bold;
    }
    """

    def __init__(self, server: str, trouble: str) -> None:
        super().__init__()
        self._text = f"{to_charset('✗')} {shown(server)}: {shown(trouble)}"

    def render(self) -> Content:
        width = self.content_size.width
        lines = [Content(self._text + consequence) for consequence in CONSEQUENCES]
        fitting = next((line for line in lines if line.cell_length <= width), lines[-1])
        return fitting.truncate(width, ellipsis=True)


class ConnectionDisplay:
    """Shows a `ConnectionLine` on every screen of `app`, including screens opened later.

    `server` returns the name of the server whose connection is lost, since a console may have switched to
    another one.
    """

    def __init__(self, app: App[None], server: Callable[[], str]) -> None:
        self._app = app
        self._server = server
        self._trouble: str | None = None
        self._lines: list[ConnectionLine] = []
        self._timer: Timer | None = None

    async def show(self, trouble: str | None) -> None:
        """Show the reason `trouble`, or remove the line if it is `None`."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        lines, self._lines = self._lines, []
        for line in lines:
            if line.is_attached:
                await line.remove()
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if trouble is not None:
            await self._look()
            self._timer = self._app.set_interval(1 / CHECKS_PER_SECOND, self._look)

    async def _look(self) -> None:
        """Add the line to every screen that does not have one."""
        for screen in self._app.screen_stack if self._trouble is not None else ():
            if screen.is_mounted and not screen.query(ConnectionLine):
                line = ConnectionLine(self._server(), self._trouble or "")
                self._lines.append(line)
                await screen.mount(line)
