"""Links as QR codes in a terminal."""

from __future__ import annotations

import segno

from interlock.app.terminal.qr_code import QUIET, qr_lines

LINK = "https://host.example:8738/m/login#" + "a" * 43
DARK = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}


class TestCode:
    def test_has_the_modules_of_its_link(self) -> None:
        """Half blocks form the code's matrix with a light border. Colours are set and reset."""
        lines = qr_lines(LINK)
        assert all(line.startswith("\x1b[30;107m") and line.endswith("\x1b[0m") for line in lines)
        rows: list[list[int]] = []
        for line in lines:
            halves = [DARK[each] for each in line[len("\x1b[30;107m") : -len("\x1b[0m")]]
            rows += [[above for above, _ in halves], [below for _, below in halves]]
        matrix = [list(row) for row in segno.make(LINK, error="l", micro=False).matrix]
        size = len(matrix)
        found = [row[QUIET : QUIET + size] for row in rows[QUIET : QUIET + size]]
        assert found == matrix
        assert not any(map(any, [*rows[:QUIET], *rows[QUIET + size :]]))
        assert not any(any(row[:QUIET]) or any(row[QUIET + size :]) for row in rows)

    def test_fits_into_a_terminal(self) -> None:
        """The code of a link with a long host name fits into 80 columns and 40 lines."""
        lines = qr_lines(LINK.replace("host", "h" * 40))
        assert len(lines) <= 40
        assert all(len(line) - len("\x1b[30;107m\x1b[0m") <= 80 for line in lines)
