"""The connection by which a server writes: a batch of events becomes one durable statement.

Used by one thread at a time; who may call it when is the journal's business.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..database import compiled as sql
from ..database.compiled import DecisionLine
from ..database.connection import Connection
from ..database.location import PostgresLocation
from ..decisions.index import CallEnded
from ..errors import SessionElsewhere
from ..journal.batch_rows import BatchRows, BatchRowsMaker, SessionEnd, Written
from ..journal.session_index import SessionLine
from ..model.events import JournalEvent
from .append import APPEND, Move, arrays
from .connection import PostgresConnection, connect, driver, storable
from .server import ServerLease, owner_of

RECONNECT_SECONDS = 30.0
"""Time for which a lost connection is tried again before a batch fails."""
_PAUSE = 0.05


class _Rows(BatchRowsMaker):
    """Makes rows from what the database has, and takes the sessions that nobody owns."""

    def __init__(self, lease: ServerLease) -> None:
        super().__init__()
        self._lease = lease

    def read_end(self, connection: Connection, event: JournalEvent) -> SessionEnd | None:
        assert isinstance(connection, PostgresConnection)
        if connection.execute(sql.SELECT_KIND, (event.session,)).fetchone() is None:
            return None
        owned = self._lease.claim(connection, event.session)
        if owned is None:
            raise elsewhere(connection, event.session)
        if owned.seq != event.seq - 1:
            raise SessionElsewhere(
                f"Session '{event.session}' went on at another server: event {event.seq} cannot "
                f"follow event {owned.seq}. Nothing was recorded; resume the session.",
                session=event.session,
            )
        head = connection.execute(sql.SELECT_SESSION, (event.session,)).fetchone()
        return SessionEnd(SessionLine.of_row(head), owned.hash, epoch=owned.epoch)


class PostgresWriter:
    """Commits batches to a database. A failed one leaves nothing behind and the writer usable.

    `fenced` counts the writes that were refused since another server owned the session.
    """

    def __init__(self, location: PostgresLocation, lease: ServerLease) -> None:
        self._location = location
        self._lease = lease
        self._rows = _Rows(lease)
        self._connection: PostgresConnection | None = connect(location, name="interlock journal")
        self._last = lease.last_number(self._connection)
        self.fenced = 0

    def last_cursor(self, connection: Connection) -> int:
        """The cursor of this server's latest event, read on another connection."""
        assert isinstance(connection, PostgresConnection)
        return self._lease.base() + self._lease.last_number(connection)

    def commit(self, batch: Sequence[Written]) -> dict[str, SessionElsewhere]:
        """Write `batch`; returns once it is durable and this server may answer.

        Returns the errors of the sessions whose events were not taken, since another server owns them.
        Raises `JournalDisturbed` once another server has ended this one, and `psycopg.Error` where the
        database did not take the batch. After a lost connection it is looked up whether the batch is in:
        the statement sets the lane's number, and the first of two leaves nothing to the second.
        """
        if not batch:
            return {}
        psycopg = driver()
        until = time.monotonic() + RECONNECT_SECONDS
        refused: dict[str, SessionElsewhere] = {}
        try:
            while True:
                try:
                    rows = self._made(batch, refused)
                    break
                except psycopg.OperationalError:
                    self._rows.sessions.clear()
                    self._reconnect(until)
            if rows.events:
                self._append(rows, refused, until)
        except BaseException:
            self._rows.sessions.clear()
            raise
        if not self._lease.holds() and not self._lease.wait_until_held():
            raise self._lease.taken()
        return refused

    def _made(self, batch: Sequence[Written], refused: dict[str, SessionElsewhere]) -> BatchRows:
        """The rows of `batch` but for sessions of other servers, whose errors go into `refused`."""
        connection = self._open()
        while True:
            mine = [each for each in batch if each.event.session not in refused]
            try:
                return self._rows.rows(connection, mine)
            except SessionElsewhere as error:
                # The events before were counted in: what is known of their sessions is read again.
                self._rows.sessions.clear()
                refused[error.session] = error

    def _append(self, rows: BatchRows, refused: dict[str, SessionElsewhere], until: float) -> None:
        psycopg = driver()
        ends = self._rows.sessions
        moves = [
            Move(line.id, ends[line.id].epoch, seq, head or b"", line.events, ends[line.id].head or b"")
            for line in rows.lines
            for seq, head in [rows.before[line.id]]
        ]
        values = self._values(rows, moves)
        last = int(values["last"])
        again = False
        while True:
            try:
                found = self._open().raw.execute(APPEND.encode(), values).fetchall()
            except psycopg.OperationalError:
                self._reconnect(until)
                again = True
                continue
            break
        if found:
            kept = {session for (session,) in found if session is not None}
        elif again and self._lease.last_number(self._open()) == last:
            kept = self._kept(moves)
        else:
            self._lease.last_number(self._open())
            raise psycopg.OperationalError("what this server last wrote is not what the database has")
        self._last = last
        for move in moves:
            if move.session in kept:
                ends[move.session].epoch = move.epoch or 1
            else:
                self.fenced += 1
                ends.pop(move.session, None)
                refused[move.session] = elsewhere(self._open(), move.session)

    def _values(self, rows: BatchRows, moves: Sequence[Move]) -> dict[str, Any]:
        """The values of the statement that appends `rows`."""
        lines: dict[int, DecisionLine] = {}
        results: list[CallEnded] = []
        for change in rows.decisions:
            if isinstance(change, DecisionLine):
                lines[change.cursor] = DecisionLine(*[_text(each) for each in change])
            elif change.cursor in lines:  # a statement does not see the rows that it adds
                lines[change.cursor] = lines[change.cursor]._replace(result=change.result)
            else:
                results.append(change)
        listed = [[_text(each) for each in line.row()] for line in rows.lines]
        return {
            "server": self._lease.id,
            "lane": self._lease.lane,
            "before": self._last,
            "last": rows.events[-1].cursor - self._lease.base(),
            **arrays(m=moves, s=listed, e=rows.events, d=[*lines.values()], r=results),
        }

    def _kept(self, moves: Sequence[Move]) -> set[str]:
        """The sessions whose end is the one that a batch gave them."""
        kept: set[str] = set()
        for move in moves:
            row = (
                self._open()
                .execute("SELECT seq, hash FROM owner WHERE session = ?", (move.session,))
                .fetchone()
            )
            if row is not None and (row[0], bytes(row[1])) == (move.new_seq, move.new_hash):
                kept.add(move.session)
        return kept

    def _open(self) -> PostgresConnection:
        if self._connection is None:
            self._connection = connect(self._location, name="interlock journal")
        return self._connection

    def _reconnect(self, until: float) -> None:
        """Wait for the database to answer again. Raises `psycopg.Error` once it took too long."""
        psycopg = driver()
        self._drop()
        while True:
            try:
                self._open().execute("SELECT 1")
            except psycopg.OperationalError:
                self._drop()
                if time.monotonic() > until:
                    raise
            else:
                return
            if self._lease.ended:
                raise self._lease.taken()
            time.sleep(_PAUSE)

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(driver().Error):
                self._connection.close()
        self._connection = None

    def close(self) -> None:
        self._drop()


def _text(value: object) -> Any:
    return storable(value) if type(value) is str else value


def elsewhere(connection: PostgresConnection, session: str) -> SessionElsewhere:
    """The error for a session that another server owns."""
    owner = owner_of(connection, session)
    if owner is None:
        said = f"Session '{session}' went to another server meanwhile. Nothing was recorded; resume it."
        return SessionElsewhere(said, session=session)
    where = owner[2] or owner[1]
    said = f"Session '{session}' is at another server: {where}. Nothing was recorded; go on there."
    return SessionElsewhere(said, session=session, url=owner[2])
