"""Reading a journal, also while another process writes it: sessions and their events.

Every query has a read-only connection to itself, so a reader needs no closing, can be shared between
threads, and never blocks the writer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from ...core.sanitize import visible
from ..database import compiled as sql
from ..database.connection import ALL_ROWS, Connection
from ..database.lanes import LaneCursors, positions, rows_behind
from ..database.location import Location, PostgresLocation, absolute
from ..errors import JournalError, SessionNotFound
from ..model.events import JournalEvent, MessageAdded
from ..model.state import SessionSummary
from ..model.times import from_ms
from ..postgres.connection import PostgresConnection
from ..postgres.servers.lease import owner_of
from .lazy_events import LazyEvents
from .lock import is_written
from .rows import PAGE, EventMaker, event_of, shown_event
from .schema import CURRENT, Schema, inspect, name_of, reading
from .session_index import SessionLine

if TYPE_CHECKING:
    from .read_connections import Connections

__all__ = ["HistoryReader", "JournalError", "SessionNotFound", "open_reader"]

_CANDIDATES = 10
_REQUEST_MADE = (
    "SELECT seq FROM event WHERE session = ? AND type = 'request.made' AND body LIKE ? LIMIT 1"
)
_OPENINGS = ('{"type":"session.opened"', '{"type":"session.resumed"')


def open_reader(path: Path | PostgresLocation | str, schema: Schema = CURRENT) -> HistoryReader:
    """Open a reader of the journal at `path`.

    Raises `JournalError` if there is no journal, or if it is not a journal, is damaged, or has another
    schema.
    """
    path = absolute(path)
    name = name_of(path)
    age, revision = inspect(path, schema)
    if age == "fresh":
        raise JournalError(
            f"There is no journal at '{name}' yet. "
            "Run an agent with this journal first, or name another one."
        )
    if age == "older":
        raise JournalError(
            f"Journal '{name}' has the older schema {revision}, and this version needs {schema.newest}. "
            "Upgrade it: interlock journal upgrade"
        )
    return HistoryReader(path)


@dataclass(frozen=True, slots=True)
class ConversationLine:
    """A session in a list of conversations: first words, number of messages, time of the last one."""

    session: str
    first_text: str
    messages: int
    updated: datetime


class HistoryReader:
    """Content of a journal at the time of each query. Methods raise `JournalError` if it is unreadable.

    `made` builds its events: `known_event` for callers that act on them.
    """

    def __init__(
        self, path: Location, connections: Connections | None = None, *, made: EventMaker = event_of
    ) -> None:
        self.path: Location = path
        self._connections = connections
        self._event = made
        self.connection = partial(reading, path) if connections is None else connections.reading
        """Opens a connection for queries of other modules."""

    def showing(self) -> HistoryReader:
        """Return a reader for display only: events of newer versions appear by their types."""
        return HistoryReader(self.path, self._connections, made=shown_event)

    def sessions(self, limit: int | None = 200, *, agent: str | None = None) -> list[SessionSummary]:
        """Return sessions, the latest changed first: all without a `limit`, those of `agent` if given."""
        row_limit = ALL_ROWS if limit is None else limit
        with self.connection() as connection:
            if agent is None:
                rows = connection.execute(sql.SELECT_SESSIONS, (row_limit,)).fetchall()
            else:
                rows = connection.execute(sql.SELECT_SESSIONS_OF_AGENT, (agent, row_limit)).fetchall()
        return [self._summary(row) for row in rows]

    def labels(self, session: str) -> tuple[str, ...]:
        """Return the labels that people gave a session when it was opened, or resumed last.

        Raises `JournalError` for an event that cannot be read.
        """
        with self.connection() as connection:
            rows = connection.execute(sql.SELECT_NETS, (session,)).fetchall()
        opening = next((text for _, text in reversed(rows) if text.startswith(_OPENINGS)), "{}")
        try:
            return tuple(map(str, json.loads(opening).get("session_labels", ())))
        except ValueError as error:
            description = f"{visible(session)} of '{name_of(self.path)}'"
            raise JournalError(f"The opening of session {description} cannot be read: {error}") from error

    def unfinished(self) -> list[SessionSummary]:
        """Return this journal's own sessions that neither ended nor failed, the latest changed first."""
        with self.connection() as connection:
            rows = connection.execute(sql.SELECT_UNFINISHED_SESSIONS).fetchall()
        return [self._summary(row) for row in rows if not row[-1]]

    def session(self, id_or_prefix: str, *, whole: bool = False) -> SessionSummary:
        """Return the session with this id, or the only one with this prefix. Raises `SessionNotFound`.

        With `whole` only the exact id counts; searching prefixes takes longer the more sessions there
        are.
        """
        # A shell may pass text that SQLite cannot accept.
        prefix = id_or_prefix.encode("utf-8", "replace").decode()
        with self.connection() as connection:
            row = connection.execute(sql.SELECT_SESSION, (prefix,)).fetchone()
            if row is not None:
                return self._summary(row)
            if whole:
                raise SessionNotFound(id_or_prefix, [], ambiguous=False)
            prefix_rows = connection.execute(
                sql.SELECT_SESSIONS_BY_PREFIX, (len(prefix), prefix, _CANDIDATES + 1)
            ).fetchall()
        if prefix and len(prefix_rows) == 1:
            return self._summary(prefix_rows[0])
        if prefix and prefix_rows:
            candidates = [self._summary(row).id for row in prefix_rows[:_CANDIDATES]]
            raise SessionNotFound(id_or_prefix, candidates, ambiguous=True)
        latest = [summary.id for summary in self.sessions(_CANDIDATES)]
        raise SessionNotFound(id_or_prefix, latest, ambiguous=False, pruned=self._pruning_note(prefix))

    def session_with_request(self, request_id: str, sessions: Sequence[str]) -> str | None:
        """Return the one of `sessions` whose record has a request of the Agent Approval Protocol."""
        with self.connection() as connection:
            for session in sessions:
                if (
                    connection.execute(_REQUEST_MADE, (session, f'%"{request_id}"%')).fetchone()
                    is not None
                ):
                    return session
        return None

    def _pruning_note(self, prefix: str) -> str | None:
        """Return when and by whom a session was pruned, found by its id or an unambiguous prefix."""
        rows: list[tuple[str, int, str]] = []
        with suppress(JournalError), self.connection() as connection:
            rows = connection.execute(sql.SELECT_STUBS_BY_PREFIX, (len(prefix), prefix)).fetchall()
        stubs = [row for row in rows if row[0] == prefix] or rows
        with suppress(OverflowError, TypeError):  # columns may hold values of any type
            if prefix and len(stubs) == 1:
                return f"on {from_ms(stubs[0][1]).date().isoformat()} by {stubs[0][2]}"
        return None

    def is_hosted(self, session: str) -> bool:
        """Return whether a process may be continuing a session: one that writes the file, or owns it."""
        if isinstance(self.path, Path):
            return is_written(self.path)
        with self.connection() as connection:
            return (
                isinstance(connection, PostgresConnection) and owner_of(connection, session) is not None
            )

    def events(self, session: str, *, after: int = 0, limit: int | None = None) -> Iterator[JournalEvent]:
        """Yield a session's events after its event number `after`, in order; none for an unknown session.

        They are read page by page; events added while reading come at the end.
        """
        remaining = limit
        while remaining is None or remaining > 0:
            size = PAGE if remaining is None else min(PAGE, remaining)
            with self.connection() as connection:
                rows = connection.execute(sql.SELECT_EVENTS, (session, after, size)).fetchall()
            for row in rows:
                yield self._event(row, self.path)
            if len(rows) < size:
                return
            after = rows[-1][2]
            remaining = None if remaining is None else remaining - size

    def since(self, cursor: int, limit: int) -> list[JournalEvent]:
        """Return the first `limit` events of all sessions after `cursor`, in cursor order.

        Events recorded by several servers do not come in that order: see `since_positions`.
        """
        with self.connection() as connection:
            rows = connection.execute(sql.SELECT_SINCE, (cursor, ALL_ROWS, limit)).fetchall()
        return [self._event(row, self.path) for row in rows]

    def positions(self) -> LaneCursors:
        """Return the last cursor of each lane, from which `since_positions` continues."""
        with self.connection() as connection:
            return positions(connection)

    def since_positions(
        self, behind: Mapping[int, int], limit: int
    ) -> tuple[list[JournalEvent], LaneCursors, bool]:
        """Return events of all sessions after positions, their positions, and whether there are more.

        There are at most `limit` of each lane; the list is empty only if there are none yet. A caller
        that continues from the returned positions misses no event, and gets each session's events in
        order.
        """
        with self.connection() as connection:
            rows, after, more = rows_behind(connection, sql.SELECT_SINCE, behind, limit)
        return [self._event(row, self.path) for row in rows], after, more

    def last_cursor(self) -> int:
        """Return the cursor of the latest event; 0 for a journal without events."""
        with self.connection() as connection:
            return int(connection.execute(sql.SELECT_LAST_CURSOR).fetchone()[0])

    def recorded(self, session: str) -> LazyEvents:
        """Return all events of a session up to now, in order, each parsed on first access."""
        with self.connection() as connection:
            rows = connection.execute(sql.SELECT_EVENTS, (session, 0, ALL_ROWS)).fetchall()
        return LazyEvents(rows, self.path, self._event)

    def talks(self) -> list[ConversationLine]:
        """Return sessions with messages, the one with the latest message first."""
        with self.connection() as connection:
            rows = connection.execute(sql.SELECT_TALKS).fetchall()
            return [
                ConversationLine(session, self._first_text(connection, session), count, from_ms(at))
                for session, count, at in rows
            ]

    def _first_text(self, connection: Connection, session: str) -> str:
        for row in connection.execute(sql.SELECT_MESSAGES, (session,)):
            body = self._event(row, self.path).body
            if isinstance(body, MessageAdded) and body.role == "user":
                return body.text or ""
        return ""

    def count(self, session: str) -> int:
        """Return the number of a session's events."""
        with self.connection() as connection:
            return int(connection.execute(sql.COUNT_EVENTS, (session,)).fetchone()[0])

    def _summary(self, row: Sequence[object]) -> SessionSummary:
        try:
            return SessionLine.of_row(row).summary()
        except (ValueError, TypeError, OverflowError) as error:
            why = str(error)
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise JournalError(
                f"Journal '{name_of(self.path)}': the line of session '{visible(str(row[0]))}' cannot be "
                f"read: {visible(why)}. Another program changed the file. To find the change and to "
                "rebuild the line: interlock history verify, interlock history rebuild"
            ) from error
