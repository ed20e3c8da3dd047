"""Changes to a journal as a whole: for import, pruning, rebuilding.

No other process may write a file at the same time. Servers continue to use a database; their unfinished
sessions are left alone.
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
from ..postgres.divergence import open_in
from ..postgres.maintenance import changing_database, lock_sessions
from ..postgres.schema import prepare as prepare_database
from .file_schema import prepare
from .lock import WriteLock
from .rows import session_events
from .schema import inspect, name_of, reading
from .session_index import DIVERGED, SessionLine
from .writer import connect_writing

FRESH_DATABASE = (
    "Name another: --db JOURNAL, or make its tables: start one server as the role that owns them"
)


class Upgrade(NamedTuple):
    """A journal's revision before an upgrade, and its recorded revision afterwards."""

    before: str
    found: Revision


def upgrade(path: Location) -> Upgrade:
    """Upgrade a journal to this version, if it is older.

    Raises `JournalError` if there is none, and as `prepare` does.
    """
    path = absolute(path)
    age, before = inspect(path)
    if age == "fresh":
        remedy = "Name another: --db JOURNAL" if isinstance(path, Path) else FRESH_DATABASE
        raise JournalError(f"There is no journal at '{name_of(path)}' yet. {remedy}")
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
    """Open a connection in one transaction, committed durably on exit and undone on an exception.

    The journal is upgraded first. With `shrink` the space of deleted data is freed at the end. Raises
    `JournalError` if there is no journal (unless `create`), if another process writes its file, and for
    any database error.
    """
    path = absolute(path)
    if not isinstance(path, Path):
        with changing_database(path, create=create, shrink=shrink) as connection:
            yield connection
        return
    name = name_of(path)
    if inspect(path)[0] == "fresh" and not create:
        raise JournalError(f"There is no journal at '{name}' yet. Name another: --db JOURNAL")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.resolve()
    except OSError as error:
        raise JournalError(
            f"Cannot make the directory of journal '{name}': {error.strerror}. Choose another place."
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
                    with suppress(sqlite3.Error):  # no space: the data is deleted all the same
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
            f"Journal '{name}' could not be changed: {error}. Check the free space and the permissions."
        ) from error
    finally:
        lock.release()


def changeable(connection: Connection, sessions: Sequence[str], *, lock: bool = True) -> frozenset[str]:
    """Return those of `sessions` that can be changed in the transaction; in a file these are all."""
    if isinstance(connection, PostgresConnection):
        return lock_sessions(connection, sessions, lock=lock)
    return frozenset(sessions)


def stored(connection: Connection, row: tuple[object, ...]) -> tuple[object, ...]:
    """Return a row as the connection's database stores it."""
    return stored_row(row) if isinstance(connection, PostgresConnection) else row


# Rebuilding of tables that follow from the events: the events are the record, the rest is a cache.


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Result of a rebuild: the number of sessions, and the ids of those whose line was wrong.

    `decisions` says whether lines of decisions were wrong and have been rewritten. `held` are sessions
    that a server owns: their lines were not checked.
    """

    sessions: int
    mended: tuple[str, ...]
    decisions: bool = False
    held: tuple[str, ...] = ()


def rebuild(path: Location) -> Rebuilt:
    """Rewrite each session's line, and the lines of its decisions, if they differ from its events.

    A line without events stays; verification reports it. Whether a session was imported is known from its
    line, or from the signature of its first event if the line was changed. Raises `JournalError`, also
    for an event that cannot be read; nothing is changed then.
    """
    mended_sessions: list[str] = []
    with changing(path) as connection:
        sessions = [s for (s,) in connection.execute(sql.SELECT_EVENT_SESSIONS).fetchall()]
        free = changeable(connection, sessions)
        decisions_digest = _decisions(connection, free)
        diverged_ids = _diverged_ids(connection)
        for session in filter(free.__contains__, sessions):
            row = connection.execute(sql.SELECT_SESSION, (session,)).fetchone()
            try:
                line = SessionLine.of(session_events(connection, session, path))
            except ValueError as error:
                raise JournalError(
                    f"Session '{visible(session)}' of journal '{name_of(path)}' cannot be rebuilt: "
                    f"{visible(str(error))}. Nothing was changed; restore a backup."
                ) from error
            is_imported = row is not None and bool(row[-1])
            line = replace(line, imported=is_imported or _is_signed(connection, session))
            line = _with_divergence(line, row, diverged_ids)
            if row is None or tuple(row) != stored(connection, line.row()):
                mended_sessions.append(session)
                connection.execute(sql.REPLACE_SESSION, line.row())
        connection.execute("SAVEPOINT decisions")
        strays: list[tuple[str]] = []
        if isinstance(connection, PostgresConnection):
            strays = connection.execute(sql.SELECT_STRAY_DECISION_SESSIONS).fetchall()
            session_rows = [*strays, *((session,) for session in free)]
            connection.executemany(sql.DELETE_DECISIONS_OF_SESSION, session_rows)
            for session in free:
                rebuild_decisions(connection, session)
        else:
            rebuild_decisions(connection)
        is_changed = bool(strays) or _decisions(connection, free) != decisions_digest
        if not is_changed:
            connection.execute("ROLLBACK TO decisions")
    busy_sessions = tuple(session for session in sessions if session not in free)
    return Rebuilt(len(free), tuple(mended_sessions), is_changed, busy_sessions)


def _diverged_ids(connection: Connection) -> Collection[str]:
    """Return the sessions that diverged: only their line says so, no event does."""
    if not isinstance(connection, PostgresConnection):
        return ()
    return {each.session for each in open_in(connection)}


def _with_divergence(
    line: SessionLine, row: Sequence[object] | None, diverged: Collection[str]
) -> SessionLine:
    """Return the line, with the status and error of a session that diverged taken from its `row`."""
    if line.id not in diverged:
        return line
    error = line.error if row is None else SessionLine.of_row(row).error
    return replace(line, status=DIVERGED, error=error)


def _is_signed(connection: Connection, session: str) -> bool:
    """Return whether a session's first event is signed, as it is if the session was imported."""
    row = connection.execute(sql.SELECT_FIRST_CONTENT, (session,)).fetchone()
    return vouch_in(row[0])[1] is not None


def _decisions(connection: Connection, sessions: Collection[str]) -> bytes:
    """Return the SHA-256 digest of all lines of decisions; for a database, of those of `sessions`."""
    digest = hashlib.sha256()
    if not isinstance(connection, PostgresConnection):
        for row in connection.execute(sql.SELECT_DECISIONS):
            digest.update(repr(row).encode())
        return digest.digest()
    for session in sorted(sessions):
        for row in connection.execute(sql.SELECT_DECISIONS_OF_SESSION, (session,)).fetchall():
            digest.update(repr(row).encode())
    return digest.digest()


# Verification of a journal's lists against its events. The lines of sessions and of decisions follow from
# the events. Screens show them, but no hash chain covers them, so a program that can write the file can
# change them alone.


def index_mismatches(path: Location, skipped: Collection[str] = ()) -> Iterator[str]:
    """Yield the ids of sessions whose line or decisions do not match their events; nothing is changed.

    Sessions in `skipped` are not checked, nor those with an event that this version cannot read. Nothing
    is checked in a journal that is not up to date. Raises `JournalError` for a file that cannot be read.
    """
    if inspect(path)[0] != "current":
        return
    with reading(path) as connection:
        connection.execute("BEGIN")
        rows = connection.execute(sql.SELECT_SESSIONS_AS_OPENED).fetchall()
        diverged_ids = _diverged_ids(connection)
        for row in rows:
            session = row[0]
            if session in skipped:
                continue
            try:
                line, decisions = _lines_of(session_events(connection, session, path))
            except (ValueError, JournalError):
                continue
            recorded_decisions = connection.execute(
                sql.SELECT_DECISIONS_OF_SESSION, (session,)
            ).fetchall()
            rebuilt_row = _with_divergence(replace(line, imported=bool(row[-1])), row, diverged_ids).row()
            decisions.sort(key=itemgetter(0))
            rebuilt_decisions = [stored(connection, each) for each in decisions]
            if stored(connection, rebuilt_row) != tuple(row) or rebuilt_decisions != recorded_decisions:
                yield session
        yield from (str(session) for (session,) in connection.execute(sql.SELECT_STRAY_DECISION_SESSIONS))


def _lines_of(events: Iterator[JournalEvent]) -> tuple[SessionLine, list[DecisionLine]]:
    """Return a session's line and its decisions. Raises `ValueError` for events that have none."""
    decisions: dict[int, DecisionLine] = {}
    return SessionLine.of(listing(events, decisions)), list(decisions.values())
