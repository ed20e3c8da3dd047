"""Sessions of which the database lost acknowledged events, as after a failover to a lagging standby.

Each server remembers the last event of every session that it wrote or followed. It compares these with
the database before it writes there, claims sessions or releases its own. A missing event is recorded in
the database, for all servers: no server continues such a session until an operator accepts the loss.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...core.sanitize import visible
from ..database.location import PostgresLocation
from ..errors import SessionDiverged
from ..journal.session_index import DIVERGED
from .connection import NOW, PostgresConnection
from .pool import reading
from .servers.lease import DURABLE, ServerLease

log = logging.getLogger(__name__)

ENDED_SECONDS = 600.0
"""Seconds for which the last event of an ended session is remembered: longer than any standby lags."""

# Tables that are restored from a dump are stored in other files, as they are after VACUUM FULL.
_DATABASE = """
SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
    pg_relation_filenode('event'), pg_relation_filenode('owner'))
"""
_KNOWN = "unnest(CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS bytea[])) AS known(session, seq, hash)"
_ABSENT = f"""
SELECT known.session, known.seq, known.hash,
    (SELECT coalesce(max(seq), 0) FROM event WHERE event.session = known.session)
FROM {_KNOWN} WHERE NOT EXISTS (SELECT FROM event WHERE event.session = known.session
    AND event.seq = known.seq AND (known.hash IS NULL OR event.hash = known.hash))
AND NOT EXISTS (SELECT FROM pruned WHERE pruned.session = known.session)
"""
# The owner of the session is fenced. An older server finds a status that it does not know, or a head that
# no event can follow, and does not claim the session.
_NOTE = f"""
WITH lost AS (
    SELECT * FROM unnest(CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS bytea[]), CAST(? AS bigint[]))
    AS lost(session, seq, hash, kept)
), noted AS (
    INSERT INTO divergence (session, seq, hash, kept, server, name, at)
    SELECT session, seq, hash, kept, ?, ?, {NOW} FROM lost
    ON CONFLICT (session, seq) DO NOTHING RETURNING session, seq, kept
), fenced AS (
    UPDATE owner SET server = NULL, epoch = owner.epoch + 1
    FROM (SELECT DISTINCT session FROM noted) AS noted WHERE owner.session = noted.session
), held AS (
    INSERT INTO owner (session, server, epoch, seq, hash)
    SELECT DISTINCT session, CAST(NULL AS text), 1, -1, CAST('' AS bytea) FROM noted WHERE kept = 0
    ON CONFLICT (session) DO NOTHING
), listed AS (
    UPDATE session SET status = '{DIVERGED}', error = noted.said FROM (
        SELECT session, 'diverged: event ' || max(seq) || ' of it was acknowledged and lost' AS said
        FROM noted GROUP BY session) AS noted
    WHERE session.id = noted.session
)
SELECT {DURABLE}
"""
_COLUMNS = "session, seq, hash, kept, server, name, at, accepted"
_OPEN = f"SELECT {_COLUMNS} FROM divergence WHERE accepted IS NULL ORDER BY at, session, seq"
_OPEN_OR_OF = f"SELECT {_COLUMNS} FROM divergence WHERE accepted IS NULL OR session = ANY(?)"
_OF = f"SELECT {_COLUMNS} FROM divergence WHERE session = ? AND accepted IS NULL ORDER BY seq DESC"
_IS_THERE = "SELECT CAST(to_regclass('divergence') AS text)"
_MAY_NOTE = """
SELECT has_table_privilege('divergence', 'SELECT') AND has_table_privilege('divergence', 'INSERT')
    AND has_column_privilege('divergence', 'accepted', 'UPDATE')
"""


class Divergence(NamedTuple):
    """A row of `tables.Divergence`."""

    session: str
    seq: int
    hash: bytes | None
    kept: int
    server: str
    name: str
    at: int
    accepted: int | None = None

    @property
    def reason(self) -> str:
        """The loss, as a clause that follows the name of the session."""
        has = f"ends it with event {self.kept}" if self.kept else "has none of it"
        if self.kept >= self.seq:
            has = "has another one there"
        return (
            f"event {self.seq} of it was acknowledged, and the database, which lost some of what it had "
            f"taken, now {has}"
        )

    @property
    def remedy(self) -> str:
        """The next step for an operator, as a sentence."""
        if not self.kept:
            return "Nothing goes on under this id: begin another session."
        return (
            "Nobody goes on with it until an operator accepts that: find out what its agent did, then "
            f"interlock approvals accept-loss {visible(self.session)} --reason TEXT"
        )

    def error(self) -> SessionDiverged:
        """Return the error for a caller that wants to continue the session."""
        text = f"Session '{visible(self.session)}' diverged: {self.reason}. {self.remedy}"
        return SessionDiverged(text, session=self.session)


class SessionEnds:
    """The last known event of each session that a server wrote or followed, to compare with a database.

    Thread-safe. Events of a session in `open` are refused.
    """

    def __init__(self, lease: ServerLease) -> None:
        self._lease = lease
        self._written: dict[str, tuple[int, bytes]] = {}
        self._followed: dict[str, int] = {}
        self._over: dict[str, float] = {}
        self._compared: str | None = None
        self._comparing = threading.Lock()
        self.open: Mapping[str, Divergence] = {}
        """The latest divergence of each session whose loss is not accepted, as far as known here."""
        self._noted: dict[tuple[str, int], Divergence] = {}
        self._stopped: dict[str, Divergence] = {}

    def note(self, session: str, seq: int, head: bytes, *, is_over: bool) -> None:
        """Remember an acknowledged event that this server wrote."""
        self._written[session] = seq, head
        self._stopped.pop(session, None)
        self._note_over(session, is_over)

    def note_followed(self, session: str, seq: int, *, is_over: bool) -> None:
        """Remember an event that another server wrote and this one read."""
        if seq > self._followed.get(session, 0):
            self._followed[session] = seq
        self._note_over(session, is_over)

    def _note_over(self, session: str, is_over: bool) -> None:
        if not is_over:
            self._over.pop(session, None)
            return
        at = time.monotonic()
        self._over[session] = at
        while (first := next(iter(self._over))) != session and self._over[first] < at - ENDED_SECONDS:
            self._over.pop(first, None)
            self._written.pop(first, None)
            self._followed.pop(first, None)

    def forget(self, session: str) -> None:
        """Drop a session that another server may continue."""
        self._written.pop(session, None)

    @property
    def known(self) -> bool:
        """True if there is an event to compare."""
        return bool(self._written or self._followed)

    # Comparing

    def compare(self, connection: PostgresConnection) -> None:
        """Find the events that the database of a new connection lacks, and record the losses there.

        Raises `psycopg.Error`; then nothing may be written on this connection.
        """
        with self._comparing:
            self._compare(connection)

    def settle(self, connection: PostgresConnection) -> None:
        """Do as `compare` does, unless the database is the one that was compared last."""
        with self._comparing:
            if self._database(connection) != self._compared:
                self._compare(connection)

    def doubt(self) -> None:
        """Let the next `settle` compare, also with the database that was compared last."""
        self._compared = None

    def check(self, connection: PostgresConnection, session: str) -> None:
        """Compare one session, of which the database has another end than this server expected.

        If it has lost an event, compare all sessions. Raises `psycopg.Error`.
        """
        with self._comparing:
            last_events = self._last_events()
            known = {session: last_events[session]} if session in last_events else {}
            if self._absent(connection, known):
                self._compare(connection)

    def _compare(self, connection: PostgresConnection) -> None:
        self._compared = None
        self._take(connection, self._absent(connection, self._last_events()))
        self._compared = self._database(connection)

    def _last_events(self) -> dict[str, tuple[int, bytes | None]]:
        last_events: dict[str, tuple[int, bytes | None]] = {
            session: (seq, None) for session, seq in dict(self._followed).items()
        }
        for session, (seq, head) in dict(self._written).items():
            if seq >= last_events.get(session, (0, None))[0]:
                last_events[session] = seq, head
        return last_events

    def _take(self, connection: PostgresConnection, lost: list[Divergence]) -> None:
        """Refuse further events of the sessions, and record their losses, also if accepted before."""
        if not lost:
            return
        first = [each for each in lost if each.session not in self.open]
        self.open = {**self.open, **{each.session: each for each in lost}}
        for each in first:
            log.error("%s", each.error())
        note(connection, lost)
        for each in lost:
            self._noted[each.session, each.seq] = each
            if self._written.pop(each.session, None) is not None:
                self._stopped[each.session] = each
            self._followed.pop(each.session, None)

    def _absent(
        self, connection: PostgresConnection, known: Mapping[str, tuple[int, bytes | None]]
    ) -> list[Divergence]:
        if not known:
            return []
        seqs, hashes = zip(*known.values(), strict=True)
        rows = connection.execute(_ABSENT, ([*known], [*seqs], [*hashes])).fetchall()
        server, name = self._lease.id, self._lease.name
        return [
            Divergence(session, seq, head, kept, server, name, 0) for session, seq, head, kept in rows
        ]

    def _database(self, connection: PostgresConnection) -> str:
        """Identify a database: a promoted standby, or a restored copy of the tables, is another one."""
        [(started,)] = connection.execute(_DATABASE).fetchall()
        return str(started)

    # What other servers noted

    def follow(self, connection: PostgresConnection) -> None:
        """Read the divergences that other servers recorded, and those that operators accepted.

        Known divergences that the database has lost are recorded again. Raises `psycopg.Error`.
        """
        with self._comparing:
            noted = dict(self._noted)
            sessions = ([*{session for session, _ in noted}],)
            rows = [Divergence(*row) for row in connection.execute(_OPEN_OR_OF, sessions).fetchall()]
            recorded = {(each.session, each.seq) for each in rows}
            missing = [each for key, each in noted.items() if key not in recorded]
            if missing:
                last_events = {each.session: (each.seq, each.hash) for each in missing}
                self._take(connection, self._absent(connection, last_events))
                rows += [each for each in missing if each.session in self.open]
            self._noted = {(each.session, each.seq): each for each in rows if each.accepted is None}
            pending = {key: self.open[key] for key in self.open.keys() & self._written.keys()}
            before = self.open
            self.open = {each.session: each for each in self._noted.values()} | pending
            for session in self.open.keys() - before.keys():
                log.error("%s", self.open[session].error())

    def take_stopped(self) -> dict[str, Divergence]:
        """Return the sessions of this server that were found to have diverged since the last call.

        Also those whose loss was accepted at another server before this one noticed it.
        """
        return {each: self._stopped.pop(each) for each in [*self._stopped]}

    def accept(self, session: str) -> None:
        """Accept events of a session again, after an operator's acceptance was recorded."""
        self.open = {name: each for name, each in self.open.items() if name != session}
        self._noted = {key: each for key, each in self._noted.items() if key[0] != session}


def note(connection: PostgresConnection, lost: Iterable[Divergence]) -> None:
    """Record losses durably, and leave their sessions without an owner. Idempotent."""
    by_server: dict[tuple[str, str], list[Divergence]] = {}
    for each in lost:
        by_server.setdefault((each.server, each.name), []).append(each)
    for (server, name), rows in by_server.items():
        columns = [[*column] for column in zip(*(row[:4] for row in rows), strict=True)]
        connection.execute(_NOTE, (*columns, server, name))


def may_note(connection: PostgresConnection) -> bool:
    """Return whether the role may read and record divergences, and their acceptance."""
    [(may,)] = connection.execute(_MAY_NOTE).fetchall()
    return bool(may)


def open_divergences(location: PostgresLocation) -> list[Divergence]:
    """Return all divergences that no operator has accepted. Raises `JournalError`.

    A database of an older version has none.
    """
    with reading(location) as connection:
        if connection.execute(_IS_THERE).fetchall() == [(None,)]:
            return []
        return open_in(connection)


def open_in(connection: PostgresConnection) -> list[Divergence]:
    """Return all divergences that no operator has accepted. Raises `psycopg.Error`."""
    return [Divergence(*row) for row in connection.execute(_OPEN)]


def divergence_of(connection: PostgresConnection, session: str) -> Divergence | None:
    """Return the latest divergence of a session that no operator has accepted, or `None`."""
    row = connection.execute(_OF, (session,)).fetchone()
    return None if row is None else Divergence(*row)
