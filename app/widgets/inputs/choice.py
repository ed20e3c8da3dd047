"""Choice of one among a few options, on one line or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ...format.text import MUTED, clip, shown
from ...terminal.bindings import key_binding

GAP = 3
MARK = 4


class Choice(Widget, can_focus=True):
    """Options such as `(●) this   ( ) that`, chosen by arrow keys or a click. A mark, not only colour,
    shows the choice.

    With `folds`, options that do not fit are wrapped. Initially there may be no choice.
    """

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
    Choice.-folds { height: auto; }
    Choice:focus { background: $boost; }
    """
    ALLOW_SELECT: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        key_binding(
            "left,up", "turn(-1)", "previous choice", "choice.before", "The previous one", show=False
        ),
        key_binding(
            "right,down,space", "turn(1)", "next choice", "choice.next", "The next one", show=False
        ),
    ]

    chosen: reactive[str] = reactive("")

    @dataclass
    class Changed(Message):
        """Another option was chosen."""

        choice: Choice
        chosen: str

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(
        self,
        options: Sequence[tuple[str, str]],
        *,
        id: str,  # noqa: A002 - Textual's own
        folds: bool = False,
    ) -> None:
        super().__init__(id=id, classes="-folds" if folds else None)
        self._folds = folds
        self._options = [(name, shown(label)) for name, label in options]
        self.set_reactive(Choice.chosen, self._options[0][0])

    def _rows(self, width: int) -> list[list[tuple[str, str]]]:
        """Return the options of each line."""
        rows: list[list[tuple[str, str]]] = [[]]
        used = 0
        for name, label in self._options:
            cells = MARK + Content(label).cell_length
            if self._folds and rows[-1] and used + cells > width:
                rows.append([])
                used = 0
            rows[-1].append((name, label))
            used += cells + GAP
        return rows

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return len(self._rows(width))

    def render(self) -> Content:
        return Content("\n").join(
            Content(" " * GAP).join(self._option(*each) for each in row)
            for row in self._rows(self.content_size.width)
        )

    def _option(self, name: str, label: str) -> Content:
        if name == self.chosen:
            return Content.assemble(("(●) ", "bold $text-accent"), (label, "bold $foreground"))
        return Content.assemble(("( ) ", MUTED), (label, MUTED))

    def watch_chosen(self, chosen: str) -> None:
        self.post_message(self.Changed(self, chosen))

    def action_turn(self, step: int) -> None:
        """Choose the next or previous option."""
        names = [name for name, _ in self._options]
        # Without a choice, the first step forward goes to the first option, the first step back to the
        # last.
        here = names.index(self.chosen) if self.chosen in names else min(-step, 0)
        self.chosen = names[(here + step) % len(names)]

    def on_click(self, event: events.Click) -> None:
        rows = self._rows(self.content_size.width)
        start = 0
        for name, label in rows[min(event.y, len(rows) - 1)]:
            end = start + MARK + Content(label).cell_length
            if start <= event.x < end:
                self.chosen = name
                return
            start = end + GAP


# Choice among a few options, each with a number key.


LONGEST = 60
"""Maximum width of an option in cells."""
MOST = 9
"""Maximum number of options with a number key."""


class Numbered(Choice):
    """Options such as `(●) 1 low   ( ) 2 high`; `chosen` may be empty, or not one of the options."""

    def __init__(
        self,
        options: Sequence[tuple[str, str]],
        chosen: str,
        *,
        id: str,  # noqa: A002 - Textual's own
    ) -> None:
        numbered = [
            (name, clip(f"{number} {label}" if number <= MOST else label, LONGEST))
            for number, (name, label) in enumerate(options, 1)
        ]
        super().__init__(numbered, id=id, folds=True)
        self._names = [name for name, _ in options]
        self.set_reactive(Choice.chosen, chosen)

    def on_key(self, event: events.Key) -> None:
        """Choose the option with the number of a digit key."""
        if event.character is None or event.character not in "123456789":
            return
        number = int(event.character)
        if number <= len(self._names):
            event.stop()
            self.chosen = self._names[number - 1]
