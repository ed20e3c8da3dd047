"""Lines of a call's whole input: each field with its JSON value, long values folded in the middle.

Folding never hides the end: a long value shows its first and last lines, with the number of lines between
them. Every line of a multi-line text starts with a bar, so that no input can imitate the dialog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pydantic import JsonValue
from textual.content import Content

from ....engine.history.redaction.shell.masking import Paths, holds_commands
from ...format.highlighting import code_spans, highlighted, json_spans, language_of
from ...format.text import (
    MUTED,
    as_json,
    clip,
    command_lines,
    field_name,
    shown_lines,
    width_of,
    wrap,
    wrap_all,
)
from ...terminal.bindings import FOLD_KEY
from ...terminal.charset import visible
from ...terminal.keymap import name_of
from ..base.blocks import StyledRows

NAME_COLUMN = 14
LEAST = 5
"""Minimum lines of a folded value: two at its start, the fold, two at its end."""


@dataclass(frozen=True, slots=True)
class FieldRows:
    """Name and unstyled value lines of one field."""

    name: str
    rows: tuple[str, ...]
    barred: bool
    code: CodeText | None = None


@dataclass(frozen=True, slots=True)
class CodeText:
    """A value that is code: its text as shown, its language, and the offset of each row in the text.

    With `quoted`, the text is the code as a JSON string.
    """

    text: str
    language: str
    starts: tuple[int, ...]
    quoted: bool = False

    def row(self, index: int, text: str) -> Content:
        """Return a row with syntax highlighting. The text is parsed when the first row is painted."""
        spans = (json_spans if self.quoted else code_spans)(self.text, self.language)
        return highlighted(text, self.starts[index], spans)


def fields(values: Mapping[str, JsonValue], width: int, shell_fields: Paths = ()) -> list[FieldRows]:
    """Return the fields of an input, with values wrapped to the right of the names.

    `shell_fields` are fields that contain commands although their names do not show it.
    """
    room = max(8, width - _column(values, width))
    return [
        _field(
            name,
            value,
            room,
            language_of(name, values, shell_fields),
            command=holds_commands(name, shell_fields),
        )
        for name, value in values.items()
    ]


def _column(values: Mapping[str, JsonValue], width: int) -> int:
    longest = max((width_of(field_name(name)) for name in values), default=0)
    return min(longest, NAME_COLUMN, width // 3) + 2


def _field(name: str, value: JsonValue, room: int, language: str | None, *, command: bool) -> FieldRows:
    lines = command_lines if command else shown_lines
    if isinstance(value, str) and "\n" in value:
        return _of_lines(name, lines(value), room - 2, language)
    flat = "".join(lines(as_json(value)))
    if isinstance(value, dict | list) and width_of(flat) > room:
        return FieldRows(name, tuple(wrap_all(lines(as_json(value, 2)), room - 2)), True)
    rows = tuple(wrap_all([flat], room))
    code = None
    if language is not None and isinstance(value, str):
        code = CodeText(flat, language, tuple(accumulate(map(len, rows[:-1]), initial=0)), quoted=True)
    return FieldRows(name, rows, False, code)


def _of_lines(name: str, lines: Sequence[str], room: int, language: str | None) -> FieldRows:
    if language is None:
        return FieldRows(name, tuple(wrap_all(lines, room)), True)
    rows: list[str] = []
    starts: list[int] = []
    at = 0
    for line in lines:
        for row in wrap(line, room):
            rows.append(row)
            starts.append(at)
            at += len(row)
        at += 1
    return FieldRows(name, tuple(rows), True, CodeText("\n".join(lines), language, tuple(starts)))


def folded_size(rows: int, cap: int | None) -> int:
    """Return the lines that a value of `rows` lines takes if values are limited to `cap`."""
    return rows if cap is None else min(rows, max(cap, LEAST))


def cap_for(sizes: list[int], room: int) -> int | None:
    """Return the highest line limit per value with which all fit in `room`; `None` for no limit."""
    if sum(sizes) <= room:
        return None
    for cap in range(max(room, LEAST), LEAST, -1):
        if sum(folded_size(size, cap) for size in sizes) <= room:
            return cap
    return LEAST


def input_rows(
    values: Mapping[str, JsonValue], width: int, room: int | None = None, *, shell_fields: Paths = ()
) -> list[Content]:
    """Return the input as lines no wider than `width`.

    `room` is the height to fold to; `None` shows all.
    """
    return lay_out(values, width, shell_fields).lines(room)


@dataclass(frozen=True, slots=True)
class Layout:
    """An input wrapped for a width. Its height is known before any line is styled."""

    fields: tuple[FieldRows, ...]
    column: int
    width: int

    @property
    def height(self) -> int:
        """Return the total number of lines."""
        return sum(len(field.rows) for field in self.fields) or 1

    @property
    def sizes(self) -> list[int]:
        """Return the number of lines of each field."""
        return [len(field.rows) for field in self.fields]

    def lines(self, room: int | None = None) -> list[Content]:
        """Return the lines, folded to `room`; `None` shows all."""
        return self.capped(None if room is None else cap_for(self.sizes, room))

    def capped(self, cap: int | None) -> list[Content]:
        """Return the lines, with at most `cap` for each field."""
        if not self.fields:
            return [Content.styled("no input", MUTED)]
        return [line for field in self.fields for line in _rows(field, self.column, cap, self.width)]


def lay_out(values: Mapping[str, JsonValue], width: int, shell_fields: Paths = ()) -> Layout:
    """Wrap an input for a width."""
    return Layout(tuple(fields(values, width, shell_fields)), _column(values, width), width)


def _rows(field: FieldRows, column: int, cap: int | None, width: int) -> list[Content]:
    bar = "│ " if field.barred else ""
    names = wrap_all([visible(field_name(field.name))], column - 2)
    name_rows = names if len(names) == 1 else [clip(names[0] + "".join(names[1:]), column - 2)]
    lines: list[Content] = []
    if len(names) > 1:
        lines = [Content.styled(row, "bold $text-accent") for row in wrap_all(["".join(names)], width)]
        name_rows = [""]

    def row(index: int, text: str) -> Content:
        label = "" if index else name_rows[0]
        filler = " " * (column - width_of(label))
        shown = text if field.code is None else field.code.row(index, text)
        return Content.assemble((label, "bold $text-accent"), filler, (bar, MUTED), shown)

    return lines + folded(StyledRows(field.rows, row), cap, column, width)


def folded(rows: Sequence[Content], cap: int | None, indent: int, width: int) -> list[Content]:
    """Return `rows`, or at most `cap` of them: the first and the last, with a count of those between."""
    count = len(rows)
    if cap is None or count <= max(cap, LEAST):
        return [*rows]
    size = max(cap, LEAST)
    tail = (size - 1) // 2
    head = size - 1 - tail
    note = f"… {count - head - tail} lines hidden · {name_of(FOLD_KEY)} shows all {count}"
    line = Content.assemble(" " * indent, (clip(note, width - indent), "bold $text-warning"))
    return [*rows[:head], line, *rows[-tail:]]
