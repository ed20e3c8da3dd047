"""Copy of a whole journal to another place: from a file into PostgreSQL, or back.

Events keep everything that is part of their chains, and sessions and stubs keep everything. Only cursors
are assigned anew, in the order of each session. The copy is verified before it is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.compiled import LinkedRow
from ..database.connection import Connection
from ..database.lanes import LaneCursors, Row, positions, rows_behind
from ..database.location import Location, absolute, resolved
from ..decisions.index import rebuild_decisions
from ..errors import JournalError
from ..journal.lock import WriteLock
from ..journal.maintenance import changing
from ..journal.rows import session_events
from ..journal.schema import name_of, reading
from ..journal.session_index import SessionLine
from ..logs.key_log import KeyLog
from ..logs.line_log import LOGS, LineLog, LogName, line_log
from ..postgres.connection import STANDS_FOR_NUL, PostgresConnection
from ..postgres.divergence import open_divergences
from ..postgres.maintenance import add_unowned, next_numbers
from ..postgres.schema import end_silent
from .verify import check_file, check_session, require_journal

_PAGE = 500
_MOST_OF_A_LOG = 1 << 30
_LIVING = "SELECT name FROM server WHERE ended IS NULL ORDER BY started LIMIT 1"


@dataclass(frozen=True, slots=True)
class Copied:
    """Result of a copy; `lines` are the numbers of lines in the logs of freezes and passkeys, by log."""

    sessions: int
    events: int
    stubs: int
    lines: dict[LogName, int]


def copy_journal(source: Location, target: Location) -> Copied:
    """Copy a whole journal into another one, which is created if there is none.

    Either everything is copied or, except lines of logs, nothing. Raises `JournalError` if the source is
    written at the same time, has a broken chain or lacks events, or if the target has one of its sessions
    or logs of its own.
    """
    source, target = absolute(source), absolute(target)
    if resolved(source) == resolved(target):
        raise JournalError(f"'{name_of(source)}' cannot be copied into itself. Name another journal.")
    with _without_writers(source):
        missing_count = check_file(source).missing
        if missing_count:
            raise JournalError(
                f"Journal '{name_of(source)}' lacks {missing_count} of the events that it numbered, "
                "which the copy would not show. Nothing was copied; see: interlock history verify"
            )
        start_positions = _positions(source)
        with changing(target, create=True) as connection:
            copied = _copy(source, target, connection)
            if _positions(source) != start_positions:
                raise JournalError(
                    f"Journal '{name_of(source)}' was written during the copy. Nothing was copied; "
                    "stop its servers and try again."
                )
    return copied


@contextmanager
def _without_writers(source: Location) -> Generator[None, None, None]:
    """Keep other processes from writing a file. Raises `JournalError` if the journal is being written.

    A database's last server that was killed writes no more, but has not recorded its end.
    """
    require_journal(source)
    if isinstance(source, Path):
        lock = WriteLock.acquire(source.resolve(), maintenance=True)
        try:
            yield
        finally:
            lock.release()
        return
    end_silent(source)
    with reading(source) as connection:
        server = connection.execute(_LIVING).fetchone()
    if server is not None:
        raise JournalError(
            f"Journal '{name_of(source)}' is being written by a server: {visible(server[0])}. "
            "Stop it before copying."
        )
    if divergences := open_divergences(source):
        raise JournalError(
            f"Journal '{name_of(source)}' lost events of session '{visible(divergences[0].session)}' "
            "that it had acknowledged, which the copy would not show. Nothing was copied; have an "
            "operator accept that first: interlock approvals accept-loss"
        )
    yield


def _positions(source: Location) -> LaneCursors:
    with reading(source) as connection:
        return positions(connection)


def _copy(source: Location, target: Location, connection: Connection) -> Copied:
    with reading(source) as source_connection:
        sessions = source_connection.execute(sql.SELECT_SESSIONS_AS_ADDED).fetchall()
        stubs = source_connection.execute(sql.SELECT_STUBS).fetchall()
    logs: dict[LogName, list[str]] = {name: _lines(source, target, name) for name in LOGS}
    names = [str(row[0]) for row in sessions]
    _check_free(connection, target, [*names, *(str(row[0]) for row in stubs)])
    cursor_count = sum(row[7] for row in sessions) + sum(row[4] for row in stubs)
    first = _first_number(connection, cursor_count)
    connection.executemany(sql.INSERT_STUB, stubs)
    connection.executemany(sql.UPSERT_SESSION, [(*row[:-1], bool(row[-1])) for row in sessions])
    # Cursors for pruned events come first, so that the copy has assigned the right number of cursors.
    cursors = count(first + sum(row[4] for row in stubs))
    events = 0
    for rows in _pages(source):
        events += len(rows)
        connection.executemany(
            sql.INSERT_EVENT, [LinkedRow(*row)._replace(cursor=next(cursors)) for row in rows]
        )
    if isinstance(connection, PostgresConnection):
        for name in names:
            [(seq, head)] = connection.execute(sql.SELECT_LAST_LINK, (name,)).fetchall()
            add_unowned(connection, name, seq, head)
    elif cursor_count:
        connection.execute(sql.SET_LAST_CURSOR, (first + cursor_count - 1,))
    for row in sessions:
        if any(isinstance(each, str) and STANDS_FOR_NUL in each for each in row):
            # The events store the original of texts that PostgreSQL cannot store.
            line = SessionLine.of(session_events(connection, row[0], target))
            connection.execute(sql.REPLACE_SESSION, replace(line, imported=bool(row[-1])).row())
    for name in names:
        rebuild_decisions(connection, name)
    _check(source, target, connection, names)
    for log, lines_of_log in logs.items():
        _append(line_log(target, log), lines_of_log)
    lines: dict[LogName, int] = {name: len(each) for name, each in logs.items()}
    return Copied(len(sessions), events, len(stubs), lines)


def _pages(source: Location) -> Iterator[Sequence[Row]]:
    cursors: LaneCursors = {}
    more = True
    while more:
        with reading(source) as connection:
            rows, cursors, more = rows_behind(connection, sql.SELECT_LINKED_SINCE, cursors, _PAGE)
        if rows:
            yield rows


def _first_number(connection: Connection, numbered: int) -> int:
    """Return the first of a range of cursors that the target has not assigned."""
    if isinstance(connection, PostgresConnection):
        return next_numbers(connection, numbered) + 1
    return int(connection.execute(sql.SELECT_LAST_CURSOR).fetchone()[0]) + 1


def _check_free(connection: Connection, target: Location, names: Iterable[str]) -> None:
    for name in names:
        if (
            connection.execute(sql.SELECT_LENGTH, (name,)).fetchone()
            or connection.execute(sql.SELECT_STUB, (name,)).fetchone()
        ):
            raise JournalError(
                f"Journal '{name_of(target)}' has, or had, session '{visible(name)}'. "
                "Nothing was copied; name another journal."
            )


def _check(source: Location, target: Location, connection: Connection, names: Sequence[str]) -> None:
    """Raise `JournalError` unless each chain is intact in the target, and ends as in the source."""
    keys = KeyLog(source).read().entries
    with reading(source) as source_connection:
        for name in names:
            line = connection.execute(sql.SELECT_LENGTH, (name,)).fetchone()
            check = check_session(connection, *line, known=keys)
            last = source_connection.execute(sql.SELECT_LAST_HASH, (name,)).fetchone()
            if check.fault is not None or last is None or last[0] != check.head:
                why = "its last event is another one" if check.fault is None else check.fault.message
                raise JournalError(
                    f"Session '{visible(name)}' is not intact in '{name_of(target)}': {visible(why)}. "
                    f"Nothing was copied; see: interlock history --db {name_of(source)} verify"
                )


# Logs


def _lines(source: Location, target: Location, name: LogName) -> list[str]:
    """Return the lines of a log that the target lacks. Raises `JournalError` if it has different ones."""
    try:
        text, present = (line_log(each, name).read(_MOST_OF_A_LOG) for each in (source, target))
    except OSError as error:
        raise JournalError(f"The log of {name} cannot be read: {error}. Nothing was copied.") from error
    if not present or present == text:
        return [] if present else (text or b"").decode("utf-8", "strict").splitlines()
    raise JournalError(
        f"Journal '{name_of(target)}' has its own log of {name}, which cannot be merged with that "
        f"of '{name_of(source)}'. Nothing was copied; name another journal."
    )


def _append(log: LineLog, lines: Iterable[str]) -> None:
    try:
        for line in lines:
            log.append(line)
    except OSError as error:
        raise JournalError(f"'{log.name}' cannot be written: {error}. Nothing was copied.") from error
