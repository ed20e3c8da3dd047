"""Sessions of which a database lost what it had acknowledged, as when a standby takes over that lacks it.

Each server remembers where the sessions ended that it wrote or followed, and compares that with what a
database has before it writes there, takes sessions or leaves its own to others. What is missing is noted
in the database, for all servers and for later: nobody goes on with such a session until an operator
accepts that.
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
from .server import DURABLE, ServerLease

log = logging.getLogger(__name__)

ENDED_SECONDS = 600.0
"""Time for which the end of a session is remembered that is over: longer than any standby lags behind."""

_DATABASE = "SELECT CAST(extract(epoch FROM pg_postmaster_start_time()) AS text)"
_KNOWN = "unnest(CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS bytea[])) AS known(session, seq, hash)"
_ABSENT = f"""
SELECT known.session, known.seq, known.hash,
    (SELECT coalesce(max(seq), 0) FROM event WHERE event.session = known.session)
FROM {_KNOWN} WHERE NOT EXISTS (SELECT FROM event WHERE event.session = known.session
    AND event.seq = known.seq AND (known.hash IS NULL OR event.hash = known.hash))
AND NOT EXISTS (SELECT FROM pruned WHERE pruned.session = known.session)
"""
# Whoever owns the session is fenced, and an older server finds a status that it does not know, or an end
# that nothing follows: it leaves the session alone.
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
_MAY_NOTE = "SELECT has_table_privilege('divergence', 'INSERT')"


class Divergence(NamedTuple):
    """A row of `tables.Divergence`, which see."""

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
        """What happened to the session, to follow its name."""
        has = f"ends it with event {self.kept}" if self.kept else "has none of it"
        if self.kept >= self.seq:
            has = "has another one there"
        return (
            f"event {self.seq} of it was acknowledged, and the database, which lost some of what it had "
            f"taken, now {has}"
        )

    @property
    def remedy(self) -> str:
        """What to do about it, as a sentence."""
        if not self.kept:
            return "Nothing goes on under this id: begin another session."
        return (
            "Nobody goes on with it until an operator accepts that: find out what its agent did, then "
            f"interlock approvals accept-loss {visible(self.session)} --reason TEXT"
        )

    def error(self) -> SessionDiverged:
        """The error for whoever wants to go on with the session."""
        said = f"Session '{visible(self.session)}' diverged: {self.reason}. {self.remedy}"
        return SessionDiverged(said, session=self.session)


class SessionEnds:
    """Where the sessions ended that a server wrote or followed, compared with what a database has.

    Any thread may use it. Events of a session in `open` are not taken.
    """

    def __init__(self, lease: ServerLease) -> None:
        self._lease = lease
        self._written: dict[str, tuple[int, bytes]] = {}
        self._followed: dict[str, int] = {}
        self._over: dict[str, float] = {}
        self._compared: str | None = None
        self._comparing = threading.Lock()
        self.open: Mapping[str, Divergence] = {}
        """The latest divergence of each session that nobody accepted, as far as this server knows."""
        self._noted: dict[tuple[str, int], Divergence] = {}

    def note(self, session: str, seq: int, head: bytes, *, is_over: bool) -> None:
        """Remember an event that this server wrote and that is acknowledged."""
        self._written[session] = seq, head
        self._note_over(session, is_over)

    def note_followed(self, session: str, seq: int, *, is_over: bool) -> None:
        """Remember an event that another server wrote, as the database had it."""
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
        """Remember a session no longer as this server's: another one may go on with it."""
        self._written.pop(session, None)

    @property
    def known(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self._written or self._followed)

    # Comparing

    def compare(self, connection: PostgresConnection) -> None:
        """Find what the database of a new connection lacks, and note it there.

        Raises `psycopg.Error` where that cannot be; then nothing may be written on this connection.
        """
        with self._comparing:
            self._compare(connection)

    def settle(self, connection: PostgresConnection) -> None:
        """The same, unless it is the database that was compared last."""
        with self._comparing:
            if self._database(connection) != self._compared:
                self._compare(connection)

    def _compare(self, connection: PostgresConnection) -> None:
        self._compared = None
        known: dict[str, tuple[int, bytes | None]] = {
            session: (seq, None) for session, seq in dict(self._followed).items()
        }
        for session, (seq, head) in dict(self._written).items():
            if seq >= known.get(session, (0, None))[0]:
                known[session] = seq, head
        self._take(connection, self._absent(connection, known))
        self._compared = self._database(connection)

    def _take(self, connection: PostgresConnection, lost: list[Divergence]) -> None:
        """Stop sessions, and note that in the database. Of those that were accepted it is noted anew."""
        if not lost:
            return
        first = [each for each in lost if each.session not in self.open]
        self.open = {**self.open, **{each.session: each for each in lost}}
        for each in first:
            log.error("%s", each.error())
        note(connection, lost)
        for each in lost:
            self._noted[each.session, each.seq] = each
            self._written.pop(each.session, None)
            self._followed.pop(each.session, None)

    def _absent(
        self, connection: PostgresConnection, known: Mapping[str, tuple[int, bytes | None]]
    ) -> list[Divergence]:
        if not known:
            return []
        seqs, hashes = zip(*known.values(), strict=True)
        rows = connection.execute(_ABSENT, ([*known], [*seqs], [*hashes])).fetchall()
        own, name = self._lease.id, self._lease.name
        return [Divergence(session, seq, head, kept, own, name, 0) for session, seq, head, kept in rows]

    def _database(self, connection: PostgresConnection) -> str:
        """The database as it runs since its last start: a standby that takes over is another one."""
        [(started,)] = connection.execute(_DATABASE).fetchall()
        return str(started)

    # What other servers noted

    def follow(self, connection: PostgresConnection) -> None:
        """Take over what other servers noted, and what was accepted.

        What a database lost of that is noted there again. Raises `psycopg.Error`.
        """
        with self._comparing:
            noted = dict(self._noted)
            asked = ([*{session for session, _ in noted}],)
            rows = [Divergence(*row) for row in connection.execute(_OPEN_OR_OF, asked).fetchall()]
            there = {(each.session, each.seq) for each in rows}
            gone = [each for key, each in noted.items() if key not in there]
            if gone:
                known = {each.session: (each.seq, each.hash) for each in gone}
                self._take(connection, self._absent(connection, known))
                rows += [each for each in gone if each.session in self.open]
            self._noted = {(each.session, each.seq): each for each in rows if each.accepted is None}
            pending = {key: self.open[key] for key in self.open.keys() & self._written.keys()}
            before = self.open
            self.open = {each.session: each for each in self._noted.values()} | pending
            for session in self.open.keys() - before.keys():
                log.error("%s", self.open[session].error())

    def accept(self, session: str) -> None:
        """Let a session go on: it is recorded that an operator accepted what is lost."""
        self.open = {name: each for name, each in self.open.items() if name != session}
        self._noted = {key: each for key, each in self._noted.items() if key[0] != session}


def note(connection: PostgresConnection, lost: Iterable[Divergence]) -> None:
    """Write down what a database lost, durably, and have nobody own these sessions. Twice is as once."""
    by_server: dict[tuple[str, str], list[Divergence]] = {}
    for each in lost:
        by_server.setdefault((each.server, each.name), []).append(each)
    for (server, name), rows in by_server.items():
        columns = [[*column] for column in zip(*(row[:4] for row in rows), strict=True)]
        connection.execute(_NOTE, (*columns, server, name))


def may_note(connection: PostgresConnection) -> bool:
    """Tell whether the role has the rights that this takes."""
    [(may,)] = connection.execute(_MAY_NOTE).fetchall()
    return bool(may)


def open_divergences(location: PostgresLocation) -> list[Divergence]:
    """What the database lost of which sessions, where nobody accepted it yet. Raises `JournalError`.

    Tables of an older version have none.
    """
    with reading(location) as connection:
        if connection.execute(_IS_THERE).fetchall() == [(None,)]:
            return []
        return [Divergence(*row) for row in connection.execute(_OPEN)]


def divergence_of(connection: PostgresConnection, session: str) -> Divergence | None:
    """The latest divergence of a session that nobody accepted."""
    row = connection.execute(_OF, (session,)).fetchone()
    return None if row is None else Divergence(*row)
