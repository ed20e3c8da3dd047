"""A link as a QR code in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import segno

QUIET = 2
"""Light modules around a code."""
_HALVES = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
"""Character for two modules, one above the other, by whether each is dark."""
_DARK_ON_LIGHT, _RESET = "\x1b[30;107m", "\x1b[0m"
"""Fixed colours, because scanners need dark modules on a light background."""


def qr_lines(text: str) -> list[str]:
    """Return the code of a text with colours, two rows of modules per line."""
    return [f"{_DARK_ON_LIGHT}{line}{_RESET}" for line in qr_rows(text)]


def qr_rows(text: str) -> list[str]:
    """Return the code without colours; `█` is two dark modules."""
    return [*_lines(_framed(text))]


def _framed(text: str) -> list[list[bool]]:
    """Return the rows of modules with the quiet zone; dark modules are true."""
    matrix: Sequence[bytearray] = segno.make(text, error="l", micro=False).matrix
    side = [False] * QUIET
    rows = [[*side, *map(bool, row), *side] for row in matrix]
    empty = [[False] * len(rows[0]) for _ in range(QUIET)]
    return [*empty, *rows, *empty]


def _lines(rows: list[list[bool]]) -> Iterator[str]:
    below_last = [False] * len(rows[0])
    for at in range(0, len(rows), 2):
        below = rows[at + 1] if at + 1 < len(rows) else below_last
        yield "".join(_HALVES[pair] for pair in zip(rows[at], below, strict=True))
