"""The one connection that writes a journal: a batch of events becomes one durable transaction.

Used by one thread at a time; who may call it when is the journal's business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .chain import Place, link, new_salt
from .decided import BEARING, Change, SessionCalls, calls_before, opened_calls, write_changes
from .errors import JournalError
from .events import JournalEvent, SessionOpened
from .projection import Projection
from .rows import INSERT_EVENT, LAST_HASH, SELECT_SESSION, UPSERT_SESSION, LinkedRow
from .schema import BUSY_SECONDS, name_of
from .times import to_ms


@dataclass(frozen=True, slots=True)
class Written:
    """An event and its body as the database takes it."""

    event: JournalEvent
    body: str


def connect_writing(path: Path) -> sqlite3.Connection:
    """A connection whose commits are durable when they return, for who holds the write lock.

    Raises `JournalError` where no write-ahead log can be kept, `sqlite3.Error` for a file that can only
    be read.
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
        self._lines: dict[str, Projection] = {}
        self._calls: dict[str, SessionCalls] = {}
        self._heads: dict[str, bytes] = {}
        self._connection = connect_writing(path)
        self._identity = _identity(path)

    def commit(self, batch: Sequence[Written]) -> None:
        """Write `batch`; returns once it is durable. What it raises means that none was written."""
        connection = self._connection
        try:
            self._check_in_place()
            connection.execute("BEGIN IMMEDIATE")
            lines, decisions = self._project(batch)
            connection.executemany(UPSERT_SESSION, [line.row() for line in lines.values()])
            connection.executemany(INSERT_EVENT, self._chained(batch))
            write_changes(connection, decisions)
            connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise

    def _check_in_place(self) -> None:
        """SQLite would go on writing into a file that was deleted, where nobody finds it again."""
        if self._identity != _identity(self._path):
            raise sqlite3.OperationalError(
                "the file was moved, deleted or replaced; restart to use what is there"
            )

    def _project(self, batch: Sequence[Written]) -> tuple[dict[str, Projection], list[Change]]:
        lines: dict[str, Projection] = {}
        decisions: list[Change] = []
        for written in batch:
            event = written.event
            line = lines.get(event.session)
            if line is None:
                line = self._line(event)
                lines[event.session] = line
            change = self._change(event, line)
            if change is not None:
                decisions.append(change)
            line.add(event)
        return lines, decisions

    def _change(self, event: JournalEvent, line: Projection) -> Change | None:
        """What `event` changes in the lines of decisions; `line` is the session's before it."""
        calls = self._calls.get(event.session)
        if calls is None:
            if not isinstance(event.body, BEARING):
                return None
            if isinstance(event.body, SessionOpened):
                calls = opened_calls(event.body)
            else:
                calls = SessionCalls(line.agent, child=line.kind == "child")
                calls_before(self._connection, event, calls)
            self._calls[event.session] = calls
        return calls.take(event)

    def _line(self, event: JournalEvent) -> Projection:
        line = self._lines.get(event.session)
        if line is None:
            row = self._connection.execute(f"{SELECT_SESSION} WHERE id = ?", (event.session,)).fetchone()
            if row is not None:
                line = Projection.of_row(row)
            elif isinstance(event.body, SessionOpened):
                line = Projection.opening(event, event.body)
            else:
                raise sqlite3.IntegrityError(f"session '{event.session}' was never opened")
            self._lines[event.session] = line
        return line

    def _chained(self, batch: Sequence[Written]) -> list[LinkedRow]:
        """The rows of `batch`, each linked to the one before it in its session."""
        rows: list[LinkedRow] = []
        for written in batch:
            event, salt = written.event, new_salt()
            at = to_ms(event.at)
            place = Place(event.session, event.seq, at)
            prev = self._head(event.session) if event.seq > 1 else None
            linked = link(place, written.body, salt, prev)
            self._heads[event.session] = linked
            rows.append(
                (
                    event.cursor,
                    event.session,
                    event.seq,
                    at,
                    event.body.type,
                    written.body,
                    salt,
                    None,
                    linked,
                )
            )
        return rows

    def _head(self, session: str) -> bytes | None:
        head = self._heads.get(session)
        if head is None:
            row = self._connection.execute(LAST_HASH, (session,)).fetchone()
            head = None if row is None else bytes(row[0])
        return head

    def _undo(self) -> None:
        """Forget a failed batch.

        A commit can fail after its frames reached the log, and a later crash would bring them back. So
        the log is emptied where possible; where not, the next commit overwrites them.
        """
        self._lines.clear()
        self._calls.clear()
        self._heads.clear()
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

    def close(self) -> None:
        """Empty the log into the file and close."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
