"""A server's place among those that write one database: its lane, its lease, and the end of both.

All times that servers compare are the database's. A lease that is over ends nothing by itself: another
server says so first, in the same row, and from then on the one that had it writes nothing more. A server
goes by its own monotonic clock when it asks itself whether it may still answer.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from ..database import compiled as sql
from ..database.location import PostgresLocation
from ..errors import JournalDisturbed, JournalError
from .connection import PostgresConnection, connect, driver, unreachable

LEASE_SECONDS = 8.0
"""Time that a server may be silent before another one takes its sessions."""

_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
_REGISTER = f"""
INSERT INTO server (id, name, url, version, started, lease)
VALUES (?, ?, NULL, ?, {_NOW}, {_NOW} + ?)
"""
_TAKE_LANE = """
UPDATE lane SET server = ? WHERE lane = (
    SELECT lane.lane FROM lane LEFT JOIN server ON server.id = lane.server
    WHERE lane.lane > 0 AND (lane.server IS NULL OR server.id IS NULL OR server.ended IS NOT NULL)
    ORDER BY lane.lane LIMIT 1 FOR UPDATE OF lane SKIP LOCKED
) RETURNING lane, last
"""
_NEW_LANE = """
INSERT INTO lane (lane, server, last) SELECT coalesce(max(lane), 0) + 1, ?, 0 FROM lane
ON CONFLICT (lane) DO NOTHING RETURNING lane, last
"""
_RENEW = f"UPDATE server SET lease = {_NOW} + ? WHERE id = ? AND ended IS NULL RETURNING lease"
_END_EXPIRED = (
    f"UPDATE server SET ended = {_NOW} WHERE ended IS NULL AND lease < {_NOW} AND id <> ? RETURNING id"
)
_LEAVE = f"UPDATE server SET ended = {_NOW} WHERE id = ? AND ended IS NULL"
_LET_GO = "UPDATE owner SET server = NULL WHERE server = ?"
_NAME = "UPDATE server SET url = ? WHERE id = ?"
_CLAIM = """
UPDATE owner SET server = ?, epoch = epoch + 1 WHERE session = ? AND (
    server IS NULL OR server = ? OR NOT EXISTS (
        SELECT FROM server WHERE server.id = owner.server AND server.ended IS NULL
    )
) RETURNING epoch, seq, hash
"""
_ORPHANS = """
SELECT session.id FROM session LEFT JOIN owner ON owner.session = session.id
LEFT JOIN server ON server.id = owner.server
WHERE session.status NOT IN ('done', 'failed') AND NOT session.imported
    AND (server.id IS NULL OR server.ended IS NOT NULL)
ORDER BY session.opened, session.rowid LIMIT ?
"""
_SERVERS = f"""
SELECT server.id, server.name, server.url, server.version, server.started, server.lease - {_NOW},
    server.ended, (SELECT count(*) FROM owner JOIN session ON session.id = owner.session
        WHERE owner.server = server.id AND session.status NOT IN ('done', 'failed'))
FROM server WHERE server.ended IS NULL OR server.ended > {_NOW} - ? ORDER BY server.started, server.id
"""
_OWNER = """
SELECT server.id, server.name, server.url FROM owner JOIN server ON server.id = owner.server
WHERE owner.session = ? AND server.ended IS NULL
"""
_OLDEST_LISTED_MS = 24 * 3600 * 1000


class ServerLine(NamedTuple):
    """A server as it is listed. `lease` is what is left of its lease, in milliseconds; times are UTC."""

    id: str
    name: str
    url: str | None
    version: str
    started: int
    lease: int
    ended: int | None
    sessions: int


class Ownership(NamedTuple):
    """A session's end as the database has it, for the server that owns it now."""

    epoch: int
    seq: int
    hash: bytes


class ServerLease:
    """Lease of this process on a lane. Make one with `take`; it renews itself until `release`.

    `seconds` is the length of the lease. `on_expired`, called in a thread of its own, says that leases of
    other servers were found over. What is asked of it for a batch uses the connection of who asks.
    """

    def __init__(
        self, location: PostgresLocation, name: str, lane: int, valid_until: float, seconds: float
    ) -> None:
        self.location = location
        self.id = name
        self.lane = lane
        self.seconds = seconds
        self.on_expired: Callable[[], None] | None = None
        self.on_ended: Callable[[], None] | None = None
        self._valid_until = valid_until
        self._ended = False
        self._released = False
        self._stop = threading.Event()
        self._renewed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"lease {name}", daemon=True)
        self._thread.start()

    @classmethod
    def take(cls, location: PostgresLocation, *, seconds: float = LEASE_SECONDS) -> ServerLease:
        """Register as a server and take a lane. Raises `JournalError`."""
        psycopg = driver()
        own = secrets.token_hex(8)
        ms = int(seconds * 1000)
        try:
            connection = connect(location)
            try:
                connection.execute(_END_EXPIRED, (own,))
                begun = time.monotonic()
                connection.execute(_REGISTER, (own, _name(), _version(), ms))
                row: Any = None
                while row is None:
                    row = connection.execute(_TAKE_LANE, (own,)).fetchone()
                    row = row or connection.execute(_NEW_LANE, (own,)).fetchone()
                return cls(location, own, int(row[0]), begun + seconds, seconds)
            finally:
                connection.close()
        except psycopg.Error as error:
            raise unreachable(location, error) from error

    def holds(self) -> bool:
        """Tell whether the lease still holds by this process's own clock."""
        return not self._ended and time.monotonic() < self._valid_until

    @property
    def ended(self) -> bool:
        """Whether another server has ended this one."""
        return self._ended

    def wait_until_held(self) -> bool:
        """Wait until the lease is renewed, or ended: then false."""
        with self._renewed:
            while not self.holds():
                if self._ended or self._stop.is_set():
                    return False
                self._renewed.wait(self.seconds / 4)
        return True

    def end(self) -> None:
        """Note that another server has ended this one."""
        with self._renewed:
            first, self._ended = not self._ended, True
            self._renewed.notify_all()
        if first and self.on_ended is not None:
            self.on_ended()

    def taken(self) -> JournalDisturbed:
        """The error for everything that is handed over once another server has ended this one."""
        return JournalDisturbed(
            f"Journal '{self.location}': this server was silent for longer than its lease of "
            f"{self.seconds:g} s, and another one may have taken its sessions. Nothing more is recorded "
            "or allowed by it; start it again."
        )

    # What a writer asks

    def last_number(self, connection: PostgresConnection) -> int:
        """The number of the lane's latest event. Raises `JournalDisturbed` for a lane of another one."""
        row = connection.execute("SELECT server, last FROM lane WHERE lane = ?", (self.lane,)).fetchone()
        if row is None or row[0] != self.id:
            self.end()
            raise self.taken()
        return int(row[1])

    def base(self) -> int:
        """The cursor before the lane's first."""
        return self.lane << sql.LANE_BITS

    def claim(self, connection: PostgresConnection, session: str) -> Ownership | None:
        """Take a session that no other living server owns, under a new epoch; `None` where one does."""
        row = connection.execute(_CLAIM, (self.id, session, self.id)).fetchone()
        return None if row is None else Ownership(int(row[0]), int(row[1]), bytes(row[2]))

    # Renewal

    def _run(self) -> None:
        psycopg = driver()
        connection: PostgresConnection | None = None
        while not self._stop.wait(self.seconds / 4 if connection is not None else 0.2):
            try:
                if connection is None:
                    connection = connect(self.location, name="interlock lease")
                self._renew(connection)
            except (psycopg.Error, JournalError):
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
                connection = None
            if self._ended:
                break
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _renew(self, connection: PostgresConnection) -> None:
        begun = time.monotonic()
        row = connection.execute(_RENEW, (int(self.seconds * 1000), self.id)).fetchone()
        if row is None:
            self.end()
            return
        with self._renewed:
            self._valid_until = begun + self.seconds
            self._renewed.notify_all()
        if connection.execute(_END_EXPIRED, (self.id,)).fetchall() and self.on_expired is not None:
            self.on_expired()

    # As a lock of the journal

    def name_server(self, url: str) -> None:
        """Name the URL on which the server is reached."""
        self._once(_NAME, (url, self.id))

    def release(self) -> None:
        """Leave: what it owned can be taken by others at once. Twice does nothing."""
        if self._released:
            return
        self._released = True
        self._stop.set()
        with self._renewed:
            self._renewed.notify_all()
        self._thread.join()
        if not self._ended:
            self._once(_LEAVE, (self.id,), _LET_GO)

    def _once(self, statement: str, values: tuple[object, ...], then: str | None = None) -> None:
        """Tell the others something that the lease's end tells them, too, where this fails."""
        with suppress(driver().Error):
            connection = connect(self.location)
            try:
                connection.execute(statement, values)
                if then is not None:
                    connection.execute(then, (self.id,))
            finally:
                connection.close()


def orphans(connection: PostgresConnection, limit: int) -> list[str]:
    """Sessions that did not end and that no living server owns, the oldest first."""
    return [str(session) for (session,) in connection.execute(_ORPHANS, (limit,)).fetchall()]


def owner_of(connection: PostgresConnection, session: str) -> tuple[str, str, str | None] | None:
    """The id, name and URL of the living server that owns a session."""
    row: Any = connection.execute(_OWNER, (session,)).fetchone()
    return None if row is None else (str(row[0]), str(row[1]), row[2])


def list_servers(location: PostgresLocation) -> list[ServerLine]:
    """The servers that write a database, and those that ended within a day. Raises `JournalError`."""
    psycopg = driver()
    try:
        connection = connect(location)
        try:
            rows = connection.execute(_SERVERS, (_OLDEST_LISTED_MS,)).fetchall()
        finally:
            connection.close()
    except psycopg.Error as error:
        raise unreachable(location, error) from error
    return [ServerLine(*row) for row in rows]


def _name() -> str:
    command = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    return f"{socket.gethostname()}, process {os.getpid()} ({command})"


def _version() -> str:
    try:
        return version("interlock")
    except PackageNotFoundError:
        return "unknown"
