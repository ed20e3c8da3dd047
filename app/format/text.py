"""Text for a terminal: cut off, wrapped and aged, measured in cells.

Text from an agent, a model, a tool or a rules file has to pass `shown` or `shown_lines` before it becomes
content, and is never markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePath

from pydantic import JsonValue
from rich.cells import cell_len, chop_cells, set_cell_size
from textual.content import Content

from ...engine.history.model.records import RuleRecord
from ...engine.history.redaction.shell.masking import Paths, holds_commands
from ..terminal.charset import visible, visible_words
from ..terminal.symbols import MUTED

LABEL = 32
"""Maximum width of a tool's label in cells."""
GLANCE = 4_000
"""Maximum characters of an untrusted text that a one-line excerpt reads."""


_AMPLE = 64
"""Characters per cell, more than any character combination has."""


def shown(text: str) -> str:
    """Return untrusted text as one line, safe to paint: line breaks are visible, long text is cut off."""
    return visible(text[:GLANCE]) + ("…" if len(text) > GLANCE else "")


def name_shown(text: str) -> str:
    """Return a name or a command on one line; see `visible_words`."""
    return visible_words(text[:GLANCE]) + ("…" if len(text) > GLANCE else "")


def command_lines(text: str) -> list[str]:
    """Return a command as lines, without omissions; see `visible_words`."""
    return visible_words(text, keep_newlines=True).expandtabs(8).split("\n")


def shown_lines(text: str) -> list[str]:
    """Return untrusted text as lines that are safe to paint, without omissions."""
    return visible(text, keep_newlines=True).expandtabs(8).split("\n")


def width_of(text: str) -> int:
    """Return the width of a text in cells."""
    return len(text) if text.isascii() else cell_len(text)


def clip(text: str, width: int) -> str:
    """Cut a text off at `width` cells, with an ellipsis."""
    if width <= 0:
        return ""
    if len(text) > _AMPLE * width and cell_len(text[: _AMPLE * width]) > width:
        text = text[: _AMPLE * width]  # the rest is not measured, since it may be a megabyte
    if width_of(text) <= width:
        return text
    if text.isascii():
        return text[: width - 1] + "…"
    return set_cell_size(text, width - 1).rstrip() + "…"


def pad(text: str, width: int) -> str:
    """Cut or pad a text to exactly `width` cells."""
    text = clip(text, width)
    return text + " " * (width - width_of(text))


def wrap(line: str, width: int) -> list[str]:
    """Wrap one line, at spaces if possible. Every character is kept."""
    width = max(width, 2)
    if width_of(line) <= width:
        return [line]
    if not line.isascii():
        return _wrap_cells(line, width)
    folded: list[str] = []
    start = 0
    while len(line) - start > width:
        space = line.rfind(" ", start + width // 2, start + width)
        end = space + 1 if space > start else start + width
        folded.append(line[start:end])
        start = end
    folded.append(line[start:])
    return folded


def _wrap_cells(line: str, width: int) -> list[str]:
    folded: list[str] = []
    start = 0
    while start < len(line):
        most = width + 1
        head, *more = chop_cells(line[start : start + most], width)
        # There may be many characters without a width.
        while not more and start + most < len(line) and most < _AMPLE * width:
            most *= 2
            head, *more = chop_cells(line[start : start + most], width)
        if more:
            space = head.rfind(" ", len(head) // 2)
            head = head[: space + 1] if space >= 0 else head
        folded.append(head)
        start += len(head)
    return folded


def wrap_all(lines: Sequence[str], width: int) -> list[str]:
    """Wrap several lines."""
    return [row for line in lines for row in wrap(line, width)]


def styled_rows(lines: Sequence[str], width: int, style: str = "") -> list[Content]:
    """Wrap several lines, all in one style."""
    return [Content.styled(row, style) for row in wrap_all(lines, width)]


def hanging_rows(mark: str, style: str, rows: Iterable[Content | tuple[str, str]]) -> list[Content]:
    """Return rows to the right of a mark, which only the first row shows."""
    blank = " " * len(mark)
    return [Content.assemble((blank if at else mark, style), row) for at, row in enumerate(rows)]


def indented(rows: Iterable[Content], cells: int = 2) -> list[Content]:
    """Indent rows by a number of cells."""
    return [Content.assemble(" " * cells, row) for row in rows]


def spread(left: Content, right: Content, width: int) -> Content:
    """Return a line of `width` cells with `left`, cut off if necessary, and `right` at the right edge."""
    room = width - right.cell_length
    if room < 8:
        return left.truncate(width, ellipsis=True)
    if not right:
        return left.truncate(width, ellipsis=True)
    fitted = left.truncate(room - 1, ellipsis=True)
    return Content.assemble(fitted, " " * (room - fitted.cell_length), right)


def in_rows(parts: Sequence[Content], width: int, gap: str = "   ") -> list[Content]:
    """Return short pieces in rows, wrapped to as many lines as needed."""
    lines = [Content("")]
    for part in parts:
        last = lines[-1]
        if last and last.cell_length + len(gap) + part.cell_length > width:
            lines.append(part)
        else:
            lines[-1] = Content.assemble(last, (gap, MUTED), part) if last else part
    return lines


def legend(signs: Sequence[str], width: int) -> list[Content]:
    """Return the meanings of a picture's signs."""
    rows = in_rows([Content(sign) for sign in signs], width)
    return styled_rows([row.plain for row in rows], width, MUTED)


def seconds_between(earlier: datetime | None, later: datetime) -> float:
    """Return the seconds from one time to the other; 0 if unknown or if clocks disagree."""
    return 0.0 if earlier is None else max(0.0, (later - earlier).total_seconds())


def age(seconds: float) -> str:
    """Return a waiting time or duration like a clock: `0:42`, `12:07`, `1:02:03`, `3d 2:00`."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24}d {hours % 24}:{minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def ago(seconds: float) -> str:
    """Return the time since something in words: `just now`, `40 s ago`, `2 min ago`, `3 h ago`."""
    if seconds < 5:
        return "just now"
    if seconds < 90:
        return f"{int(seconds)} s ago"
    if seconds < 5_400:
        return f"{round(seconds / 60)} min ago"
    return f"{round(seconds / 3600)} h ago"


def duration(seconds: float) -> str:
    """Return a duration such as `0.3 s`, `8.4 s`, or `2:05`."""
    if seconds < 0.05:
        return "<0.1 s"
    return f"{seconds:.1f} s" if seconds < 60 else age(seconds)


def quoted(label: str) -> str:
    """Return a tool's label as shown after the tool's name: its author's words, in quotes and cut off."""
    return f"“{clip(shown(label), LABEL)}”"


def place(rule: RuleRecord) -> str:
    """Return a rule's file and line for lists, as `deploy.rules:4`; panels show the whole path."""
    return shown(f"{PurePath(rule.file).name}:{rule.line}")


def rule_line(rule: RuleRecord | None) -> str:
    """Return a rule's complete place and its text; empty for none."""
    return "" if rule is None else f"{rule.where}  {rule.text}"


def amount(number: int) -> str:
    """Return a count of tokens in few cells: `940`, `1.2k`, `34k`, `1.2M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 10 * size else f"{number // size}{unit}"
    return str(number)


def glance(values: dict[str, JsonValue], shell_fields: Paths = ()) -> str:
    """Return a call's input on one line: a single string unquoted, anything else as JSON.

    `shell_fields` are fields that contain commands although their names do not show it.
    """
    return " ".join(f"{label}{text}" for _, label, text in glance_parts(values, 400, shell_fields))


def glance_parts(
    values: dict[str, JsonValue], limit: int, shell_fields: Paths
) -> list[tuple[str, str, str]]:
    """Return the parts of `glance`: each field's name, the separator before its value, and the value."""
    if len(values) == 1:
        ((name, only),) = values.items()
        if isinstance(only, str):
            quoted = name_shown if holds_commands(name, shell_fields) else shown
            return [(name, "", quoted(only[:limit]) + ("…" if len(only) > limit else ""))]
    parts: list[tuple[str, str, str]] = []
    length = 0
    for name, value in values.items():
        quoted = name_shown if holds_commands(name, shell_fields) else shown
        text = quoted(as_json(value[:limit] if isinstance(value, str) else value)[: limit + 2])
        parts.append((name, f"{shown(name[:80])}=", text))
        length += len(parts[-1][1]) + len(text)
        if length > limit:
            break
    return parts


def as_json(value: JsonValue, indent: int | None = None) -> str:
    """Return a value as JSON without escaping letters."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


_SIGNS = re.compile(r"[│·…]|^\s|\s$|^\((?:none|nothing)\)$|^$")
"""Separators of fields, words for missing values, and leading or trailing blanks."""


def imitates_signs(text: str) -> bool:
    """Return whether a one-line text could be mistaken for several, missing or other values."""
    return _SIGNS.search(text) is not None


def field_name(name: str) -> str:
    """Return a field's name, quoted if it could be mistaken for a heading, a value or several fields."""
    return as_json(name) if imitates_signs(name) or any(map(str.isspace, name)) else name


# Numbers with their nouns. Imports nothing: commands that never paint use it too.


def count(number: int, noun: str) -> str:
    """Return `1 session`, `2 sessions`, or `1,204 sessions`, for example."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
