"""Compiled tables and statements equal their declarations."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from interlock.engine.history.database import compiled
from interlock.engine.history.database.compile import module
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.postgres.connection import translated
from interlock.engine.history.postgres.pool import reading
from interlock.engine.history.postgres.schema import prepare

CONDITIONS = {
    name: value
    for name, value in vars(compiled).items()
    if name.endswith(("_AMONG", "_CONTAINS", "_CONTAINED", "_POSITION", "_PEOPLE", "_MODE", "_CALL"))
    and not name.startswith("SELECT")
}
SQL = {
    f"{name} {key}": statement
    for name, value in vars(compiled).items()
    if name.startswith(("SELECT", "COUNT", "INSERT", "UPSERT", "REPLACE", "DELETE", "END"))
    for key, statement in (value.items() if isinstance(value, dict) else [("", value)])
}


class TestCompiled:
    def test_is_up_to_date(self) -> None:
        """The compiled module is current; `python -m …database.compile` updates it."""
        assert module() == Path(compiled.__file__).read_text(encoding="utf-8")

    @pytest.mark.slow
    def test_imports_no_database_library(self) -> None:
        """A journal runs without importing SQLModel or SQLAlchemy."""
        probe = (
            "import sys; import interlock.engine.history.database.compiled; "
            "print({'sqlalchemy', 'sqlmodel'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"

    @pytest.mark.slow
    def test_server_on_postgresql_imports_no_sqlite(self) -> None:
        """A server on PostgreSQL does not import sqlite3."""
        probe = (
            "import sys; import interlock.engine.gateway.cluster.shared_hub; "
            "from interlock.engine.gateway.server.server import Gateway; print('sqlite3' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        assert done.stdout == "False\n"

    @pytest.mark.parametrize("name", SQL)
    @pytest.mark.sqlite("its statements")
    def test_sqlite_can_prepare_each_statement(self, tmp_path: Path, name: str) -> None:
        """Every statement can be prepared on a new journal."""
        Journal.open(tmp_path / "j.db").close()
        with closing(sqlite3.connect(tmp_path / "j.db")) as connection:
            connection.create_function("unclear_in", 1, bool)
            statement = filled_in(SQL[name])
            values = (None,) * statement.count("?")
            connection.execute(f"EXPLAIN {statement}", values)

    @pytest.mark.slow
    def test_postgresql_can_prepare_each_statement(self, postgresql: PostgresLocation) -> None:
        """Every statement and filter condition, translated, can be prepared on a PostgreSQL schema."""
        prepare(postgresql)
        faults: dict[str, str] = {}
        with reading(postgresql) as connection:
            listed = {n: f"SELECT cursor FROM decision WHERE {each}" for n, each in CONDITIONS.items()}
            for name, statement in (SQL | listed).items():
                numbers = count(1)
                text = re.sub("%s", lambda _, n=numbers: f"${next(n)}", translated(filled_in(statement)))
                try:
                    connection.raw.execute(f"PREPARE each AS {text.replace('%%', '%')}".encode())
                    connection.raw.execute("DEALLOCATE each")
                except psycopg.Error as error:
                    faults[name] = f"{error}\n{text}"
        assert faults == {}


def filled_in(statement: str) -> str:
    """Return a statement with its placeholders filled in."""
    return statement.format(where="TRUE", types="'message'", values="?")
