"""The one connection that writes a journal: a batch of events becomes one durable transaction.

Used by one thread at a time; who may call it when is the journal's business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..audit.hash_chain import event_hash_of_parts, new_salts, parts
from ..database import compiled as sql
from ..database.compiled import LinkedRow
from ..decisions.index import (
    LISTED_EVENTS,
    Change,
    SessionCalls,
    calls_before,
    opened_calls,
    write_changes,
)
from ..errors import JournalDisturbed, JournalError
from ..model.events import JournalEvent, SessionOpened
from ..model.fast_models import construct_tuple
from .encoding import Encoded
from .footprint import Footprint, disturbance, remedy
from .insert import insert
from .schema import BUSY_SECONDS, name_of
from .session_index import SessionLine


class Written(NamedTuple):
    """An event, its body as the database takes it, and its time in UTC milliseconds."""

    event: JournalEvent
    body: Encoded
    at: int


@dataclass(slots=True)
class _SessionState:
    """State of a session before its next event: its line, the last hash of its chain, its calls."""

    line: SessionLine
    head: bytes | None
    calls: SessionCalls | None = None


def connect_writing(path: Path) -> sqlite3.Connection:
    """A connection whose commits are durable when they return, for who holds the write lock.

    Raises `JournalError` where the file's system takes no write-ahead log, `sqlite3.Error` for a file
    that can only be read.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_SECONDS,
    )
    try:
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise JournalError(
                f"Journal '{name_of(path)}' cannot use a write-ahead log here "
                f"(SQLite says '{mode}'). Choose a file on a local disk."
            )
        # NORMAL answers before a commit is on disk: a power cut would undo what was acknowledged.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        # A file that can only be read fails here, not at the first decision.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE alembic_version SET version_num = version_num")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


class Writer:
    """Commits batches. A failed one leaves nothing behind and the writer usable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[str, _SessionState] = {}
        self._connection = connect_writing(path)
        self._footprint = Footprint.of(path)

    def commit(self, batch: Sequence[Written]) -> None:
        """Write `batch`; returns once it is durable. What it raises means that none was written.

        Raises `JournalDisturbed` for files that something else touched, and writes nothing to them.
        """
        self._check_in_place()
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            lines, events, decisions = self._rows(batch)
            insert(connection, sql.UPSERT_SESSION, lines)
            insert(connection, sql.INSERT_EVENT, events)
            write_changes(connection, decisions)
            connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        self._footprint = Footprint.of(self._path)

    def _check_in_place(self) -> None:
        """SQLite would go on writing into a file that was deleted, and from its cache into others."""
        found = Footprint.of(self._path)
        if found == self._footprint:
            return
        fault = disturbance(self._path, self._footprint, found)
        if fault is not None:
            raise JournalDisturbed(f"Journal '{name_of(self._path)}': {fault}. {remedy(self._path)}")
        self._footprint = Footprint.of(self._path)

    def _rows(
        self, batch: Sequence[Written]
    ) -> tuple[list[tuple[object, ...]], list[LinkedRow], list[Change]]:
        """The table rows that `batch` makes. Its events are linked to those before them."""
        touched: dict[str, SessionLine] = {}
        events: list[LinkedRow] = []
        decisions: list[Change] = []
        for (event, (text, hashed), at), salt in zip(batch, new_salts(len(batch)), strict=True):
            session, seq = event.session, event.seq
            state = self._sessions.get(session) or self._state_of(event)
            line = touched[session] = state.line
            calls = state.calls or self._calls_before(event, state)
            change = None if calls is None else calls.take(event, at)
            if change is not None:
                decisions.append(change)
            line.add(event, at)
            linked = event_hash_of_parts((session, seq, at), hashed or parts(text), salt, state.head)
            state.head = linked
            row = event.cursor, session, seq, at, event.body.type, text, salt, None, linked
            events.append(construct_tuple(LinkedRow, row))
        return [line.row() for line in touched.values()], events, decisions

    def _state_of(self, event: JournalEvent) -> _SessionState:
        """A session as the file has it, or at its opening `event`."""
        session = event.session
        row = self._connection.execute(sql.SELECT_SESSION, (session,)).fetchone()
        if row is not None:
            head = self._connection.execute(sql.SELECT_LAST_HASH, (session,)).fetchone()
            state = _SessionState(SessionLine.of_row(row), None if head is None else bytes(head[0]))
        elif isinstance(event.body, SessionOpened):
            state = _SessionState(SessionLine.opening(event, event.body), None, opened_calls(event.body))
        else:
            raise sqlite3.IntegrityError(f"session '{session}' was never opened")
        self._sessions[session] = state
        return state

    def _calls_before(self, event: JournalEvent, state: _SessionState) -> SessionCalls | None:
        """The calls of a session, read from the file, for an `event` that bears on them; else `None`."""
        if not isinstance(event.body, LISTED_EVENTS):
            return None
        calls = state.calls = SessionCalls(state.line.agent, child=state.line.kind == "child")
        calls_before(self._connection, event, calls)
        return calls

    def _undo(self) -> None:
        """Forget a failed batch.

        A commit can fail after its frames reached the log, and a later crash would bring them back. So
        the log is emptied where possible; where not, the next commit overwrites them.
        """
        self._sessions.clear()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                self._connection.close()
            with suppress(sqlite3.Error, JournalError):
                self._connection = connect_writing(self._path)
        found = Footprint.of(self._path)
        if found.same_file(self._footprint):
            self._footprint = found

    def close(self) -> None:
        """Empty the log into the file and close."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.close()
