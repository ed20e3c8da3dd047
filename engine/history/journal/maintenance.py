"""Changes to a journal as a whole: for import, pruning, rebuilding.

No other process writes a file meanwhile. Servers go on with a database, and those of their sessions that
did not end are left alone.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from ...core.sanitize import visible
from ..audit.attestation import vouch_in
from ..database import compiled as sql
from ..database.compiled import DecisionLine
from ..database.connection import Connection
from ..database.location import Location, absolute
from ..database.revisions import Revision, read_revision
from ..decisions.index import listing, rebuild_decisions
from ..errors import JournalError
from ..model.events import JournalEvent
from ..postgres.connection import PostgresConnection, stored_row
from ..postgres.maintenance import changing_database, lock_sessions
from ..postgres.schema import prepare as prepare_database
from .file_schema import prepare
from .lock import WriteLock
from .rows import session_events
from .schema import inspect, name_of, reading
from .session_index import SessionLine
from .writer import connect_writing


class Upgrade(NamedTuple):
    """A journal's revision before an upgrade, and what it says since then."""

    before: str
    found: Revision


def upgrade(path: Location) -> Upgrade:
    """Bring a journal up to this version, if it is older.

    Raises `JournalError` when there is none, and as `prepare` does.
    """
    path = absolute(path)
    age, before = inspect(path)
    if age == "fresh":
        raise JournalError(f"There is no journal at '{name_of(path)}' yet. Name another: --db JOURNAL")
    if age == "older" and isinstance(path, Path):
        with changing(path):
            pass
    elif age == "older" and not isinstance(path, Path):
        prepare_database(path)
    with reading(path) as connection:
        return Upgrade(before or "", read_revision(connection))


@contextmanager
def changing(
    path: Location, *, create: bool = False, shrink: bool = False
) -> Generator[Connection, None, None]:
    """A connection in one transaction, which is durable when the context ends and undone when it raises.

    The journal is brought up to date first. With `shrink` the space of what was deleted is given back at
    the end. Raises `JournalError` when there is none (unless `create`), when another process writes its
    file, and for whatever the database says.
    """
    path = absolute(path)
    if not isinstance(path, Path):
        with changing_database(path, create=create, shrink=shrink) as connection:
            yield connection
        return
    shown = name_of(path)
    if inspect(path)[0] == "fresh" and not create:
        raise JournalError(f"There is no journal at '{shown}' yet. Name another: --db JOURNAL")
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


def changeable(connection: Connection, sessions: Sequence[str], *, lock: bool = True) -> frozenset[str]:
    """Those of `sessions` that can be changed in the transaction; of a file all."""
    if isinstance(connection, PostgresConnection):
        return lock_sessions(connection, sessions, lock=lock)
    return frozenset(sessions)


def stored(connection: Connection, row: tuple[object, ...]) -> tuple[object, ...]:
    """A row as the connection's database stores it."""
    return stored_row(row) if isinstance(connection, PostgresConnection) else row


# Rebuilding what follows from the events: they are the record, the rest is a convenience.


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Result of a rebuild: how many sessions there are, and the ids of those whose line was wrong.

    `decisions` says whether lines of decisions were wrong and have been rewritten. `held` are sessions
    that a server has: their lines were not looked at.
    """

    sessions: int
    mended: tuple[str, ...]
    decisions: bool = False
    held: tuple[str, ...] = ()


def rebuild(path: Location) -> Rebuilt:
    """Rewrite every session's line and those of its decisions from its events, where they differ.

    A line without events is left: the verification names it. That a session was imported is known from
    its line, or from the signature of its first event where the line was changed. Raises `JournalError`,
    also for an event that cannot be read; then nothing is changed.
    """
    mended: list[str] = []
    with changing(path) as connection:
        sessions = [s for (s,) in connection.execute(sql.SELECT_EVENT_SESSIONS).fetchall()]
        free = changeable(connection, sessions)
        listed = _decisions(connection, free)
        for session in filter(free.__contains__, sessions):
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
            if row is None or tuple(row) != stored(connection, line.row()):
                mended.append(session)
                connection.execute(sql.REPLACE_SESSION, line.row())
        connection.execute("SAVEPOINT decisions")
        strays: list[tuple[str]] = []
        if isinstance(connection, PostgresConnection):
            strays = connection.execute(sql.SELECT_STRAY_DECISION_SESSIONS).fetchall()
            gone = [*strays, *((session,) for session in free)]
            connection.executemany(sql.DELETE_DECISIONS_OF_SESSION, gone)
            for session in free:
                rebuild_decisions(connection, session)
        else:
            rebuild_decisions(connection)
        changed = bool(strays) or _decisions(connection, free) != listed
        if not changed:
            connection.execute("ROLLBACK TO decisions")
    held = tuple(session for session in sessions if session not in free)
    return Rebuilt(len(free), tuple(mended), changed, held)


def _is_signed(connection: Connection, session: str) -> bool:
    """Tell whether a session's first event is signed, as it is when the session is imported."""
    row = connection.execute(sql.SELECT_FIRST_CONTENT, (session,)).fetchone()
    return vouch_in(row[0])[1] is not None


def _decisions(connection: Connection, sessions: Collection[str]) -> bytes:
    """The SHA-256 digest of all lines of decisions; of a database those of `sessions`."""
    found = hashlib.sha256()
    if not isinstance(connection, PostgresConnection):
        for row in connection.execute(sql.SELECT_DECISIONS):
            found.update(repr(row).encode())
        return found.digest()
    for session in sorted(sessions):
        for row in connection.execute(sql.SELECT_DECISIONS_OF_SESSION, (session,)).fetchall():
            found.update(repr(row).encode())
    return found.digest()


# Verification of a journal's lists against its events: who can write the file can change the lists
# alone.
#
# The lines of sessions and of decisions follow from the events; screens show them, no chain covers
# them.


def index_mismatches(path: Location, skipped: Collection[str] = ()) -> Iterator[str]:
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
            listed = connection.execute(sql.SELECT_DECISIONS_OF_SESSION, (session,)).fetchall()
            made = replace(line, imported=bool(row[-1])).row()
            decisions.sort(key=itemgetter(0))
            wanted = [stored(connection, each) for each in decisions]
            if stored(connection, made) != tuple(row) or wanted != listed:
                yield session
        yield from (str(session) for (session,) in connection.execute(sql.SELECT_STRAY_DECISION_SESSIONS))


def _lines_of(events: Iterator[JournalEvent]) -> tuple[SessionLine, list[DecisionLine]]:
    """A session's line and its decisions. Raises `ValueError` for events that make none."""
    decisions: dict[int, DecisionLine] = {}
    return SessionLine.of(listing(events, decisions)), list(decisions.values())
