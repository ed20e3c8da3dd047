"""The one connection that writes a journal: a batch of events becomes one durable transaction.

Only one thread may use it at a time; the journal ensures this.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..batches.rows import BatchRowsMaker, SessionEnd, Written
from ..batches.writer import BatchWriter, Refusal
from ..database import compiled as sql
from ..database.connection import Connection
from ..database.insert import insert
from ..decisions.index import write_changes
from ..errors import JournalDisturbed, JournalError
from ..model.events import JournalEvent
from .file_schema import BUSY_SECONDS
from .footprint import Footprint, disturbance, remedy
from .schema import name_of
from .session_index import SessionLine

_PROOFS = 1 << 30


def connect_writing(path: Path) -> sqlite3.Connection:
    """Open a connection whose commits are durable when they return, for the holder of the write lock.

    Raises `JournalError` if the file system does not support a write-ahead log, `sqlite3.Error` for a
    file that can only be read.
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
        # With NORMAL a commit returns before it is on disk: a power cut would undo acknowledged events.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        # A read-only file fails here, not at the first decision.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE alembic_version SET version_num = version_num")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


class _Rows(BatchRowsMaker):
    """Builds rows from the state in the file."""

    def read_end(self, connection: Connection, event: JournalEvent) -> SessionEnd | None:
        row = connection.execute(sql.SELECT_SESSION, (event.session,)).fetchone()
        if row is None:
            return None
        head = connection.execute(sql.SELECT_LAST_HASH, (event.session,)).fetchone()
        return SessionEnd(SessionLine.of_row(row), None if head is None else bytes(head[0]))


class Writer(BatchWriter):
    """Commits batches to a file. A failed batch leaves nothing behind, and the writer stays usable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = _Rows()
        self._connection = connect_writing(path)
        self._footprint = Footprint.of(path)

    def last_cursor(self, connection: Connection) -> int:
        """Return the cursor of the latest event, read on another connection."""
        return int(connection.execute(sql.SELECT_LAST_CURSOR).fetchone()[0])

    def commit(self, batch: Sequence[Written]) -> Mapping[str, Refusal]:
        """Write `batch` and return once it is durable. An exception means that nothing was written.

        Rejects no session. Raises `JournalDisturbed` if another program changed the files, and then
        writes nothing to them.
        """
        self._check_in_place()
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            rows = self._rows.rows(connection, batch)
            insert(connection, sql.UPSERT_SESSION, [line.row() for line in rows.lines])
            insert(connection, sql.INSERT_EVENT, rows.events)
            write_changes(connection, rows.decisions)
            connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        self._footprint = Footprint.of(self._path)
        return {}

    def prove(self) -> None:
        """Commit a new number to the file's header, on which no event and no version depends.

        Setting the same number again would not reach the disk.
        """
        self._check_in_place()
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            [number] = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {(number + 1) % _PROOFS}")
            connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        self._footprint = Footprint.of(self._path)

    def _check_in_place(self) -> None:
        """Check that the files were not changed or replaced.

        SQLite would keep writing to a deleted file, and would write pages from its cache into a changed
        one.
        """
        footprint = Footprint.of(self._path)
        if footprint == self._footprint:
            return
        fault = disturbance(self._path, self._footprint, footprint)
        if fault is not None:
            raise JournalDisturbed(f"Journal '{name_of(self._path)}': {fault}. {remedy(self._path)}")
        self._footprint = Footprint.of(self._path)

    def _undo(self) -> None:
        """Discard a failed batch.

        A commit can fail after its frames reached the log, and a later crash would bring them back. The
        log is therefore emptied if possible; otherwise the next commit overwrites them.
        """
        self._rows.sessions.clear()
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
        footprint = Footprint.of(self._path)
        if footprint.same_file(self._footprint):
            self._footprint = footprint

    def close(self) -> None:
        """Move the log's content into the file and close."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.close()
