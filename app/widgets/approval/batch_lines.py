"""Lines of a batch: effects and risk of all requests, common fields, then a table of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from textual.content import Content

from ....engine.approvals.request_order import in_order
from ....engine.history.model.state import ApprovalState, SessionState
from ....engine.history.redaction.shell.masking import SHELL_FIELDS
from ...format.text import (
    MUTED,
    age,
    command_lines,
    hanging_rows,
    indented,
    name_shown,
    pad,
    seconds_between,
    shown,
    shown_lines,
    styled_rows,
    width_of,
    wrap,
    wrap_all,
)
from ...terminal.symbols import RISK
from ...viewmodels.batch import FieldComparison, Row, compared, effects, warnings
from .progress import Viewer, people_lines
from .queue_lines import risk_and_time

HEADING = "bold $text-primary"
NAMES = frozenset({"tool", "asks about", "agent", "session", *(f"input.{name}" for name in SHELL_FIELDS)})
"""Fields that contain names or commands."""
GONE = "strike $foreground 60%"
LABEL = 14
LEAST = 14
"""Minimum width of a table column in cells.

If columns get narrower, fields are listed vertically instead.
"""
BAR = "│ "
NUMBER = 4
"""Width of a request's number in cells."""


def batch_lines(
    rows: Sequence[Row],
    sessions: Mapping[str, SessionState],
    now: datetime,
    width: int,
    viewer: Viewer | None = None,
) -> list[Content]:
    """Return all lines of the batch, to be read from top to end; `viewer` is the operator who decides."""
    requests = [row.request for row in rows]
    found = compared(requests, sessions)
    lines = [*_effects([row.request for row in rows if row.over is None], width), *_risk(rows, width)]
    lines.append(Content(""))
    if found.alike:
        lines.append(_heading("THE SAME IN ALL"))
        for name, value in found.alike.items():
            lines += _field(shown(name), value, width, 2)
        lines.append(Content(""))
    lines.append(_heading("WHAT DIFFERS"))
    lines += _table(rows, found, sessions, now, width, viewer)
    return [*lines, Content(""), _heading(f"END, {len(rows)} REQUESTS")]


def _heading(text: str) -> Content:
    return Content.styled(text, HEADING)


def _labelled(label: str, rows: Sequence[str], style: str) -> list[Content]:
    return hanging_rows(f"{label:<{LABEL}}", HEADING, [(row, style) for row in rows])


def _effects(requests: Sequence[ApprovalState], width: int) -> list[Content]:
    found = effects(requests)
    named = [f"{name_shown(name)} ×{number}" for name, number in found.most_common()]
    text = ", ".join(named) if named else "none"
    return _labelled("EFFECTS", wrap_all([text], width - LABEL), "bold $text-warning" if named else MUTED)


def _risk(rows: Sequence[Row], width: int) -> list[Content]:
    requests = in_order(row.request for row in rows if row.over is None)
    if not requests:
        return _labelled("RISK", ["nothing is left to decide"], MUTED)
    highest = next((r for r in ("high", "medium", "low") if any(q.risk == r for q in requests)), None)
    number = sum(q.risk == highest for q in requests)
    lines: list[Content] = []
    if highest is not None:
        look = RISK[highest]
        text = f"{look.symbol} {highest} ({number} of {len(requests)})"
        lines += _labelled("RISK", [text], f"bold {look.style}")
    doubtful = sum(q.uninspectable is not None for q in requests)
    if doubtful:
        text = f"{doubtful} of {len(requests)} may do more than shown"
        lines += _labelled("UNINSPECTABLE", wrap_all([text], width - LABEL), "bold $text-error")
    return lines


def _lines(name: str, value: str) -> list[str]:
    """Return a field's value as lines. In commands and names, look-alike characters are made visible."""
    return command_lines(value) if name in NAMES else shown_lines(value)


def _field(name: str, value: str, width: int, indent: int) -> list[Content]:
    """Return a field's name, then its complete value, every line after a bar."""
    label = min(max(LABEL, width_of(name) + 1), max(LABEL, width // 3))
    room = width - indent - label - len(BAR)
    rows = [row for line in _lines(name, value) for row in wrap(line, room)]
    names = wrap(name, label - 1)
    names += [""] * (len(rows) - len(names))
    rows += [""] * (len(names) - len(rows))
    return [
        Content.assemble(" " * indent, (pad(head, label), MUTED), (BAR, MUTED), row)
        for head, row in zip(names, rows, strict=True)
    ]


def _table(
    rows: Sequence[Row],
    found: FieldComparison,
    sessions: Mapping[str, SessionState],
    now: datetime,
    width: int,
    viewer: Viewer | None,
) -> list[Content]:
    widths = _columns(found, width)
    lines: list[Content] = []
    if widths:
        cells = [pad(shown(name), size) for name, size in zip(found.differing, widths, strict=True)]
        lines.append(Content.styled(" " * NUMBER + BAR + f" {BAR}".join(cells), MUTED))
    for number, row in enumerate(rows):
        values = [(name, each[number]) for name, each in found.differing.items()]
        head = Content.styled(f"{number + 1:>{NUMBER - 1}} ", "bold")
        if widths:
            made = _cells(values, widths)
        else:
            given = [(shown(name), value) for name, value in values if value is not None]
            made = [line for name, value in given for line in _field(name, value, width - NUMBER, 0)]
        made = made or [Content("as above")]
        style = GONE if row.over is not None else ""
        for index, line in enumerate(made):
            lines.append(Content.assemble(head if index == 0 else " " * NUMBER, line.stylize(style)))
        people = people_lines(row.request, sessions.get(row.request.session), now, viewer)
        state = _state(row, people, now, width - NUMBER)
        lines += indented(state, NUMBER)
    return lines


def _columns(found: FieldComparison, width: int) -> list[int]:
    """Return the width of each column in cells; empty if the columns do not fit side by side."""
    names = list(found.differing)
    room = width - NUMBER - (len(BAR) + 1) * len(names)
    wanted = [
        max(
            width_of(shown(name)),
            *(width_of(ln) for v in values for ln in _lines(name, (v or "(none)")[: LEAST * 40])),
        )
        for name, values in found.differing.items()
    ]
    if not names or any(width_of(shown(name)) > room // len(names) for name in names):
        return []
    while sum(wanted) > room:
        longest = max(range(len(wanted)), key=lambda i: wanted[i])
        others = sum(wanted) - wanted[longest]
        fitting = max(room - others, (room + len(names) - 1) // len(names))
        if fitting >= wanted[longest] or fitting < LEAST:
            return []
        wanted[longest] = fitting
    return wanted


def _cells(values: Sequence[tuple[str, str | None]], widths: Sequence[int]) -> list[Content]:
    """Return a request's fields side by side, each wrapped in its column."""
    columns = [
        ["(none)"] if value is None else [r for ln in _lines(name, value) for r in wrap(ln, size)]
        for (name, value), size in zip(values, widths, strict=True)
    ]
    height = max(map(len, columns), default=0)
    lines: list[Content] = []
    for at in range(height):
        parts: list[Content | str | tuple[str, str]] = []
        for (_, value), column, size in zip(values, columns, widths, strict=True):
            text = pad(column[at] if at < len(column) else "", size)
            parts += [(BAR, MUTED), (f"{text} ", MUTED if value is None else "")]
        lines.append(Content.assemble(*parts))
    return lines


def _state(row: Row, people: Iterable[str], now: datetime, width: int) -> list[Content]:
    """Return a request's state: its outcome, why it is not decided here, or notes for the decision."""
    if row.result is not None:
        sign, style = ("✓", "bold $text-success") if row.ok else ("■", "bold $text-error")
        return styled_rows([f"{sign} {shown(row.result)}"], width, style)
    if row.over is not None:
        return styled_rows([f"✗ not decided: {shown(row.over)}"], width, "bold $text-warning")
    if row.sent:
        return [Content.styled("deciding…", MUTED)]
    waited = Content.styled(f"waits {age(seconds_between(row.request.since, now))}", MUTED)
    pieces = [waited, *risk_and_time(row.request, now)]
    lines = [Content(" · ").join(pieces).truncate(width, ellipsis=True)]
    texts = [*people, *map(shown, warnings(row.request))]
    return lines + styled_rows(texts, width, "bold $text-warning")
