"""Recorded sessions as a table that fits a width: its columns and their content.

Used by the history screen and by the command. If space is limited, columns are dropped in a fixed order;
a session's id is what `interlock replay` needs, so it is shortened last. If some sessions are branches,
subagents, external, runs of flows or imported, a column says so, if necessary with only the end of the
other session's id.
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
"""Hint shown if no sessions or decisions are recorded."""

GAP = 2
_LONGEST = {"session": 32, "from": 40, "agent": 18, "model": 24}
_SHORTEST_SESSION = 12
_WHOLE = 10_000
_TELLING = 7
"""Characters at the end of an id that distinguish it from others of its agent."""
_LEAVING = ("model", "agent", "length", "mode", "waiting", "blocked", "calls", "from", "started")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, its cell text for a session, and its width in cells."""

    name: str
    heading: str
    cell: Callable[[SessionSummary], str]
    width: int = 0
    right: bool = False

    def fit(self, text: str) -> str:
        """Return `text` in exactly the column's width, with `…` if it was cut off."""
        size = cell_len(text)
        if size > self.width:
            return set_cell_size(text, self.width - 1) + "…"
        space = " " * (self.width - size)
        return space + text if self.right else text + space


def origin(session: SessionSummary, *, short: bool = False) -> str:
    """Return `branch of deploy-bot-0c41aa`, `child of …`, `external` or `flow`; empty for any other
    session.

    An imported session begins with `imported`, as in `imported, flow`; one that only a newer version
    knows completely begins with `newer version`, one that diverged with `diverged`. `short` gives only
    the end of the other id: `branch of …-0c41aa`.
    """
    first = "imported" if session.imported else ""
    first = "diverged" if session.diverged else "newer version" if session.newer else first
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
    """Return the columns that fit into `width` cells, each wide enough for its content.

    Without `shorten_ids` a session's id is always complete, even if the table gets wider than `width`.
    """
    longest = _LONGEST if shorten_ids else {**_LONGEST, "session": _WHOLE, "from": _WHOLE}
    family = any(
        session.parent or session.kind == "flow" or session.imported or session.newer or session.diverged
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
            # Shortening another session's id loses less than dropping a count.
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
    """Return the column headings."""
    return (" " * GAP).join(column.fit(column.heading) for column in chosen)


def row(chosen: Sequence[Column], session: SessionSummary) -> list[str]:
    """Return the cells of one session, each in its column's width."""
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
