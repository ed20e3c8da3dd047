"""A journal's database for tests that inspect it, or change it like an attacker with all privileges."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interlock.engine.history.database.location import PostgresLocation, absolute
from interlock.engine.history.postgres.connection import PostgresConnection, connect
from interlock.engine.history.postgres.schema import prepare

_NOT_TAKEN = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.NotSupportedError,
    psycopg.ProgrammingError,
)


class RawPostgres(PostgresConnection):
    """A connection to a schema without its foreign keys; skips the test for what PostgreSQL cannot do."""

    def __init__(self, place: PostgresLocation) -> None:
        super().__init__(connect(place, name="interlock test").raw)
        self.place = place
        self.raw.execute("SET session_replication_role = replica")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        try:
            return super().execute(statement, values)
        except _NOT_TAKEN as error:
            pytest.skip(f"PostgreSQL does not take '{statement}': {error}")

    def executemany(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        super().executemany(statement, values)

    def commit(self) -> None:
        """Do nothing: each statement is its own transaction."""

    def backup(self, target: RawPostgres) -> None:
        """Copy the present content into another schema, whose journal no server owns.

        The servers that write this journal have ended in the copy, as if they had been killed just now.
        """
        here, there = (str(each.place.schema) for each in (self, target))
        prepare(target.place)
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = ? AND tablename <> 'alembic_version'"
        with self.raw.transaction():
            self.raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for (table,) in self.execute(tables, (here,)).fetchall():
                self.execute(f"DELETE FROM {there}.{table}")
                self.execute(f"INSERT INTO {there}.{table} SELECT * FROM {here}.{table}")
            for table in ("session", "pruned"):
                self.execute(
                    f"SELECT setval(pg_get_serial_sequence('{there}.{table}', 'rowid'), "
                    f"(SELECT coalesce(max(rowid), 0) + 1 FROM {there}.{table}), false)"
                )
            self.execute(f"UPDATE {there}.server SET ended = lease WHERE ended IS NULL")


def raw_database(path: str | Path | PostgresLocation) -> sqlite3.Connection | RawPostgres:
    """Connect to the database of a journal; for a file like `sqlite3.connect`."""
    place = absolute(path)
    if isinstance(place, PostgresLocation):
        return RawPostgres(place)
    return sqlite3.connect(place)


def plan_of(path: str | Path | PostgresLocation, select: str, values: Sequence[object] = ()) -> str:
    """Return the query plan of a statement, independent of the present number of rows."""
    with closing(raw_database(path)) as connection:
        explain = "EXPLAIN QUERY PLAN"
        if isinstance(connection, RawPostgres):
            connection.execute("SET enable_seqscan = off")
            connection.execute("SET enable_bitmapscan = off")
            explain = "EXPLAIN"
        return str(connection.execute(f"{explain} {select}", values).fetchall())
