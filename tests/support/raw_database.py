"""A journal's database for tests that look into it, or change it as somebody could who may do all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.history.database.location import PostgresLocation, absolute
from interlock.engine.history.postgres.connection import PostgresConnection, connect


class RawPostgres(PostgresConnection):
    """A connection to a schema without its foreign keys; skips the test for what PostgreSQL cannot do."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        import psycopg

        try:
            return super().execute(statement, values)
        except (psycopg.DataError, psycopg.NotSupportedError, psycopg.ProgrammingError) as error:
            pytest.skip(f"PostgreSQL does not take '{statement}': {error}")

    def executemany(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        super().executemany(statement, values)

    def commit(self) -> None:
        """Nothing: each statement is its own transaction."""


def raw_database(path: str | Path | PostgresLocation) -> sqlite3.Connection | RawPostgres:
    """A connection to the database of a journal. It is for a file what `sqlite3.connect` gives."""
    place = absolute(path)
    if isinstance(place, PostgresLocation):
        connection = RawPostgres(connect(place, name="interlock test").raw)
        connection.raw.execute("SET session_replication_role = replica")
        return connection
    return sqlite3.connect(place)
