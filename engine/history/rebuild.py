"""Making anew what follows from the events: they are the record, the rest is a convenience."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..text import visible
from .errors import JournalError
from .events import JournalEvent
from .projection import Projection
from .rows import REPLACE_SESSION, SELECT_EVENTS, SELECT_SESSION, event_of
from .schema import name_of
from .upkeep import changing

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many sessions there are, and the ids of those whose line was not what their events make."""

    sessions: int
    mended: tuple[str, ...]


def rebuild(path: Path) -> Rebuilt:
    """Write every session's line anew from its events.

    A line without events is left: the verification names it. Raises `JournalError`, also for an event
    that cannot be read; then nothing is changed.
    """
    mended: list[str] = []
    with changing(path) as connection:
        sessions = [s for (s,) in connection.execute("SELECT DISTINCT session FROM event").fetchall()]
        for session in sessions:
            row = connection.execute(f"{SELECT_SESSION} WHERE id = ?", (session,)).fetchone()
            try:
                line = Projection.of(_events(connection, session, path))
            except ValueError as error:
                raise JournalError(
                    f"Session '{visible(session)}' of journal '{name_of(path)}' cannot be followed: "
                    f"{visible(str(error))}. Nothing was changed; restore a backup."
                ) from error
            if row is not None:
                line = replace(line, imported=row[-1])
            if row is None or tuple(row) != line.row():
                mended.append(session)
                connection.execute(REPLACE_SESSION, line.row())
    return Rebuilt(len(sessions), tuple(mended))


def _events(connection: sqlite3.Connection, session: str, path: Path) -> Iterator[JournalEvent]:
    after = 0
    while True:
        rows = connection.execute(SELECT_EVENTS, (session, after, _PAGE)).fetchall()
        for row in rows:
            yield event_of(row, path)
        if len(rows) < _PAGE:
            return
        after = rows[-1][2]
