"""Changes to a database's journal as a whole, while servers write it: for import, pruning, rebuilding."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress

from ..database import compiled as sql
from ..database.location import PostgresLocation
from ..errors import JournalError
from ..journal.schema import CURRENT
from .connection import PostgresConnection, connect, driver, unreachable
from .schema import enter, inspect, prepare
from .servers.lease import DURABLE, LEASE_SECONDS, ServerLease

IMPORT_LANE = 0
"""The lane of what no server recorded: it grows by one import at a time."""

_LOOK_SECONDS = 0.2
_FREE = "VACUUM event, decision, session, owner"
_NUMBERS = """
INSERT INTO lane AS present (lane, server, last) VALUES (?, NULL, ?)
ON CONFLICT (lane) DO UPDATE SET last = present.last + excluded.last RETURNING last
"""
_OWN = "INSERT INTO owner (session, server, epoch, seq, hash) VALUES (?, NULL, 1, ?, ?)"
_DISOWN = "DELETE FROM owner WHERE session = ?"
_FORGET_LOSS = "DELETE FROM divergence WHERE session = ?"
_SILENT = """
SELECT count(*) FROM server WHERE ended IS NULL
    AND lease < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)
"""
_CHANGEABLE = """
SELECT owner.session FROM owner LEFT JOIN server ON server.id = owner.server AND server.ended IS NULL
LEFT JOIN session ON session.id = owner.session
WHERE owner.session IN (SELECT json_array_elements_text(CAST(? AS json)))
    AND (server.id IS NULL OR session.status IN ('done', 'failed'))
"""
_LOCK = f"{_CHANGEABLE} FOR UPDATE OF owner SKIP LOCKED"


@contextmanager
def changing_database(
    location: PostgresLocation, *, create: bool = False, shrink: bool = False
) -> Generator[PostgresConnection, None, None]:
    """A connection in one transaction, which is durable when the context ends and undone when it raises.

    Older tables are brought up to date first. Servers go on meanwhile; `lock_sessions` says which
    sessions can be changed. With `shrink` the space of what was deleted can be used again afterwards.
    Raises `JournalError` when there is no journal (unless `create`), and for whatever PostgreSQL says.
    """
    psycopg = driver()
    age, _ = inspect(location)
    if create or age == "older":
        prepare(location)
    elif age == "fresh":
        raise JournalError(f"There is no journal at '{location}' yet. Name another: --db JOURNAL")
    try:
        connection = connect(location, name="interlock maintenance")
        try:
            _end_silent(connection, location)
            connection.execute("BEGIN READ WRITE")
            connection.execute(f"SELECT {DURABLE}")
            enter(connection, location, CURRENT)  # no upgrade comes between
            yield connection
            connection.execute("COMMIT")
            if shrink:
                with suppress(psycopg.Error):  # what was deleted is gone all the same
                    connection.execute(_FREE)
        finally:
            with suppress(psycopg.Error):
                connection.close()
    except psycopg.Error as error:
        raise unreachable(location, error) from error


def _end_silent(connection: PostgresConnection, location: PostgresLocation) -> None:
    """Wait until servers whose lease is over have ended: only a server that looks on can tell.

    What does not end by then has its sessions. Raises `JournalError` and `psycopg.Error`.
    """
    if not connection.number(_SILENT):
        return
    lease = ServerLease.take(location)
    try:
        until = time.monotonic() + 2 * LEASE_SECONDS
        while connection.number(_SILENT) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
    finally:
        lease.release()


def lock_sessions(
    connection: PostgresConnection, sessions: Collection[str], *, lock: bool = True
) -> frozenset[str]:
    """Lock those of `sessions` that can be changed, until the transaction ends; returns them.

    Those are all but the ones that a living server owns and that did not end. A server that goes on with
    one that was removed meanwhile is refused as when another one took it.
    """
    statement = _LOCK if lock else _CHANGEABLE
    rows = connection.execute(statement, (json.dumps([*sessions]),)).fetchall()
    return frozenset(str(session) for (session,) in rows)


def next_numbers(connection: PostgresConnection, count: int) -> int:
    """Take so many numbers for events that no server recorded; returns the cursor before the first."""
    last = connection.number(_NUMBERS, (IMPORT_LANE, count))
    return (IMPORT_LANE << sql.LANE_BITS) + last - count


def add_unowned(connection: PostgresConnection, session: str, seq: int, head: bytes) -> None:
    """Note where a session's chain ends, so that any server can take it."""
    connection.execute(_OWN, (session, seq, head))


def remove_owners(connection: PostgresConnection, sessions: Sequence[str]) -> None:
    """Forget who owns sessions that are removed: nobody adds to them from then on."""
    connection.executemany(_DISOWN, [(session,) for session in sessions])
    connection.executemany(_FORGET_LOSS, [(session,) for session in sessions])
