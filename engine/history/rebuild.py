"""Making anew what follows from the events: they are the record, the rest is a convenience."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

from ..text import visible
from .decided import COLUMNS, rebuild_decisions
from .errors import JournalError
from .projection import Projection
from .rows import REPLACE_SESSION, SELECT_SESSION, session_events
from .schema import name_of
from .upkeep import changing
from .vouching import vouch_in


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many sessions there are, and the ids of those whose line was not what their events make.

    `decisions` says whether lines of decisions were wrong and have been made anew.
    """

    sessions: int
    mended: tuple[str, ...]
    decisions: bool = False


def rebuild(path: Path) -> Rebuilt:
    """Write every session's line and those of its decisions anew from its events, where they differ.

    A line without events is left: the verification names it. That a session was imported is known from
    its line, or from the signature of its first event where the line was changed. Raises `JournalError`,
    also for an event that cannot be read; then nothing is changed.
    """
    mended: list[str] = []
    with changing(path) as connection:
        listed = _decisions(connection)
        sessions = [s for (s,) in connection.execute("SELECT DISTINCT session FROM event").fetchall()]
        for session in sessions:
            row = connection.execute(f"{SELECT_SESSION} WHERE id = ?", (session,)).fetchone()
            try:
                line = Projection.of(session_events(connection, session, path))
            except ValueError as error:
                raise JournalError(
                    f"Session '{visible(session)}' of journal '{name_of(path)}' cannot be followed: "
                    f"{visible(str(error))}. Nothing was changed; restore a backup."
                ) from error
            marked = row is not None and bool(row[-1])
            line = replace(line, imported=marked or _is_signed(connection, session))
            if row is None or tuple(row) != line.row():
                mended.append(session)
                connection.execute(REPLACE_SESSION, line.row())
        connection.execute("SAVEPOINT decisions")
        rebuild_decisions(connection)
        changed = _decisions(connection) != listed
        if not changed:
            connection.execute("ROLLBACK TO decisions")
    return Rebuilt(len(sessions), tuple(mended), changed)


def _is_signed(connection: sqlite3.Connection, session: str) -> bool:
    """Whether somebody who imported it has signed a session's first event."""
    row = connection.execute(
        "SELECT content FROM event WHERE session = ? ORDER BY seq LIMIT 1", (session,)
    ).fetchone()
    return vouch_in(row[0])[1] is not None


def _decisions(connection: sqlite3.Connection) -> bytes:
    """What stands for all lines of decisions."""
    found = hashlib.sha256()
    for row in connection.execute(f"SELECT {COLUMNS} FROM decision ORDER BY cursor"):
        found.update(repr(row).encode())
    return found.digest()
