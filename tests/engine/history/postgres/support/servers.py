"""Servers of a journal in PostgreSQL, looked at and acted on beside their journals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.postgres.connection import PostgresConnection, connect
from interlock.engine.history.postgres.server import ServerLease
from interlock.engine.history.postgres.writer import PostgresWriter


def lease(journal: Journal) -> ServerLease:
    """A journal's place among the servers."""
    return cast(ServerLease, journal._lock)


def writer(journal: Journal) -> PostgresWriter:
    """The part of a journal that commits."""
    return cast(PostgresWriter, journal._writer)


@contextmanager
def beside(location: PostgresLocation) -> Iterator[PostgresConnection]:
    """A connection of nobody's, gone with what it has not committed."""
    connection = connect(location)
    try:
        yield connection
    finally:
        connection.close()


def rows(location: PostgresLocation, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What the database answers to everybody."""
    with beside(location) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def end(journal: Journal) -> None:
    """End a server as another one does that finds its lease over; it does not know yet."""
    location = lease(journal).location
    rows(location, "UPDATE server SET ended = lease WHERE id = ?", (lease(journal).id,))
