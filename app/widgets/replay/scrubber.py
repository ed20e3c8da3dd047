"""Scrubber: a session as one line, with the position and marks for blocks and approvals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.geometry import clamp
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ...terminal.symbols import SHADOW
from ...viewmodels.marks import Mark

SYMBOLS: Mapping[Mark, str] = {
    "block": "■",
    "would-block": SHADOW.symbol,
    "approval": "◐",
    "would-ask": SHADOW.symbol,
    "off": "○",
}
STYLES: Mapping[Mark, str] = {
    "block": "$text-error bold",
    "would-block": f"{SHADOW.style} bold",
    "approval": "$text-warning bold",
    "would-ask": f"{SHADOW.style} bold",
    "off": "$text-warning bold",
}
LEGEND: Mapping[Mark, str] = {
    "block": "blocked",
    "would-block": "would block",
    "approval": "asked",
    "would-ask": "would ask",
    "off": "rule off",
}
_RANK: Mapping[Mark, int] = {mark: rank for rank, mark in enumerate(SYMBOLS)}


class Scrubber(Widget):
    """`total` events on one line; a click or a drag requests the event under the pointer."""

    DEFAULT_CSS = """
    Scrubber { height: 2; width: 1fr; }
    """

    ALLOW_SELECT: ClassVar[bool] = False
    position = reactive(0)

    @dataclass
    class Chosen(Message):
        """The pointer selected event number `position`, from 1."""

        scrubber: Scrubber
        position: int

    def __init__(
        self,
        total: int,
        marks: Mapping[int, Mark],
        *,
        start: str = "",
        end: str = "",
    ) -> None:
        super().__init__(id="scrubber")
        self._dragging = False
        self.renew(total, marks, (start, end))

    def renew(self, total: int, marks: Mapping[int, Mark], ends: tuple[str, str]) -> None:
        """Set the number of events, the marks, and the times at both ends."""
        self._total = total
        self._marks = marks
        self._ends = ends
        self._cells: dict[int, dict[int, int]] = {}
        counts: Counter[Mark] = Counter(marks.values())
        self._legend = "   ".join(f"{SYMBOLS[m]} {counts[m]} {LEGEND[m]}" for m in SYMBOLS if counts[m])
        self.refresh()

    def render(self) -> Content:
        width = self.size.width
        if width < 4:
            return Content("")
        return Content("\n").join([self._track(width), self._labels(width)])

    def _track(self, width: int) -> Content:
        """Return `├────■──◐──●──┤`; in a shared cell, a block hides other marks."""
        marked: dict[int, Mark] = {
            column: self._marks[number] for column, number in self._marked(width).items()
        }
        cells = {column: (SYMBOLS[mark], STYLES[mark]) for column, mark in marked.items()}
        here = self.column(self.position, width) if self.position else None
        if here is not None:
            cells[here] = ("●", "$text-accent bold")
        parts: list[tuple[str, str]] = []
        for column in range(width):
            fallback = "├" if column == 0 else "┤" if column == width - 1 else "─"
            travelled = here is not None and column <= here
            parts.append(cells.get(column, (fallback, "$accent" if travelled else "$foreground 40%")))
        return Content.assemble(*parts)

    def _marked(self, width: int) -> Mapping[int, int]:
        """Return the marked event of each cell of `width`: the first block, else the first of another
        kind.

        Computed once per width, since there may be too many marks to scan at every step.
        """
        if width not in self._cells:
            cells: dict[int, int] = {}
            for number, mark in self._marks.items():
                there = cells.setdefault(self.column(number, width), number)
                if _RANK[mark] < _RANK[self._marks[there]]:
                    cells[self.column(number, width)] = number
            self._cells = {width: cells}
        return self._cells[width]

    def _labels(self, width: int) -> Content:
        start, end = self._ends
        middle = width - len(start) - len(end)
        if middle < 2:
            return Content.styled(start[:width], "$text-muted")
        legend = self._legend if len(self._legend) + 2 <= middle else ""
        return Content.assemble(
            (start, "$text-muted"), (legend.center(middle), "$foreground"), (end, "$text-muted")
        )

    def column(self, number: int, width: int) -> int:
        """Return the cell of event `number` on a track of `width` cells."""
        if self._total < 2:
            return 0
        return round((clamp(number, 1, self._total) - 1) * (width - 1) / (self._total - 1))

    def number_at(self, column: int, width: int) -> int:
        """Return the event at cell `column` of `width`: a marked one if there, else the nearest."""
        column = clamp(column, 0, max(0, width - 1))
        if self._total < 2 or width < 2:
            return self._total
        marked = self._marked(width).get(column)
        if marked is not None:
            return marked
        nearest = 1 + round(column * (self._total - 1) / (width - 1))
        if self.column(nearest, width) == column:
            return nearest
        return next((n for n in (nearest - 1, nearest + 1) if self.column(n, width) == column), nearest)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragging = True
        self.capture_mouse()
        self._choose(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self._choose(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._dragging = False
        self.release_mouse()

    def _choose(self, event: events.MouseEvent) -> None:
        offset = event.get_content_offset_capture(self)
        number = self.number_at(offset.x, self.size.width)
        if self._total and number != self.position:
            self.post_message(self.Chosen(self, number))
