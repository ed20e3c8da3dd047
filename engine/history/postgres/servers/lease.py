"""A server's place among those that write one database: its lane, its lease, and the end of both.

A lease that is over ends nothing by itself: another server says so first, in the same row, and from then
on the one that had it writes nothing more. It says so only once it saw, by its own monotonic clock, that
the lease was not renewed: a jump of the database's clock ends nobody. A server asks itself by the same
clock whether it may still answer.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, cast

from ....core.sanitize import visible
from ...batches.writer import SessionOwner, Silence
from ...database import compiled as sql
from ...database.location import PostgresLocation
from ...database.revisions import Schema
from ...errors import JournalError, ServerEnded, error_text
from ...journal.schema import CURRENT
from ..connection import NOW, PostgresConnection, connect, driver, unreachable
from ..pool import reading
from ..schema import enter, version_text
from .clock import DatabaseClock, now
from .outage import Outage
from .silence import NO_ANSWER, forget_silence, watch_silence

log = logging.getLogger(__name__)

SILENT = (
    "server '%s'%s did not renew its lease: it counts as ended, and the others take over its sessions"
)

LEASE_SECONDS = 8.0
"""Time that a server may be silent before another one takes its sessions."""
PATIENCE = 4.0
"""Time for the answer to a statement about leases."""
SILENT_JOIN = 0.5
"""Time limit for the end of a thread that may wait for a silent database."""

DURABLE = (
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
    "WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)"
)
"""Has the transaction that it is in be durable when it is committed, however the role was set up."""

_REGISTER = f"""
INSERT INTO server (id, name, url, version, started, lease)
VALUES (?, ?, NULL, ?, {NOW}, {NOW} + ?) RETURNING started
"""
# A condition on another row than the changed one is sure only where it never becomes false again: that
# one was read before the changed row was locked. So who owns something has to be seen ended.
_TAKE_LANE = f"""
UPDATE lane SET server = ? WHERE lane = (
    SELECT lane.lane FROM lane WHERE lane.lane > 0 AND (lane.server IS NULL OR EXISTS (
        SELECT FROM server WHERE server.id = lane.server AND server.ended IS NOT NULL))
    ORDER BY lane.lane LIMIT 1 FOR UPDATE OF lane SKIP LOCKED
) RETURNING lane, last, {DURABLE}
"""
_NEW_LANE = f"""
INSERT INTO lane (lane, server, last) SELECT coalesce(max(lane), 0) + 1, ?, 0 FROM lane
ON CONFLICT (lane) DO NOTHING RETURNING lane, last, {DURABLE}
"""
_LAST = f"UPDATE lane SET server = server WHERE lane = ? AND server = ? RETURNING last, {DURABLE}"
# A renewal that is lost with the database makes a lease shorter than its server thinks: nobody minds.
_RENEW = (
    f"UPDATE server SET lease = {NOW} + ? WHERE id = ? AND ended IS NULL "
    "RETURNING lease, set_config('synchronous_commit', 'off', true)"
)
_LEASES = f"SELECT id, lease, lease < {NOW} FROM server WHERE ended IS NULL AND id <> ?"
_END_EXPIRED = f"""
UPDATE server SET ended = {NOW} FROM unnest(CAST(? AS text[]), CAST(? AS bigint[])) AS silent(id, lease)
WHERE server.id = silent.id AND server.lease = silent.lease AND ended IS NULL
RETURNING server.name, server.url, {DURABLE}
"""
# What an ended server sent before and arrives late finds no lane. One that is written now is skipped.
_FREE_LANES = """
UPDATE lane SET server = NULL WHERE lane IN (
    SELECT lane.lane FROM lane JOIN server ON server.id = lane.server WHERE server.ended IS NOT NULL
    FOR UPDATE OF lane SKIP LOCKED)
"""
_LAST_END = "SELECT max(ended) FROM server WHERE id <> ?"
_LEAVE = f"UPDATE server SET ended = {NOW} WHERE id = ? AND ended IS NULL"
_LET_GO = "UPDATE owner SET server = NULL WHERE server = ?"
_LET_SESSION_GO = "UPDATE owner SET server = NULL WHERE session = ? AND server = ?"
_DECIDES = "UPDATE server SET url = '' WHERE id = ? AND url IS NULL"
_NAME = "UPDATE server SET url = ? WHERE id = ?"
_FREE = """(owner.server IS NULL OR EXISTS (
    SELECT FROM server WHERE server.id = owner.server AND server.ended IS NOT NULL))"""
WHOLE = """NOT EXISTS (
    SELECT FROM divergence WHERE divergence.session = {}.session AND divergence.accepted IS NULL)"""
"""SQL condition: the database lost no events of a session, or an operator accepted the loss."""
_WHOLE = WHOLE.format("owner")
_CLAIM_DIVERGED = f"""
UPDATE owner SET server = ?, epoch = epoch + 1 WHERE session = ? AND (server = ? OR {_FREE})
RETURNING epoch, seq, hash, {DURABLE}
"""
_CLAIM = _CLAIM_DIVERGED.replace("RETURNING", f"AND {_WHOLE} RETURNING")
_ADOPT = """
INSERT INTO owner (session, server, epoch, seq, hash)
SELECT session, NULL, 0, seq, hash FROM event WHERE session = ? ORDER BY seq DESC LIMIT 1
ON CONFLICT (session) DO NOTHING RETURNING session
"""
_UNFINISHED = "status NOT IN ('done', 'failed') AND NOT imported"
_ORPHANS = f"""
WITH RECURSIVE root AS (
    SELECT owner.session, session.opened, session.rowid FROM owner
    JOIN session ON session.id = owner.session
    WHERE {_UNFINISHED} AND {_FREE} AND {_WHOLE} AND NOT EXISTS (
        SELECT FROM session AS above JOIN owner AS held ON held.session = above.id
        WHERE session.kind = 'child' AND above.id = session.parent
            AND above.status NOT IN ('done', 'failed') AND held.server IS DISTINCT FROM ?)
    ORDER BY session.opened, session.rowid LIMIT ?
), family AS (
    SELECT session AS root, session FROM root UNION
    SELECT family.root, session.id FROM family JOIN session ON session.parent = family.session
    WHERE session.kind = 'child' AND {_UNFINISHED}
)
SELECT family.root, owner.session, owner.epoch, owner.seq FROM family
JOIN owner ON owner.session = family.session JOIN session ON session.id = family.session
WHERE {_FREE} ORDER BY session.opened, session.rowid
"""
"""Subagents' sessions go with that of their parent: the nets that judge them are there."""
# A session that somebody took or added to since it was looked at is left to the next look.
_CLAIM_ORPHANS = f"""
WITH wanted AS (
    SELECT * FROM unnest(CAST(? AS text[]), CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS bigint[]))
    AS wanted(root, session, epoch, seq)
), root AS (
    SELECT owner.session FROM owner JOIN wanted ON wanted.session = owner.session
    WHERE wanted.root = wanted.session AND owner.epoch = wanted.epoch AND owner.seq = wanted.seq
        AND {_FREE} AND {_WHOLE} FOR UPDATE OF owner SKIP LOCKED
), claimed AS (
    UPDATE owner SET server = ?, epoch = owner.epoch + 1
    FROM wanted JOIN root ON root.session = wanted.root
    WHERE owner.session = wanted.session AND owner.epoch = wanted.epoch AND owner.seq = wanted.seq
        AND {_FREE} AND {_WHOLE}
    RETURNING owner.session, owner.epoch, owner.seq, owner.hash, {DURABLE}
)
SELECT claimed.session, claimed.epoch, claimed.seq, claimed.hash FROM claimed
JOIN session ON session.id = claimed.session ORDER BY session.opened, session.rowid
"""
_CLAIMED = """
SELECT owner.session, owner.epoch, owner.seq, owner.hash
FROM unnest(CAST(? AS text[]), CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS bigint[]))
    AS wanted(root, session, epoch, seq)
JOIN owner ON owner.session = wanted.session AND owner.seq = wanted.seq
WHERE owner.epoch = wanted.epoch OR (owner.epoch = wanted.epoch + 1 AND owner.server = ?)
"""
_OWNER = """
SELECT server.id, server.name, server.url FROM owner JOIN server ON server.id = owner.server
WHERE owner.session = ? AND server.ended IS NULL
"""


class Ownership(NamedTuple):
    """A session's end as the database has it, for the server that owns it now."""

    epoch: int
    seq: int
    hash: bytes


class Orphan(NamedTuple):
    """A session without a server, which goes with the one at the `root` of its family.

    `epoch` and `seq` say when it was looked at: any change of it changes one of them.
    """

    root: str
    session: str
    epoch: int
    seq: int


class ServerLease:
    """Lease of this process on a lane. Make one with `take`; it renews itself until `release`.

    `seconds` is the length of the lease, `clock` the database's time. `on_expired` is called when other
    servers have ended, `on_ended` when this one was ended by another: each in a thread of its own, so
    that no renewal waits for it. What is asked of a lease for a batch uses the connection of who asks.
    """

    def __init__(
        self,
        location: PostgresLocation,
        name: str,
        lane: int,
        valid_until: float,
        seconds: float,
        clock: DatabaseClock,
    ) -> None:
        self.location = location
        self.id = name
        self.name = _name()
        self.lane = lane
        self.seconds = seconds
        self.clock = clock
        self.on_expired: Callable[[], None] | None = None
        self.on_ended: Callable[[], None] | None = None
        self._valid_until = valid_until
        self._ended = False
        self._released = False
        self._keeps_lease = False
        self._seen: dict[str, tuple[int, float]] = {}
        self._looked = 0.0
        self._last_end: int | None = None
        self._outage = Outage()
        self._error = NO_ANSWER
        self._stop = threading.Event()
        self._renewed = threading.Condition()
        watch_silence(location, self._is_silent)
        self._thread = threading.Thread(target=self._run, name=f"lease {name}", daemon=True)
        self._thread.start()

    @classmethod
    def take(cls, location: PostgresLocation, schema: Schema = CURRENT) -> ServerLease:
        """Register as a server and take a lane.

        Raises `JournalError`, also where the tables are no longer ones that this version knows.
        """
        psycopg = driver()
        seconds = LEASE_SECONDS
        server = secrets.token_hex(8)
        ms = int(seconds * 1000)
        try:
            connection = connect(location, patience=PATIENCE)
            try:
                started_at = now()
                with cast("Any", connection.raw).transaction():
                    enter(connection, location, schema)
                    version = version_text(_version(), schema)
                    asked_at = now()
                    started: Any = connection.execute(
                        _REGISTER, (server, _name(), version, ms)
                    ).fetchone()
                    clock = DatabaseClock(started[0], asked_at, now())
                row: Any = None
                while row is None:
                    row = connection.execute(_TAKE_LANE, (server,)).fetchone()
                    row = row or connection.execute(_NEW_LANE, (server,)).fetchone()
                return cls(location, server, int(row[0]), started_at + seconds, seconds, clock)
            finally:
                connection.close()
        except psycopg.Error as error:
            raise unreachable(location, error) from error

    def holds(self) -> bool:
        """Tell whether the lease still holds by this process's own clock."""
        return not self._ended and now() < self._valid_until

    @property
    def age(self) -> float:
        """Seconds since the lease was last renewed."""
        return now() - (self._valid_until - self.seconds)

    @property
    def silence(self) -> Silence | None:
        """Return the silence of the database once half of the lease has passed without a renewal."""
        return Silence(self.age, self._error) if self._is_silent() else None

    def _is_silent(self) -> bool:
        return self.age > self.seconds / 2

    @property
    def ended(self) -> bool:
        """True once another server has ended this one."""
        return self._ended

    def wait_until_held(self, seconds: float) -> bool:
        """Wait until the lease is renewed; false once it is ended, or not renewed for so many seconds."""
        until = now() + seconds
        with self._renewed:
            while not self.holds():
                if self._ended or self._stop.is_set() or now() > until:
                    return False
                self._renewed.wait(self.seconds / 4)
        return True

    def end(self) -> None:
        """Note that another server has ended this one."""
        with self._renewed:
            first, self._ended = not self._ended, True
            self._renewed.notify_all()
        if first:
            _call(self.on_ended)

    def taken(self) -> ServerEnded:
        """The error for everything that is handed over once another server has ended this one."""
        return ServerEnded(
            f"Journal '{self.location}': this server was silent for longer than its lease of "
            f"{self.seconds:g} s, and another one may have taken its sessions. Nothing more is recorded "
            "or allowed by it; start it again."
        )

    # What a writer asks

    def last_number(self, connection: PostgresConnection) -> int:
        """The number of the lane's latest event. Raises `ServerEnded` for a lane of another one."""
        row = connection.execute("SELECT server, last FROM lane WHERE lane = ?", (self.lane,)).fetchone()
        if row is None or row[0] != self.id:
            self.end()
            raise self.taken()
        return int(row[1])

    def settled_number(self, connection: PostgresConnection) -> int:
        """The same, after whatever this server sent before has come to its end, and is durable.

        The row is written, and so waits for who has it, and for the standbys that have to have it. Raises
        `ServerEnded` for a lane of another server.
        """
        row = connection.execute(_LAST, (self.lane, self.id)).fetchone()
        if row is None:
            self.end()
            raise self.taken()
        return int(row[0])

    def base(self) -> int:
        """The cursor before the lane's first."""
        return self.lane << sql.LANE_BITS

    def claim(
        self, connection: PostgresConnection, session: str, *, diverged: bool = False
    ) -> Ownership | None:
        """Take a session that no other living server owns, under a new epoch; `None` where one does.

        Also `None` for a session that does not exist and, without `diverged`, for one whose lost events
        no operator has accepted.
        """
        statement = _CLAIM_DIVERGED if diverged else _CLAIM
        values = self.id, session, self.id
        row = connection.execute(statement, values).fetchone()
        if row is None and connection.execute(_ADOPT, (session,)).fetchone() is not None:
            row = connection.execute(statement, values).fetchone()  # it came from another journal
        return None if row is None else Ownership(int(row[0]), int(row[1]), bytes(row[2]))

    def claim_orphans(
        self, connection: PostgresConnection, wanted: Sequence[Orphan]
    ) -> dict[str, Ownership]:
        """Take sessions that `orphans` gave, the oldest first.

        What another server takes just now, or has added to, is left to it.
        """
        if not wanted:
            return {}
        columns = [[*column] for column in zip(*wanted, strict=True)]
        rows = connection.execute(_CLAIM_ORPHANS, (*columns, self.id)).fetchall()
        return {str(row[0]): Ownership(int(row[1]), int(row[2]), bytes(row[3])) for row in rows}

    def claimed(
        self, connection: PostgresConnection, wanted: Sequence[Orphan]
    ) -> tuple[dict[str, Ownership], list[Orphan]]:
        """Return those of `wanted` that an unanswered claim has taken, and those that it may yet take."""
        if not wanted:
            return {}, []
        columns = [[*column] for column in zip(*wanted, strict=True)]
        rows = connection.execute(_CLAIMED, (*columns, self.id)).fetchall()
        found = {str(row[0]): Ownership(int(row[1]), int(row[2]), bytes(row[3])) for row in rows}
        undecided = [
            each for each in wanted if (row := found.get(each.session)) and row.epoch == each.epoch
        ]
        claims = {name: found[name] for name in found.keys() - {each.session for each in undecided}}
        return claims, undecided

    def let_go(self, connection: PostgresConnection, session: str) -> None:
        """Leave a session to whichever server wants it."""
        connection.execute(_LET_SESSION_GO, (session, self.id))

    # Renewal

    def _run(self) -> None:
        psycopg = driver()
        connection: PostgresConnection | None = None
        while not self._stop.wait(self.seconds / 4 if connection is not None else 0.2):
            try:
                if connection is None:
                    connection = connect(self.location, name="interlock lease", patience=PATIENCE)
                self._renew(connection)
                self._outage, self._error = Outage(), NO_ANSWER
            except (psycopg.Error, JournalError) as error:
                self._note_failure(error)
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
                connection = None
                self._seen = {}
            if self._ended:
                break
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _note_failure(self, error: Exception) -> None:
        """Say once why the lease is not renewed, where half of it is over: then calls begin to wait."""
        self._error = error_text(error)
        if now() > self._valid_until - self.seconds / 2 and self._outage.begins(error):
            cause = error if isinstance(error, JournalError) else unreachable(self.location, error)
            log.warning("the lease of this server is not renewed: %s", cause)

    def _renew(self, connection: PostgresConnection) -> None:
        started_at = now()
        row = connection.execute(_RENEW, (int(self.seconds * 1000), self.id)).fetchone()
        if row is None:
            self.end()
            return
        self.clock.set(row[0] - int(self.seconds * 1000), started_at, now())
        with self._renewed:
            self._valid_until = started_at + self.seconds
            self._renewed.notify_all()
        self._end_silent(connection)
        (last,) = connection.execute(_LAST_END, (self.id,)).fetchone() or (None,)
        if last != self._last_end:
            self._last_end = last
            _call(self.on_expired)

    def _end_silent(self, connection: PostgresConnection) -> None:
        """End the servers whose leases are over and were not renewed while this one looked on.

        While the database was away, or this one was paused, nobody can be said to have been silent. Where
        the database's clock went back, leases seem to hold for long: what was not renewed for longer than
        it lasts is over, too.
        """
        at = now()
        if at - self._looked > self.seconds / 2:
            self._seen = {}
        self._looked = at
        counts: dict[str, tuple[int, float]] = {}
        silent: list[tuple[str, int]] = []
        for server, lease, over in connection.execute(_LEASES, (self.id,)).fetchall():
            previous = self._seen.get(server)
            since = previous[1] if previous is not None and previous[0] == lease else at
            counts[server] = lease, since
            if at - since >= (self.seconds / 2 if over else self.seconds * 1.25):
                silent.append((server, lease))
        self._seen = counts
        if silent:
            ids, leases = [each[0] for each in silent], [each[1] for each in silent]
            ended = connection.execute(_END_EXPIRED, (ids, leases)).fetchall()
            connection.execute(_FREE_LANES)
            for name, url, _ in ended:
                log.warning(SILENT, visible(name), "" if url is None else f" at {visible(url)}")

    # As a lock of the journal

    def name_server(self, url: str) -> None:
        """Name the URL on which the server is reached."""
        self._once(_NAME, (url, self.id))

    def leave_silently(self) -> None:
        """Let `release` leave the lease: other servers claim the sessions once it has expired."""
        self._keeps_lease = True

    def say_decides(self) -> None:
        """Record that this server decides calls, with or without a URL. Raises `JournalError`."""
        with reading(self.location) as connection:
            connection.execute(_DECIDES, (self.id,))

    def release(self) -> None:
        """End the lease, so that other servers can claim its sessions at once.

        A second call does nothing. If the database does not answer, other servers claim the sessions once
        the lease has expired.
        """
        if self._released:
            return
        self._released = True
        self._stop.set()
        with self._renewed:
            self._renewed.notify_all()
        if self._is_silent():
            self._thread.join(SILENT_JOIN)
        else:
            self._thread.join()
            if not self._ended and not self._keeps_lease:
                self._once(_LEAVE, (self.id,), _LET_GO)
        forget_silence(self.location, self._is_silent)

    def _once(self, statement: str, values: tuple[object, ...], then: str | None = None) -> None:
        """Tell the others something that the lease's end tells them, too, where this fails."""
        with suppress(driver().Error):
            connection = connect(self.location, patience=PATIENCE)
            try:
                connection.execute(statement, values)
                if then is not None:
                    connection.execute(then, (self.id,))
            finally:
                connection.close()


def orphans(connection: PostgresConnection, server: str, limit: int) -> list[Orphan]:
    """Sessions that did not end and that no living server owns, the oldest first, for `server` to take.

    At most `limit`, and their subagents' beside.
    """
    rows = connection.execute(_ORPHANS, (server, limit))
    return [Orphan(str(root), str(session), int(epoch), int(seq)) for root, session, epoch, seq in rows]


def owner_of(connection: PostgresConnection, session: str) -> SessionOwner | None:
    """The living server that owns a session."""
    row: Any = connection.execute(_OWNER, (session,)).fetchone()
    return None if row is None else SessionOwner(str(row[0]), str(row[1]), row[2])


def _call(callback: Callable[[], None] | None) -> None:
    if callback is not None:
        threading.Thread(target=callback, name="servers ended", daemon=True).start()


def _name() -> str:
    command = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    return f"{socket.gethostname()}, process {os.getpid()} ({command})"


def _version() -> str:
    try:
        return version("interlock")
    except PackageNotFoundError:
        return "unknown"
