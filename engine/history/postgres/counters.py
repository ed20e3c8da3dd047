"""Counters of limits across sessions, shared by all servers of a database, and their reservations (G-93).

A reservation is made by compare-and-set of its counters' versions, so that the server has read every use
of them. The statement that records the call's decision turns the reservation into a use, and writes
nothing if the reservation is gone. The unrecorded reservations of an ended server are deleted, so that it
cannot record their decisions later.

A reservation is not durable by itself, but with the decision that is recorded after it: a crash of the
database can lose it in between, or a standby that takes over. It is made again then, by compare-and-set
of the same versions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ...core.shared_limit import CounterReading, CounterStoreError, Reservation, Use
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
from .servers.lease import ServerLease

T = TypeVar("T")

PATIENCE = 10.0
"""Time limit in seconds of a statement on counters: somebody may hold one of their rows for long."""
KEPT_MS = 24 * 3600 * 1000
"""Time for which an unused counter, and a use that no limit counts any more, are kept.

The clocks of servers of older versions may differ from the database's by as much.
"""

_VERSIONS = "SELECT counter FROM counter WHERE counter = ANY(?)"
# Random first version: a counter that was deleted and created again never repeats an earlier version.
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
# Counters are locked in the order of their names, so that concurrent reservations cannot deadlock.
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


class CountersError(JournalError, CounterStoreError):
    """The database did not read or reserve uses."""


class _UnrecordedUse(NamedTuple):
    """A reservation whose call is not recorded yet; `at` is a monotonic time before it was made."""

    reserved: Reservation
    versions: Mapping[str, int]
    at: float


class UseCounters:
    """Counters as seen by one server. All methods wait for the database and raise `CountersError`."""

    def __init__(self, lease: ServerLease) -> None:
        self._lease = lease
        self._location = lease.location
        self._unrecorded: dict[tuple[str, str], _UnrecordedUse] = {}
        self._is_closing = False

    def hurry(self) -> None:
        """Stop waiting for a database that is away, because the journal is about to be closed."""
        self._is_closing = True

    def _ask(self, question: Callable[[PostgresConnection], T]) -> T:
        """Run a query and repeat it while the database is away. Raises `CountersError`.

        The query has to tolerate that an earlier attempt was executed although its answer was lost.
        """
        until = time.monotonic() + RECONNECT_SECONDS
        while True:
            try:
                with reading(self._location, limit=PATIENCE) as connection:
                    return question(connection)
            except JournalError as error:
                if self._is_closing or time.monotonic() > until or not is_away(error.__cause__):
                    raise CountersError(str(error)) from error
            time.sleep(PAUSE)

    def reserved(self, session: str, call_id: str) -> str | None:
        """The id of the reservation for a call, if there is one. Any thread may call it."""
        use = self._unrecorded.get((session, call_id))
        return None if use is None else use.reserved.id

    def note_kept(self, session: str, call_id: str) -> None:
        """Note that the decision on a call with a reservation is recorded."""
        self._unrecorded.pop((session, call_id), None)

    def read(self, counters: Sequence[str]) -> CounterReading:
        """State of counters, without this server's unrecorded reservations: its gates count those."""

        def question(connection: PostgresConnection) -> list[tuple[Any, ...]]:
            existing = {name for (name,) in connection.execute(_VERSIONS, ([*counters],)).fetchall()}
            if absent := [name for name in counters if name not in existing]:
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
        """Reserve uses and increment the versions if all counters still have `versions`.

        Returns false, and reserves nothing, if a version differs.
        """
        at = time.monotonic()
        if is_reserved := self._ask(lambda connection: self._reserve(connection, wanted, versions)):
            made = {(each.session, each.call_id): _UnrecordedUse(each, versions, at) for each in wanted}
            self._unrecorded.update(made)
        return is_reserved

    def renew(self, connection: PostgresConnection, opened: float) -> None:
        """Reserve again what was reserved before a connection was `opened`, if the database lost it.

        What other servers have used in the meantime is not reserved again. Raises `psycopg.Error`.
        """
        together: dict[int, list[_UnrecordedUse]] = {}
        for each in list(self._unrecorded.values()):
            if each.at < opened:
                together.setdefault(id(each.versions), []).append(each)
        for group in together.values():
            at = time.monotonic()
            self._reserve(connection, [each.reserved for each in group], group[0].versions)
            for each in group:
                key = each.reserved.session, each.reserved.call_id
                if self._unrecorded.get(key) is each:
                    self._unrecorded[key] = each._replace(at=at)

    def _reserve(
        self, connection: PostgresConnection, wanted: Sequence[Reservation], versions: Mapping[str, int]
    ) -> bool:
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
        [(moved, _)] = connection.execute(_RESERVE, values).fetchall()
        # An earlier attempt whose answer was lost has incremented the versions itself.
        return bool(moved or connection.number(_RESERVED, ([each.id for each in wanted],)))

    def release(self, reserved: Reservation) -> None:
        """Delete a reservation, unless the decision that consumes its uses is recorded."""
        key = reserved.session, reserved.call_id
        if self.reserved(*key) == reserved.id:
            self._unrecorded.pop(key, None)
        try:
            with reading(self._location, limit=PATIENCE) as connection:
                connection.execute(_RELEASE, (reserved.id,))
        except JournalError as error:
            raise CountersError(str(error)) from error

    def forget(self) -> None:
        """Remove uses that no limit counts any more, and counters that were unused for a day."""
        with reading(self._location) as connection:
            connection.execute(_FORGET, (KEPT_MS,))
            connection.execute(_FORGET_COUNTERS, (KEPT_MS,))


def stored_id(call_id: str) -> str:
    """A call's id as stored with a use: NUL is escaped so that different ids stay different.

    Uses are returned by this id.
    """
    return call_id.replace(STANDS_FOR_NUL, f"{STANDS_FOR_NUL}1").replace("\0", f"{STANDS_FOR_NUL}0")


def _read_id(stored: str) -> str:
    return stored.replace(f"{STANDS_FOR_NUL}0", "\0").replace(f"{STANDS_FOR_NUL}1", STANDS_FOR_NUL)


def _ms(seconds: float) -> int:
    """The first whole millisecond after a time in seconds."""
    return int(seconds * 1000) + 1
