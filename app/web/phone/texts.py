"""Texts in pieces that fit on a phone's screen, so that the page can detect which of them were shown.

Nothing is left out. Every text is made visible before it is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from pydantic import JsonValue

from ....engine.history.redaction.shell.masking import Paths, holds_commands
from ...format.text import as_json, command_lines, count, shown, shown_lines

PIECE_LINES, PIECE_CHARACTERS = 8, 400
"""Maximum size of a piece; beyond `MOST_PIECES` pieces, each is larger."""
MOST_PIECES = 2000
FOLD_LINES, FOLD_CHARACTERS = 14, 900
"""Longer texts are folded at first."""
ONE_LINE = 60
"""Longest list or object, in characters, that is shown on one line."""

Run = tuple[str, str]
"""Consecutive lines with the same sign of a diff; the sign is empty in other texts."""


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text in `pieces`, each consisting of runs of lines."""

    pieces: tuple[tuple[Run, ...], ...]
    lines: int
    characters: int

    @property
    def folded(self) -> bool:
        """True if the text is too long to be shown unfolded."""
        return self.lines > FOLD_LINES or self.characters > FOLD_CHARACTERS

    @property
    def size(self) -> str:
        """Size as text: `42 lines, 3,120 characters`."""
        lines = f"{count(self.lines, 'line')}, " if self.lines > 1 else ""
        return f"{lines}{count(self.characters, 'character')}"


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field of an input, by name."""

    name: str
    text: ShownText


def text_of(lines: Sequence[str]) -> ShownText:
    """Return the text of lines that were made visible."""
    return diff_of([("", line) for line in lines])


def diff_of(rows: Sequence[Run]) -> ShownText:
    """Return the text of a diff, with each line's sign separated."""
    characters = sum(len(line) for _, line in rows)
    factor = ceil(
        max(
            1.0,
            characters / (PIECE_CHARACTERS * MOST_PIECES),
            len(rows) / (PIECE_LINES * MOST_PIECES),
        )
    )
    pieces = _pieces(rows, PIECE_LINES * factor, PIECE_CHARACTERS * factor)
    return ShownText(tuple(map(_runs, pieces)), len(rows), characters)


def _pieces(rows: Sequence[Run], most_lines: int, most_characters: int) -> Iterator[list[Run]]:
    piece: list[Run] = []
    length = 0
    for sign, line in rows:
        for at in range(0, max(1, len(line)), most_characters):
            part = line[at : at + most_characters]
            if piece and (len(piece) == most_lines or length + len(part) > most_characters):
                yield piece
                piece, length = [], 0
            piece.append((sign, part))
            length += len(part)
    yield piece


def _runs(piece: Sequence[Run]) -> tuple[Run, ...]:
    return tuple(
        (sign, "\n".join(f"{sign} {line}" if sign else line for _, line in rows))
        for sign, rows in groupby(piece, key=lambda row: row[0])
    )


def fields_of_input(values: Mapping[str, JsonValue], shell_fields: Paths) -> tuple[ShownField, ...]:
    """Return the fields of an input, with their values as in the terminal's dialog."""
    return tuple(
        ShownField(shown(name), text_of(_value_lines(value, holds_commands(name, shell_fields))))
        for name, value in values.items()
    )


def _value_lines(value: JsonValue, command: bool) -> list[str]:
    lines = command_lines if command else shown_lines
    if isinstance(value, str) and "\n" in value:
        return lines(value)
    flat = "".join(lines(as_json(value)))
    if isinstance(value, dict | list) and len(flat) > ONE_LINE:
        return lines(as_json(value, 2))
    return [flat]
