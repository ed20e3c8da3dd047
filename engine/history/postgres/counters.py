"""Counters of limits over sessions, which all servers of a database share, and their reservations (G-93).

A reservation is taken by compare-and-set of its counters' versions: who reserves has seen every use of
them. It stands until its call's decision is recorded, by the same statement, which is taken only while it
stands. A server that has ended loses what it had not recorded, so that it records none of it later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...core.shared_limit import CounterReading, Reservation, Use
from ..errors import JournalError
from .connection import (
    NOW,
    PAUSE,
    RECONNECT_SECONDS,
    STANDS_FOR_NUL,
    PostgresConnection,
    is_away,
    storable,
)
from .pool import reading
from .server import ServerLease

T = TypeVar("T")

KEPT_MS = 24 * 3600 * 1000
"""Time for which a counter is kept of which nothing is used, and a use that no limit counts any more.

Servers that are set by other clocks than the database's may be so much behind.
"""

_VERSIONS = "SELECT counter FROM counter WHERE counter = ANY(?)"
# It begins anywhere: a counter that was removed and made again has no version that it had before.
_MAKE = f"""
INSERT INTO counter (counter, version, at)
SELECT made, CAST(random() * (1::bigint << 60) AS bigint), {NOW} FROM unnest(CAST(? AS text[])) AS made
ON CONFLICT (counter) DO NOTHING
"""
_DROP_ENDED = """
DELETE FROM reservation USING server WHERE reservation.counter = ANY(?) AND NOT reservation.kept
AND server.id = reservation.server AND server.ended IS NOT NULL
"""
_READ = """
SELECT counter.counter, counter.version, used.at, used.session, used.call_id, used.net
FROM counter LEFT JOIN reservation AS used
    ON used.counter = counter.counter AND (used.kept OR used.server <> ?)
WHERE counter.counter = ANY(?) ORDER BY used.net
"""
# Counters are locked in one order, whichever order their calls have.
_RESERVE = f"""
WITH seen AS (
    SELECT * FROM unnest(CAST(? AS text[]), CAST(? AS bigint[])) AS seen(counter, version)
), locked AS (
    SELECT counter.counter, counter.version FROM counter
    WHERE counter.counter IN (SELECT seen.counter FROM seen) ORDER BY counter.counter FOR UPDATE
), turn AS (
    SELECT count(*) AS fit, (SELECT count(*) FROM seen) AS needed
    FROM locked JOIN seen ON seen.counter = locked.counter AND seen.version = locked.version
), moved AS (
    UPDATE counter SET version = counter.version + 1, at = {NOW} FROM turn, seen
    WHERE turn.fit = turn.needed AND counter.counter = seen.counter AND counter.version = seen.version
    RETURNING counter.counter
), added AS (
    INSERT INTO reservation (id, net, counter, session, call_id, at, until, server)
    SELECT wanted.*, ? FROM turn, unnest(
        CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]),
        CAST(? AS float8[]), CAST(? AS bigint[])
    ) AS wanted WHERE turn.fit = turn.needed
)
SELECT count(*), set_config('synchronous_commit', 'off', true) FROM moved
"""
_RESERVED = "SELECT count(*) FROM reservation WHERE id = ANY(?)"
_RELEASE = "DELETE FROM reservation WHERE id = ? AND NOT kept"
_FORGET = f"DELETE FROM reservation WHERE until < {NOW} - ?"
_FORGET_COUNTERS = f"""
DELETE FROM counter WHERE at < {NOW} - ?
AND NOT EXISTS (SELECT FROM reservation WHERE reservation.counter = counter.counter)
"""


class UseCounters:
    """The counters as one server sees them. Methods wait for the database, and raise `JournalError`."""

    def __init__(self, lease: ServerLease) -> None:
        self._lease = lease
        self._location = lease.location
        self._standing: dict[tuple[str, str], str] = {}
        self._is_closing = False

    def hurry(self) -> None:
        """Wait no more for a database that is away: the journal is to be closed."""
        self._is_closing = True

    def _ask(self, question: Callable[[PostgresConnection], T]) -> T:
        """The answer to a question, asked again while the database is away. Raises `JournalError`.

        It may have been asked before, and its answer be lost.
        """
        until = time.monotonic() + RECONNECT_SECONDS
        while True:
            try:
                with reading(self._location) as connection:
                    return question(connection)
            except JournalError as error:
                if self._is_closing or time.monotonic() > until or not is_away(error.__cause__):
                    raise
            time.sleep(PAUSE)

    def reserved(self, session: str, call_id: str) -> str | None:
        """The reservation that stands for a call, by its id; any thread may ask."""
        return self._standing.get((session, call_id))

    def note_kept(self, session: str, call_id: str) -> None:
        """Note that a call is recorded for which a reservation stood."""
        self._standing.pop((session, call_id), None)

    def read(self, counters: Sequence[str]) -> CounterReading:
        """State of counters, without what this server is about to record: its gates count that."""

        def question(connection: PostgresConnection) -> list[tuple[Any, ...]]:
            there = {name for (name,) in connection.execute(_VERSIONS, ([*counters],)).fetchall()}
            if absent := [name for name in counters if name not in there]:
                connection.execute(_MAKE, (absent,))
            connection.execute(_DROP_ENDED, ([*counters],))
            return connection.execute(_READ, (self._lease.id, [*counters])).fetchall()

        rows = self._ask(question)
        uses: dict[str, list[Use]] = {}
        for counter, _, at, session, call_id, net in rows:
            if at is not None:
                uses.setdefault(counter, []).append(Use(at, session, _read_id(call_id), net))
        return CounterReading({counter: int(version) for counter, version, *_ in rows}, uses)

    def reserve(self, wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
        """Reserve uses if all counters have these versions, which one more is then; else do nothing."""
        rows = [
            (
                each.id,
                storable(net),
                counter,
                each.session,
                stored_id(each.call_id),
                each.at,
                _ms(each.until),
            )
            for each in wanted
            for net, counter in each.counters.items()
        ]
        columns = [[*column] for column in zip(*rows, strict=True)]
        values = ([*versions], [*versions.values()], self._lease.id, *columns)
        ids = [each.id for each in wanted]

        def question(connection: PostgresConnection) -> int:
            [(moved, _)] = connection.execute(_RESERVE, values).fetchall()
            # One that was sent before and had no answer has moved the versions itself.
            return moved or connection.number(_RESERVED, (ids,))

        if moved := self._ask(question):
            self._standing.update({(each.session, each.call_id): each.id for each in wanted})
        return bool(moved)

    def release(self, reserved: Reservation) -> None:
        """Take back a reservation, unless its call is recorded as one that took the uses."""
        key = reserved.session, reserved.call_id
        if self._standing.get(key) == reserved.id:
            del self._standing[key]
        with reading(self._location) as connection:
            connection.execute(_RELEASE, (reserved.id,))

    def forget(self) -> None:
        """Remove uses that count no longer, and counters of which nothing is used for a day."""
        with reading(self._location) as connection:
            connection.execute(_FORGET, (KEPT_MS,))
            connection.execute(_FORGET_COUNTERS, (KEPT_MS,))


def stored_id(call_id: str) -> str:
    """A call's id as a use has it: with NUL, and unlike every other id, as uses are given back by it."""
    return call_id.replace(STANDS_FOR_NUL, f"{STANDS_FOR_NUL}1").replace("\0", f"{STANDS_FOR_NUL}0")


def _read_id(stored: str) -> str:
    return stored.replace(f"{STANDS_FOR_NUL}0", "\0").replace(f"{STANDS_FOR_NUL}1", STANDS_FOR_NUL)


def _ms(seconds: float) -> int:
    """The millisecond that begins after a time."""
    return int(seconds * 1000) + 1
