"""Whether the lists of a journal say what its events say: who can write the file can change them alone.

The lines of sessions and of decisions follow from the events; screens show them, no chain covers them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from .decided import COLUMNS, DecisionLine, listing
from .errors import JournalError
from .events import JournalEvent
from .projection import Projection
from .rows import SELECT_SESSION, session_events
from .schema import inspect, reading


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
                line, decisions = _made(session_events(connection, session, path))
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
    decisions: dict[int, DecisionLine] = {}
    return Projection.of(listing(events, decisions)), list(decisions.values())
