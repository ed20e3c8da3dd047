"""Changes to a journal as a whole while no other process writes it: for import, pruning, rebuilding."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ...core.sanitize import visible
from ..audit.attestation import vouch_in
from ..database import compiled as sql
from ..database.compiled import DecisionLine
from ..decisions.index import listing, rebuild_decisions
from ..errors import JournalError
from ..model.events import JournalEvent
from .lock import WriteLock
from .rows import session_events
from .schema import inspect, name_of, prepare, reading
from .session_index import SessionLine
from .writer import connect_writing


@contextmanager
def changing(
    path: Path, *, create: bool = False, shrink: bool = False
) -> Generator[sqlite3.Connection, None, None]:
    """A connection in one transaction, which is durable when the context ends and undone when it raises.

    The journal is brought up to date first. With `shrink` the space of what was deleted is given back at
    the end. Raises `JournalError` when there is none (unless `create`), when another process writes it,
    and for whatever SQLite says.
    """
    path = path.absolute()
    shown = name_of(path)
    if inspect(path)[0] == "fresh" and not create:
        raise JournalError(f"There is no journal at '{shown}' yet. Name another: --db FILE")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.resolve()
    except OSError as error:
        raise JournalError(
            f"Cannot make the directory of journal '{shown}': {error.strerror}. Choose another place."
        ) from error
    lock = WriteLock.acquire(path, maintenance=True)
    try:
        prepare(path)
        with closing(connect_writing(path)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            try:
                before = connection.total_changes
                yield connection
                connection.execute("COMMIT")
                if shrink and connection.total_changes > before:
                    with suppress(sqlite3.Error):  # no space: what was deleted is gone all the same
                        connection.execute("VACUUM")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise JournalError(
            f"Journal '{shown}' could not be changed: {error}. Check the free space and the permissions."
        ) from error
    finally:
        lock.release()


# Rebuilding what follows from the events: they are the record, the rest is a convenience.


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Result of a rebuild: how many sessions there are, and the ids of those whose line was wrong.

    `decisions` says whether lines of decisions were wrong and have been rewritten.
    """

    sessions: int
    mended: tuple[str, ...]
    decisions: bool = False


def rebuild(path: Path) -> Rebuilt:
    """Rewrite every session's line and those of its decisions from its events, where they differ.

    A line without events is left: the verification names it. That a session was imported is known from
    its line, or from the signature of its first event where the line was changed. Raises `JournalError`,
    also for an event that cannot be read; then nothing is changed.
    """
    mended: list[str] = []
    with changing(path) as connection:
        listed = _decisions(connection)
        sessions = [s for (s,) in connection.execute(sql.SELECT_EVENT_SESSIONS).fetchall()]
        for session in sessions:
            row = connection.execute(sql.SELECT_SESSION, (session,)).fetchone()
            try:
                line = SessionLine.of(session_events(connection, session, path))
            except ValueError as error:
                raise JournalError(
                    f"Session '{visible(session)}' of journal '{name_of(path)}' cannot be followed: "
                    f"{visible(str(error))}. Nothing was changed; restore a backup."
                ) from error
            marked = row is not None and bool(row[-1])
            line = replace(line, imported=marked or _is_signed(connection, session))
            if row is None or tuple(row) != line.row():
                mended.append(session)
                connection.execute(sql.REPLACE_SESSION, line.row())
        connection.execute("SAVEPOINT decisions")
        rebuild_decisions(connection)
        changed = _decisions(connection) != listed
        if not changed:
            connection.execute("ROLLBACK TO decisions")
    return Rebuilt(len(sessions), tuple(mended), changed)


def _is_signed(connection: sqlite3.Connection, session: str) -> bool:
    """Tell whether a session's first event is signed, as it is when the session is imported."""
    row = connection.execute(sql.SELECT_FIRST_CONTENT, (session,)).fetchone()
    return vouch_in(row[0])[1] is not None


def _decisions(connection: sqlite3.Connection) -> bytes:
    """The SHA-256 digest of all lines of decisions."""
    found = hashlib.sha256()
    for row in connection.execute(sql.SELECT_DECISIONS):
        found.update(repr(row).encode())
    return found.digest()


# Verification of a journal's lists against its events: who can write the file can change the lists
# alone.
#
# The lines of sessions and of decisions follow from the events; screens show them, no chain covers
# them.


def index_mismatches(path: Path, skipped: Collection[str] = ()) -> Iterator[str]:
    """The ids of sessions whose line or decisions are not what their events make; nothing is changed.

    Those in `skipped` are not looked at, nor those with an event that this version cannot read, and of a
    journal that is not up to date none. Raises `JournalError` for a file that cannot be read.
    """
    if inspect(path)[0] != "current":
        return
    with reading(path) as connection:
        connection.execute("BEGIN")
        rows = connection.execute(sql.SELECT_SESSIONS_AS_OPENED).fetchall()
        for row in rows:
            session = row[0]
            if session in skipped:
                continue
            try:
                line, decisions = _lines_of(session_events(connection, session, path))
            except (ValueError, JournalError):
                continue
            stored = connection.execute(sql.SELECT_DECISIONS_OF_SESSION, (session,))
            if (
                replace(line, imported=bool(row[-1])).row() != tuple(row)
                or decisions != stored.fetchall()
            ):
                yield session
        yield from (str(session) for (session,) in connection.execute(sql.SELECT_STRAY_DECISION_SESSIONS))


def _lines_of(events: Iterator[JournalEvent]) -> tuple[SessionLine, list[DecisionLine]]:
    """A session's line and its decisions. Raises `ValueError` for events that make none."""
    decisions: dict[int, DecisionLine] = {}
    return SessionLine.of(listing(events, decisions)), list(decisions.values())
