"""Journals of an earlier revision in either database, and what a migration has to preserve.

`problems_after` runs the migrations of a schema on a journal and returns the problems of the result:
`tests/engine/history/database/test_migrations.py` calls it for every revision.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.database.location import Location, PostgresLocation
from interlock.engine.history.database.revisions import MIGRATIONS, Schema, run_migrations
from interlock.engine.history.errors import FoldError, JournalError
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.file_schema import prepare as prepare_file
from interlock.engine.history.journal.reader import HistoryReader
from interlock.engine.history.journal.schema import CURRENT
from interlock.engine.history.postgres.schema import prepare as prepare_database

DUMP = Path(__file__).parents[1] / "data" / "journal_0006.sql"
"""A journal of the first release: three sessions left open when its host was killed."""

NOW, NEXT, LATER = (f"{int(CURRENT.newest) + more:04}" for more in range(3))
"""The revision of this version, of the next one and of the one after that."""

EXPANDING = f"""
import sqlalchemy as sa
from alembic import op

from interlock.engine.history.migrations.columns import NUMBER, TEXT

revision = "{NEXT}"
down_revision = "{NOW}"
compatible = ("{NOW}",)


def upgrade():
    op.add_column("session", sa.Column("team", TEXT, nullable=True))
    op.add_column("decision", sa.Column("minutes", NUMBER, nullable=True))
    op.create_table(
        "team",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("members", NUMBER, nullable=False),
    )
"""
"""A migration with which older servers can continue: it only adds a table."""

CONTRACTING = f"""
from alembic import op

revision = "{LATER}"
down_revision = "{NEXT}"


def upgrade():
    op.drop_table("team")
"""
"""A migration with which no older server can continue: it removes a table that they use."""


def schema_with(folder: Path, *migrations: str) -> Schema:
    """Return the present schema with further `migrations`, whose scripts are written into a folder."""
    scripts = folder / "scripts"
    shutil.copytree(MIGRATIONS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    known = list(Schema().known)
    for number, text in enumerate(migrations, int(known[-1]) + 1):
        known.append(f"{number:04}")
        (scripts / "versions" / f"{known[-1]}.py").write_text(text)
    return Schema(known=tuple(known), scripts=scripts)


def engine_of(location: Location) -> sa.Engine:
    """Return an SQLAlchemy engine on a journal, which uses the journal's database schema."""
    if isinstance(location, Path):
        return sa.create_engine(f"sqlite:///{location}", poolclass=sa.NullPool)
    import psycopg

    found = location

    def connect() -> Any:
        return psycopg.connect(found.url, options=f"-c search_path={found.schema}")

    return sa.create_engine(
        "postgresql+psycopg://", creator=connect, poolclass=sa.NullPool, use_native_hstore=False
    )


def journal_at(location: Location, schema: Schema, revision: str) -> None:
    """Create a journal of a revision by the migrations up to it, with the sessions of `DUMP`."""
    database = isinstance(location, PostgresLocation)
    with closing(sqlite3.connect(":memory:")) as dump:
        dump.executescript(DUMP.read_text())
        with engine_of(location).begin() as connection:
            if isinstance(location, PostgresLocation):
                connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {location.schema}"))
            run_migrations(connection, schema, str(location), revision)
            for table in ("session", "event", "decision"):
                _fill(connection, dump, table, database=database)
            if database:
                connection.execute(
                    sa.text(
                        "INSERT INTO owner SELECT DISTINCT ON (session) session, NULL, 1, seq, hash "
                        "FROM event ORDER BY session, seq DESC"
                    )
                )
                connection.execute(sa.text("INSERT INTO lane SELECT 0, NULL, max(cursor) FROM event"))


def _fill(connection: sa.Connection, dump: sqlite3.Connection, table: str, *, database: bool) -> None:
    cursor = dump.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    columns = ", ".join(f'"{name}"' for name in names)
    marks = ", ".join(f":{name}" for name in names)
    for row in cursor.fetchall():
        values = dict(zip(names, row, strict=True))
        if database and "imported" in values:
            values["imported"] = bool(values["imported"])
        connection.execute(sa.text(f"INSERT INTO {table} ({columns}) VALUES ({marks})"), values)


@dataclass(frozen=True, slots=True)
class Kept:
    """Content of a journal, whatever its revision: its events in order, and each session's row."""

    events: Sequence[tuple[Any, ...]]
    lines: Sequence[tuple[Any, ...]]


def kept(location: Location) -> Kept:
    """Read the content of a journal."""
    with engine_of(location).connect() as connection:

        def rows(statement: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(sa.text(statement))]

        return Kept(
            rows("SELECT cursor, session, seq, at, type, body FROM event ORDER BY cursor"),
            rows("SELECT id, agent, status, events, calls, blocked, waiting FROM session ORDER BY id"),
        )


def tables_of(location: Location) -> dict[str, object]:
    """Return the tables of a journal, as described by its database.

    The table of versions is left out: its content depends on how the journal was created.
    """
    schema = location.schema if isinstance(location, PostgresLocation) else None
    found: dict[str, object] = {}
    with engine_of(location).connect() as connection:
        inspector = sa.inspect(connection)
        for table in sorted({*inspector.get_table_names(schema)} - {"alembic_version"}):
            columns = [
                (each["name"], str(each["type"]), each["nullable"])
                for each in inspector.get_columns(table, schema)
            ]
            indexes = [json.dumps(each, default=str) for each in inspector.get_indexes(table, schema)]
            # A migration does not determine the position of a column, and the schema's name is the
            # test's.
            indexes = sorted(each.replace(f"{schema}.", "") for each in indexes)
            found[table] = sorted(columns), indexes
    return found


def prepare(location: Location, schema: Schema) -> None:
    """Upgrade or create a journal."""
    if isinstance(location, Path):
        prepare_file(location, schema)
    else:
        prepare_database(location, schema)


@contextmanager
def version_of(schema: Schema) -> Iterator[None]:
    """Make this process behave as the version with a given schema; all parts share one schema object."""
    before = {name: getattr(CURRENT, name) for name in ("known", "scripts")}
    try:
        for name in before:
            object.__setattr__(CURRENT, name, getattr(schema, name))
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(CURRENT, name, value)


def problems_after(location: Location, fresh: Location, schema: Schema, revision: str) -> list[str]:
    """Return the problems of a journal of `revision` after the migrations of `schema` ran on it.

    `fresh` is an unused location, for comparison with a journal created at the newest revision.
    """
    journal_at(location, schema, revision)
    before = kept(location)
    prepare(location, schema)
    prepare(fresh, schema)
    found: list[str] = []
    after = kept(location)
    if after.events != before.events:
        found.append(f"it held {len(before.events)} events and holds {len(after.events)}, or others")
    if after.lines != before.lines:
        found.append("the lines of its sessions are others")
    upgraded, made = tables_of(location), tables_of(fresh)
    found += [
        f"table '{name}' is {upgraded.get(name)}, and in a new journal {made.get(name)}"
        for name in sorted(upgraded.keys() | made.keys())
        if upgraded.get(name) != made.get(name)
    ]
    with version_of(schema):
        checks = list(verify_journal(location))
    found += [f"{each.session}: {each.fault.message}" for each in checks if each.fault]
    reader = HistoryReader(location)
    for line in reader.sessions(limit=None):
        try:
            if fold(reader.events(line.id)).seq != line.events:
                found.append(f"{line.id} has other events than its line says")
        except (FoldError, JournalError) as error:
            found.append(f"{line.id} makes no sense: {error}")
    return found


Place = Callable[[str], Location]
"""Returns unused locations for journals, by name."""
