"""Whether the lists of a journal say what its events say: who can write the file can change them alone.

The lines of sessions and of decisions follow from the events; screens show them, no chain covers them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from .decided import COLUMNS, DecisionLine, SessionCalls, opened_calls
from .errors import JournalError
from .events import JournalEvent, SessionOpened
from .projection import Projection
from .rows import SELECT_EVENTS, SELECT_SESSION, EventRow, event_of, in_pages
from .schema import inspect, reading
from .times import to_ms


def listed_otherwise(path: Path, leave: Collection[str] = ()) -> Iterator[str]:
    """The ids of sessions whose line or decisions are not what their events make; nothing is changed.

    Those in `leave` are not looked at, nor those with an event that this version cannot read, and of a
    journal that is not up to date none. Raises `JournalError` for a file that cannot be read.
    """
    if inspect(path)[0] != "current":
        return
    with reading(path) as connection:
        connection.execute("BEGIN")
        rows = connection.execute(f"{SELECT_SESSION} ORDER BY opened, rowid").fetchall()
        for row in rows:
            session = row[0]
            if session in leave:
                continue
            try:
                line, decisions = _made(_events(connection, session, path))
            except (ValueError, JournalError):
                continue
            stored = connection.execute(
                f"SELECT {COLUMNS} FROM decision WHERE session = ? ORDER BY cursor", (session,)
            )
            if (
                replace(line, imported=bool(row[-1])).row() != tuple(row)
                or decisions != stored.fetchall()
            ):
                yield session
        yield from (
            str(session)
            for (session,) in connection.execute(
                "SELECT DISTINCT session FROM decision WHERE session NOT IN (SELECT id FROM session)"
            )
        )


def _made(events: Iterator[JournalEvent]) -> tuple[Projection, list[DecisionLine]]:
    """A session's line and its decisions. Raises `ValueError` for events that make none."""
    calls = SessionCalls("", child=True)
    decisions: dict[int, DecisionLine] = {}

    def told() -> Iterator[JournalEvent]:
        nonlocal calls
        for event in events:
            if isinstance(event.body, SessionOpened):
                calls = opened_calls(event.body)
            change = calls.take(event, to_ms(event.at))
            if isinstance(change, DecisionLine):
                decisions[change.cursor] = change
            elif change is not None and change.cursor in decisions:
                decisions[change.cursor] = decisions[change.cursor]._replace(result=change.result)
            yield event

    return Projection.of(told()), list(decisions.values())


def _events(connection: sqlite3.Connection, session: str, path: Path) -> Iterator[JournalEvent]:
    def page(after: float, size: int) -> list[EventRow]:
        return connection.execute(SELECT_EVENTS, (session, after, size)).fetchall()

    return (event_of(row, path) for row in in_pages(page))
