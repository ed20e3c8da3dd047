"""Recorded sessions as a table that fits a width: which columns are shown, and what is in them.

The screen and the command show the same one. Columns leave in a fixed order when there is no room; a
session's id is what `interlock replay` needs, so it is the last to be shortened. Where some sessions are
branches, subagents', of agents elsewhere, runs of flows or imported, a column says so, by the end of the
other's id if need be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial

from rich.cells import cell_len, set_cell_size

from ...engine.history.model.state import SessionSummary
from ..terminal.charset import visible, visible_words
from ..terminal.symbols import session_look
from .text import age, seconds_between
from .times import day_and_time, short_day_and_time

HOW_TO_RECORD = "Start an agent with `interlock run`"
"""Hint of what lists recorded sessions or their decisions, where nothing is recorded."""

GAP = 2
_LONGEST = {"session": 32, "from": 40, "agent": 18, "model": 24}
_SHORTEST_SESSION = 12
_WHOLE = 10_000
_TELLING = 7
"""Characters at the end of an id that tell it from others of its agent."""
_LEAVING = ("model", "agent", "length", "mode", "waiting", "blocked", "calls", "from", "started")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, how a session is shown in it, and its width in cells."""

    name: str
    heading: str
    cell: Callable[[SessionSummary], str]
    width: int = 0
    right: bool = False

    def fit(self, text: str) -> str:
        """`text` in exactly the column's width, with `…` where it was cut."""
        size = cell_len(text)
        if size > self.width:
            return set_cell_size(text, self.width - 1) + "…"
        space = " " * (self.width - size)
        return space + text if self.right else text + space


def origin(session: SessionSummary, *, short: bool = False) -> str:
    """`branch of deploy-bot-0c41aa`, `child of …`, `external`, `flow`; nothing for any other session.

    One that was imported says that first, `imported`, or `imported, flow`, as does one that only a newer
    version knows whole. `short` gives only the end of
    the other's id: `branch of …-0c41aa`.
    """
    first = "newer version" if session.newer else "imported" if session.imported else ""
    parts = (first, _kind(session, short=short))
    return ", ".join(filter(None, parts))


def _kind(session: SessionSummary, *, short: bool) -> str:
    if session.kind == "flow":
        return "flow"
    if session.kind == "outside":
        return "external"
    if not session.parent:
        return ""
    parent = visible_words(session.parent)
    if short and len(parent) > _TELLING + 1:
        parent = f"…{parent[-_TELLING:]}"
    return f"{session.kind} of {parent}"


def columns(
    sessions: Sequence[SessionSummary],
    width: int,
    *,
    zone: tzinfo | None = None,
    shorten_ids: bool = True,
) -> list[Column]:
    """The columns that fit into `width` cells, each wide enough for what it shows.

    With `shorten_ids` false a session's id is always whole, even if the table gets wider than `width`.
    """
    longest = _LONGEST if shorten_ids else {**_LONGEST, "session": _WHOLE, "from": _WHOLE}
    family = any(
        session.parent or session.kind == "flow" or session.imported or session.newer
        for session in sessions
    )
    every = [column for column in _all_columns(zone) if family or column.name != "from"]
    chosen = [_sized(column, sessions, longest) for column in every]
    if _total(chosen) > width:
        chosen = [_short_start(c, sessions, zone) for c in chosen]
    for name in _LEAVING:
        if _total(chosen) <= width:
            break
        if name == "length":
            # A shorter name for another session is less of a loss than any count.
            chosen = [_short_origin(c, sessions) for c in chosen]
            if _total(chosen) <= width:
                break
        chosen = [c for c in chosen if c.name != name]
    excess = _total(chosen) - width
    if excess > 0 and shorten_ids:
        chosen = [
            replace(c, width=max(_SHORTEST_SESSION, c.width - excess)) if c.name == "session" else c
            for c in chosen
        ]
    return chosen


def heading(chosen: Sequence[Column]) -> str:
    """The line above the table."""
    return (" " * GAP).join(column.fit(column.heading) for column in chosen)


def row(chosen: Sequence[Column], session: SessionSummary) -> list[str]:
    """The cells of one session, each in its column's width."""
    return [column.fit(column.cell(session)) for column in chosen]


def _all_columns(zone: tzinfo | None) -> list[Column]:
    return [
        Column("status", "status", lambda s: f"{session_look(s).symbol} {session_look(s).word}"),
        Column("session", "session", lambda s: visible_words(s.id)),
        Column("from", "from", origin),
        Column("agent", "agent", lambda s: visible_words(s.agent)),
        Column("model", "model", lambda s: visible(s.model)),
        Column("mode", "mode", lambda s: s.mode),
        Column("started", "started", lambda s: day_and_time(s.opened, zone)),
        Column("length", "length", lambda s: age(seconds_between(s.opened, s.updated)), right=True),
        Column("calls", "calls", lambda s: str(s.calls), right=True),
        Column("blocked", "blocked", lambda s: str(s.blocked), right=True),
        Column("waiting", "waiting", lambda s: str(s.waiting), right=True),
    ]


def _sized(column: Column, sessions: Sequence[SessionSummary], longest: Mapping[str, int]) -> Column:
    needed = max((cell_len(column.cell(s)) for s in sessions), default=0)
    needed = max(needed, cell_len(column.heading))
    return replace(column, width=min(needed, longest.get(column.name, needed)))


def _short_start(column: Column, sessions: Sequence[SessionSummary], zone: tzinfo | None) -> Column:
    if column.name != "started":
        return column

    def cell(session: SessionSummary) -> str:
        return short_day_and_time(session.opened, zone)

    return _sized(replace(column, cell=cell), sessions, {})


def _short_origin(column: Column, sessions: Sequence[SessionSummary]) -> Column:
    if column.name != "from":
        return column
    return _sized(replace(column, cell=partial(origin, short=True)), sessions, {})


def _total(chosen: Sequence[Column]) -> int:
    return sum(column.width for column in chosen) + GAP * (len(chosen) - 1)
