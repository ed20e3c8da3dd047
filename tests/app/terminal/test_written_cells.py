"""Updates of a terminal write only the cells that differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from interlock.app.terminal.written_cells import WrittenCells

from ...support.terminal_grid import TerminalGrid

WIDTH = 24
CONSOLE = Console(force_terminal=True, color_system="truecolor")
STYLES = (Style(), Style(color="red"), Style(bold=True), Style.from_meta({"@click": "x"}))


def strip(*parts: tuple[str, int]) -> Strip:
    """A strip of `WIDTH` cells made of texts, each with the number of its style."""
    made = Strip([Segment(text, STYLES[style]) for text, style in parts])
    return made.adjust_cell_length(WIDTH)


def row_update(*strips: Strip) -> ChopsUpdate:
    """An update with one row for each strip, over the whole width."""
    spans = [(y, 0, WIDTH) for y in range(len(strips))]
    return ChopsUpdate([{0: each} for each in strips], spans, [[WIDTH] for _ in strips])


def whole_update(*strips: Strip) -> LayoutUpdate:
    return LayoutUpdate([[each] for each in strips], Region(0, 0, WIDTH, len(strips)))


rows = st.lists(
    st.tuples(st.text("ab ●日", min_size=1, max_size=5), st.integers(0, len(STYLES) - 1)),
    min_size=1,
    max_size=4,
).map(lambda parts: strip(*parts))


class TestWrittenCells:
    def test_only_differing_cells_are_written(self) -> None:
        """If one digit of a row changes, only that digit is written, at its place."""
        cells = WrittenCells()
        cells.changes(row_update(strip(("waiting 0:41", 0)))).render_segments(CONSOLE)
        written = cells.changes(row_update(strip(("waiting 0:42", 0)))).render_segments(CONSOLE)
        assert written == "\x1b[1;12H2"

    def test_unchanged_row_is_not_written(self) -> None:
        """A row without a visible change is not written. Another click action is not visible."""
        cells = WrittenCells()
        cells.changes(row_update(strip(("abc", 0)))).render_segments(CONSOLE)
        assert cells.changes(row_update(strip(("abc", 3)))).render_segments(CONSOLE) == ""

    def test_changed_style_is_written(self) -> None:
        """The same text in another colour is written again."""
        cells = WrittenCells()
        cells.changes(row_update(strip(("abc", 0)))).render_segments(CONSOLE)
        written = cells.changes(row_update(strip(("abc", 1)))).render_segments(CONSOLE)
        assert written == "\x1b[1;1H\x1b[31mabc\x1b[0m"

    def test_full_paint_writes_everything(self) -> None:
        """A full paint writes everything again, as does the first paint after `forget`."""
        cells = WrittenCells()
        first = cells.changes(whole_update(strip(("abc", 0)))).render_segments(CONSOLE)
        assert cells.changes(whole_update(strip(("abc", 0)))).render_segments(CONSOLE) == first
        cells.forget()
        assert "abc" in cells.changes(row_update(strip(("abc", 0)))).render_segments(CONSOLE)

    def test_unwritten_update_is_written_by_the_next(self) -> None:
        """Cells of an update that was not written are written by the next one."""
        cells = WrittenCells()
        cells.changes(row_update(strip(("abc", 0))))
        assert "abc" in cells.changes(row_update(strip(("abc", 0)))).render_segments(CONSOLE)

    def test_rows_of_uncertain_width_are_written_completely(self) -> None:
        """A row with characters of uncertain width is written as a whole."""
        cells = WrittenCells()
        cells.changes(row_update(strip(("日本 1", 0)))).render_segments(CONSOLE)
        written = cells.changes(row_update(strip(("日本 2", 0)))).render_segments(CONSOLE)
        assert "日本 2" in written

    @pytest.mark.slow
    @given(st.lists(st.lists(rows, min_size=2, max_size=2), min_size=1, max_size=5), st.data())
    def test_the_terminal_shows_what_was_painted(
        self, paints: list[list[Strip]], data: st.DataObject
    ) -> None:
        """Law: after any updates the terminal shows the same as after writing all of them in full."""
        cells, seen, full = WrittenCells(), TerminalGrid(), TerminalGrid()
        for strips in paints:
            whole = data.draw(st.booleans())
            update = whole_update(*strips) if whole else row_update(*strips)
            seen.take(cells.changes(update).render_segments(CONSOLE))
            for y, each in enumerate(strips):
                full.take(f"\x1b[{y + 1};1H{each.render(CONSOLE)}")
        assert seen.cells == full.cells
