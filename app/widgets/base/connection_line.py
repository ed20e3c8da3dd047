"""The line that says, on every screen, that the connection to the server is lost."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from ...format.text import shown
from ...terminal.charset import ours

MEANS = (
    ". What is shown is what was known last; nothing can be decided.",
    ". Nothing can be decided.",
    "",
)


class ConnectionLine(Widget):
    """Lies over the first line of a screen until the connection is back: nothing moves under a key."""

    DEFAULT_CSS = """
    ConnectionLine {
        layer: _loading; dock: top; height: 1; padding: 0 1;
        background: $error; color: $text; text-style: bold;
    }
    """

    def __init__(self, place: str, trouble: str) -> None:
        super().__init__()
        self._text = f"{ours('✗')} {shown(place)}: {shown(trouble)}"

    def render(self) -> Content:
        width = self.content_size.width
        said = [Content(self._text + rest) for rest in MEANS]
        fitting = next((each for each in said if each.cell_length <= width), said[-1])
        return fitting.truncate(width, ellipsis=True)
