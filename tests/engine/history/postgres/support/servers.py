"""Access to servers of a journal in PostgreSQL: their parts, other connections and failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

from interlock.engine.history.batches.rows import Written
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.encoding import encoded
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import EventBody, JournalEvent
from interlock.engine.history.model.times import from_ms
from interlock.engine.history.postgres.connection import PostgresConnection, connect
from interlock.engine.history.postgres.servers.lease import ServerLease
from interlock.engine.history.postgres.writer import PostgresWriter


def lease(journal: Journal) -> ServerLease:
    """Return a journal's lease among the servers."""
    return cast(ServerLease, journal._lock)


def writer(journal: Journal) -> PostgresWriter:
    """Return the part of a journal that commits."""
    return cast(PostgresWriter, journal._writer)


@contextmanager
def beside(location: PostgresLocation) -> Iterator[PostgresConnection]:
    """Open a separate connection; its end rolls back an open transaction."""
    connection = connect(location)
    try:
        yield connection
    finally:
        connection.close()


def rows(location: PostgresLocation, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement on a separate connection and return its rows."""
    with beside(location) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def end(journal: Journal) -> None:
    """End a server as another one does after its lease has expired; the server does not know yet."""
    location = lease(journal).location
    rows(location, "UPDATE server SET ended = lease WHERE id = ?", (lease(journal).id,))


class Step:
    """A separate connection whose statements stay in an open transaction."""

    def __init__(self, location: PostgresLocation) -> None:
        self.connection = connect(location)
        self._process = self.connection.raw.info.backend_pid
        self._location = location
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self.found: list[tuple[Any, ...]] = []

    def run(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """Run a statement, leave its transaction open and return its rows."""
        if self.connection.raw.info.transaction_status == 0:
            self.connection.raw.execute("BEGIN")
        if isinstance(values, dict):
            cursor = self.connection.execute_named(statement, values)
        else:
            cursor = self.connection.execute(statement, values)
        self.found = cursor.fetchall() if cursor.description else []
        return self.found

    def start(self, statement: str, values: Any = ()) -> None:
        """Run a statement in a thread until it waits for another one's lock."""

        def go() -> None:
            try:
                self.run(statement, values)
            except Exception as error:
                self._error = error

        self._thread = threading.Thread(target=go, daemon=True)
        self._thread.start()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE pid = ? AND wait_event_type = 'Lock'"
        wait_for(lambda: bool(rows(self._location, waiting, (self._process,))))

    def go_on(self) -> list[tuple[Any, ...]]:
        """Wait for the started statement and return its rows, or raise its error."""
        assert self._thread is not None
        self._thread.join(20)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self.found

    def commit(self) -> None:
        self.connection.raw.commit()

    def roll_back(self) -> None:
        self.connection.raw.rollback()

    def close(self) -> None:
        self.connection.close()


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Return once the condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def append_values(journal: Journal, *bodies: EventBody, session: str) -> dict[str, Any]:
    """Return the values of the append statement for these events, without sending it.

    The server's next commit starts from the database's state.
    """
    with journal._mutex:
        head, cursor = journal._head(session), journal._last_cursor()
    at = head.at + 1
    batch = [
        Written(
            JournalEvent(
                cursor=cursor + number, session=session, seq=head.seq + number, at=from_ms(at), body=body
            ),
            encoded(body),
            at,
        )
        for number, body in enumerate(bodies, 1)
    ]
    made: list[dict[str, Any]] = []

    class TakenError(Exception):
        pass

    def keep(rows: Any, moves: Any, before: int) -> dict[str, Any]:
        made.append(values(rows, moves, before))
        raise TakenError

    values = writer(journal)._values
    writer(journal)._values = keep
    try:
        with suppress(TakenError):
            writer(journal).commit(batch)
    finally:
        del writer(journal)._values
    return made[0]


def lose(location: PostgresLocation, session: str, kept: int) -> None:
    """Let a database lose a session's events after the first `kept`."""
    [(status,)] = rows(
        location, "SELECT CASE WHEN ? > 0 THEN 'idle' END FROM session WHERE id = ?", (kept, session)
    )
    values = kept, session
    rows(location, "DELETE FROM decision WHERE seq > ? AND session = ?", values)
    rows(location, "DELETE FROM event WHERE seq > ? AND session = ?", values)
    if status is None:
        rows(location, "DELETE FROM owner WHERE session = ?", (session,))
        rows(location, "DELETE FROM session WHERE id = ?", (session,))
        return
    head = "(SELECT hash FROM event WHERE event.session = owner.session AND event.seq = ?)"
    rows(location, f"UPDATE owner SET seq = ?, hash = {head} WHERE session = ?", (kept, kept, session))
    updated = "(SELECT max(at) FROM event WHERE event.session = session.id)"
    rows(
        location,
        f"UPDATE session SET events = ?, updated = {updated}, status = 'idle', error = NULL WHERE id = ?",
        values,
    )


def fail_over(journal: Journal) -> None:
    """Let a server compare its sessions with the database again, as after a failover."""
    writer(journal)._drop()
    writer(journal)._ends._compared = None
