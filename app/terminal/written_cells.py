"""Cells of a terminal as they were last written, so that of a change only the cells that differ are.

Textual paints a widget of which anything changed as a whole: every row of every pane, once a second,
where one clock has moved on. A paint of the whole screen is written as it is, which also repairs what
another program has written there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

GAP = 6
"""Cells between changed ones that are written along: a step over them takes more bytes."""

Cell = tuple[str, str]
"""A character with the codes of its style."""


class WrittenCells:
    """Memory of the cells of one terminal. A cell that it does not know is written."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Cell | None]] = {}

    def forget(self) -> None:
        """Have everything written again: others may have written to the terminal."""
        self._rows.clear()

    def changes(self, update: CompositorUpdate) -> CompositorUpdate:
        """The update reduced to cells that differ once it is written, and are remembered from then on."""
        return _Changes(self, update) if isinstance(update, ChopsUpdate | LayoutUpdate) else update

    def write(self, x: int, y: int, strip: Strip, console: Console) -> str:
        """The sequences that bring a row to `strip` from column `x` on."""
        length = strip.cell_length
        cells = _cells(strip, console)
        row = self._rows.setdefault(y, [])
        row.extend([None] * (x + length - len(row)))
        before = row[x : x + length]
        if before == cells:
            return ""
        row[x : x + length] = cells
        if not _is_even(strip.text):
            # Terminals disagree about such characters: nothing in this row is certain behind them.
            del row[x + length :]
            return _placed(x, y, strip, console)
        return "".join(
            _placed(x + start, y, strip.crop(start, end), console) for start, end in _runs(before, cells)
        )


class _Changes(CompositorUpdate):
    """An update of which only what differs from the cells in memory is written."""

    def __init__(self, memory: WrittenCells, update: ChopsUpdate | LayoutUpdate) -> None:
        self._memory = memory
        self._update = update

    def render_segments(self, console: Console) -> str:
        if isinstance(self._update, LayoutUpdate):
            self._memory.forget()
        return "".join(self._memory.write(x, y, strip, console) for x, y, strip in _pieces(self._update))


def _pieces(update: ChopsUpdate | LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Column, row and text of each part of an update, as Textual writes them."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in strips:
                yield x, y, strip
                x += strip.cell_length
        return
    for y, start, end in update.spans:
        for stop, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= end and stop > start:
                yield x, y, strip if x >= start and stop <= end else strip.crop(0, min(stop, end) - x)


def _cells(strip: Strip, console: Console) -> list[Cell | None]:
    """A cell for each column of a strip; of an uneven one all are the same, and only it has them."""
    if not _is_even(strip.text):
        return [(strip.render(console), "")] * strip.cell_length
    colors = console._color_system or ColorSystem.TRUECOLOR  # pyright: ignore[reportPrivateUsage] - as Textual
    found: list[Cell | None] = []
    for text, style, _ in strip:
        codes = ""
        if style is not None:
            codes = Strip.render_ansi(style, colors) + (style.link or "")
        found += [(character, codes) for character in text]
    return found


def _is_even(text: str) -> bool:
    """Tell whether every character is certain to take one cell."""
    if text.isascii():
        return text.isprintable()
    return all(each.isprintable() and get_character_cell_size(each) == 1 for each in set(text))


def _runs(before: Sequence[Cell | None], cells: Sequence[Cell | None]) -> Iterator[tuple[int, int]]:
    """Ranges of cells that differ, those that are close to each other as one."""
    start = end = -1
    for index, (old, new) in enumerate(zip(before, cells, strict=True)):
        if old == new:
            continue
        if start >= 0 and index - end > GAP:
            yield start, end
            start = -1
        start, end = (index if start < 0 else start), index + 1
    if start >= 0:
        yield start, end


def _placed(x: int, y: int, strip: Strip, console: Console) -> str:
    return Control.move_to(x, y).segment.text + strip.render(console)
