"""Cells of a terminal, filled by a program's output; supports only what the console uses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rich.cells import cell_len

SEQUENCE = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|\x1b\[(?P<codes>[\d;]*)m"
    r"|\x1b\[[?<>=]?[\d;]*[A-Za-z$]+"
    r"|\x1b\].*?(?:\x1b\\|\x07)"
    r"|(?P<text>[^\x1b])",
    re.DOTALL,
)


@dataclass
class TerminalGrid:
    """A character and its style codes for each cell, by column and row."""

    cells: dict[tuple[int, int], tuple[str, str]] = field(
        default_factory=dict[tuple[int, int], tuple[str, str]]
    )
    x: int = 0
    y: int = 0
    codes: str = ""

    def take(self, written: str) -> None:
        """Process output. Each escape sequence has to be complete in it."""
        for found in SEQUENCE.finditer(written):
            if found["row"]:
                self.x, self.y = int(found["column"]) - 1, int(found["row"]) - 1
            elif found["codes"] is not None:
                self.codes = "" if found["codes"] == "0" else found["codes"]
            elif found["text"] == "\n":
                self.x, self.y = 0, self.y + 1
            elif found["text"] and found["text"] != "\r":
                self._put(found["text"])

    def _put(self, character: str) -> None:
        width = cell_len(character)
        for offset in range(width):
            self.cells[self.x + offset, self.y] = (character if offset == 0 else "", self.codes)
        self.x += width

    def lines(self) -> list[str]:
        """Return the rows as text."""
        rows: dict[int, list[str]] = {}
        for (x, y), (character, _) in sorted(self.cells.items(), key=lambda cell: cell[0]):
            rows.setdefault(y, []).extend([" "] * (x - len(rows.get(y, []))))
            rows[y].append(character)
        return ["".join(rows[y]) for y in sorted(rows)]
