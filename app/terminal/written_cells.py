"""Cache of a terminal's cells as last written, so that only cells that differ are written again.

Textual repaints a whole widget if anything in it has changed: every row of every pane, once a second,
even if only one clock has changed. A paint of the whole screen is written completely, which also repairs
what another program has written.
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
"""Maximum gap of unchanged cells to write along, since moving the cursor takes more bytes."""

Cell = tuple[str, str]
"""A character with the codes of its style."""


class WrittenCells:
    """Cache of one terminal's cells. Unknown cells are always written."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Cell | None]] = {}

    def forget(self) -> None:
        """Forget all cells, because another program may have written to the terminal."""
        self._rows.clear()

    def changes(self, update: CompositorUpdate) -> CompositorUpdate:
        """Return the update reduced to changed cells; they are found and cached when it is written."""
        return _Changes(self, update) if isinstance(update, ChopsUpdate | LayoutUpdate) else update

    def write(self, x: int, y: int, strip: Strip, console: Console) -> str:
        """Return the sequences that change a row to `strip` from column `x`."""
        length = strip.cell_length
        cells = _cells(strip, console)
        row = self._rows.setdefault(y, [])
        row.extend([None] * (x + length - len(row)))
        before = row[x : x + length]
        if before == cells:
            return ""
        row[x : x + length] = cells
        if not _is_even(strip.text):
            # Terminals disagree on the width of such characters, so cells to their right are unknown.
            del row[x + length :]
            return _placed(x, y, strip, console)
        return "".join(
            _placed(x + start, y, strip.crop(start, end), console) for start, end in _runs(before, cells)
        )


class _Changes(CompositorUpdate):
    """Update of which only cells that differ from the cache are written."""

    def __init__(self, memory: WrittenCells, update: ChopsUpdate | LayoutUpdate) -> None:
        self._memory = memory
        self._update = update

    def render_segments(self, console: Console) -> str:
        if isinstance(self._update, LayoutUpdate):
            self._memory.forget()
        return "".join(self._memory.write(x, y, strip, console) for x, y, strip in _pieces(self._update))


def _pieces(update: ChopsUpdate | LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Yield column, row and text of each part of an update, as Textual writes them."""
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
    """Return a cell per column of a strip.

    The cells of an uneven strip are all the same and unlike any other.
    """
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
    """Return whether every character certainly takes one cell."""
    if text.isascii():
        return text.isprintable()
    return all(each.isprintable() and get_character_cell_size(each) == 1 for each in set(text))


def _runs(before: Sequence[Cell | None], cells: Sequence[Cell | None]) -> Iterator[tuple[int, int]]:
    """Yield ranges of cells that differ; ranges close to each other are merged."""
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
