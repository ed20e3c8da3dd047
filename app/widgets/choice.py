"""A choice of one among a few, on one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ..text import shown

GAP = 3


class Choice(Widget, can_focus=True):
    """`(●) this   ( ) that`: arrows or a click choose. What is chosen has a mark, not only a colour."""

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
    Choice:focus { background: $boost; }
    """
    ALLOW_SELECT: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left,up",
            "turn(-1)",
            "choice before",
            show=False,
            id="choice.before",
            tooltip="The one before",
        ),
        Binding(
            "right,down,space",
            "turn(1)",
            "next choice",
            show=False,
            id="choice.next",
            tooltip="The next one",
        ),
    ]

    chosen: reactive[str] = reactive("")

    @dataclass
    class Changed(Message):
        """Something else was chosen."""

        choice: Choice
        chosen: str

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(self, options: Sequence[tuple[str, str]], *, id: str) -> None:  # noqa: A002 - Textual's own
        super().__init__(id=id)
        self._options = [(name, shown(label)) for name, label in options]
        self.set_reactive(Choice.chosen, self._options[0][0])

    def render(self) -> Content:
        parts: list[Content] = []
        for name, label in self._options:
            here = name == self.chosen
            style = "bold $foreground" if here else "$foreground 60%"
            mark = ("(●) ", "bold $text-accent") if here else ("( ) ", "$foreground 60%")
            parts.append(Content.assemble(mark, (label, style)))
        return Content(" " * GAP).join(parts)

    def watch_chosen(self, chosen: str) -> None:
        self.post_message(self.Changed(self, chosen))

    def action_turn(self, step: int) -> None:
        """Choose the next one, or the one before."""
        names = [name for name, _ in self._options]
        self.chosen = names[(names.index(self.chosen) + step) % len(names)]

    def _on_click(self, event: events.Click) -> None:
        start = 0
        for name, label in self._options:
            end = start + 4 + Content(label).cell_length
            if start <= event.x < end:
                self.chosen = name
                return
            start = end + GAP
