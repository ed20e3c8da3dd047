"""Many rows in few statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from interlock.engine.history.database.insert import insert

pytestmark = pytest.mark.sqlite("statements for a file")

COUNTS = (0, 1, 31, 32, 33, 64, 100)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE TABLE line (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, n INT)"
        )
        yield connection


class TestInsert:
    @pytest.mark.parametrize("count", COUNTS)
    def test_rows_are_inserted_once_in_order(self, connection: sqlite3.Connection, count: int) -> None:
        """Every row is inserted once, in order, alone or together with others."""
        rows = [(f"name {number}", number) for number in range(count)]
        insert(connection, "INSERT INTO line (name, n) VALUES (?, ?)", rows)
        assert connection.execute("SELECT name, n FROM line ORDER BY id").fetchall() == rows

    @pytest.mark.parametrize("count", COUNTS)
    def test_last_of_rows_with_one_key_wins(self, connection: sqlite3.Connection, count: int) -> None:
        """The last of several rows with one key wins, as if each had been inserted separately."""
        rows = [(f"name {number % 7}", number) for number in range(count)]
        statement = (
            "INSERT INTO line (name, n) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = excluded.n"
        )
        insert(connection, statement, rows)
        assert dict(connection.execute("SELECT name, n FROM line").fetchall()) == dict(rows)

    def test_failed_insert_can_be_rolled_back_completely(self, connection: sqlite3.Connection) -> None:
        """A failed insert can be rolled back completely by the surrounding transaction."""
        rows = [(f"name {number}", number) for number in range(90)] + [("name 3", 1)]
        connection.execute("BEGIN")
        with pytest.raises(sqlite3.IntegrityError):
            insert(connection, "INSERT INTO line (name, n) VALUES (?, ?)", rows)
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM line").fetchone() == (0,)
