"""Journals of older versions, and a host that may die while it upgrades one."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from interlock.engine.history.audit.hash_chain import ChainPosition, event_hash_of_body
from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.database.revisions import DATABASES_ONLY, MIGRATIONS, Schema
from interlock.engine.history.errors import FoldError
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.schema import CURRENT
from interlock.engine.history.journal.session_index import SessionLine

from . import disk, planted
from .busy import database_in

DUMP = Path(__file__).parents[1] / "data" / "journal_0006.sql"
COPIES = 4
"""Number of copies of the sessions, so that an upgrade takes more than a few writes."""

OLDER = ("before",)
"""Revisions that upgrades start from; an artificial one, until there is a second real one."""

NEWEST_OF_FILES = [each for each in CURRENT.known if each not in DATABASES_ONLY][-1]
"""Newest revision that changes a file."""

BEFORE = "revision = 'before'\ndown_revision = None\n\n\ndef upgrade():\n    pass\n"
NEWEST = f"""
import sqlalchemy as sa
from alembic import op

revision = {NEWEST_OF_FILES!r}
down_revision = "before"


def upgrade():
    op.add_column("decision", sa.Column("off", sa.String()))
    op.execute("UPDATE decision SET off = tool")
    op.execute("UPDATE decision SET off = NULL")
    op.execute("CREATE INDEX ix_decision_off ON decision (off, at) WHERE \\"off\\" IS NOT NULL")
"""


def schema_in(folder: Path) -> Schema:
    """Return a schema with a revision before the newest, whose scripts are in a folder."""
    return Schema(known=(*OLDER, NEWEST_OF_FILES), scripts=folder / "scripts")


def older(path: Path, *, emptied: bool) -> None:
    """Create a journal of an older revision at `path`, whose host was killed, and scripts next to it.

    The host's last writes are in the file if it had `emptied` (checkpointed) its log, else in the log.
    """
    scripts = schema_in(path.parent).scripts / "versions"
    shutil.copytree(MIGRATIONS, scripts.parent, ignore=lambda *_: ["versions"])
    scripts.mkdir()
    (scripts / "before.py").write_text(BEFORE)
    (scripts / "newest.py").write_text(NEWEST)
    made = path.with_name("made.db")
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.executescript(DUMP.read_text())
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("DROP INDEX ix_decision_off")
        connection.execute("ALTER TABLE decision DROP COLUMN off")
        connection.execute("UPDATE alembic_version SET version_num = 'before'")
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("BEGIN")
        for n in range(COPIES):
            copy_sessions(connection, f"-{n}")
        connection.execute("COMMIT")
        if emptied:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        for ending in ("", "-wal"):
            shutil.copy(made.with_name(f"{made.name}{ending}"), path.with_name(f"{path.name}{ending}"))
    made.unlink()


def copy_sessions(connection: sqlite3.Connection, ending: str) -> None:
    """Add copies of the dump's sessions under other names, with their own chains."""
    for row in connection.execute("SELECT * FROM session WHERE id NOT LIKE '%-_-_'").fetchall():
        session, *line = row
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO session VALUES ({marks})", (session + ending, *line))
        events = connection.execute("SELECT * FROM event WHERE session = ? ORDER BY seq", (session,))
        previous = None
        for _, _, seq, at, kind, body, salt, content, _ in events.fetchall():
            previous = event_hash_of_body(ChainPosition(session + ending, seq, at), body, salt, previous)
            values = None, session + ending, seq, at, kind, body, salt, content, previous
            connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


@dataclass(frozen=True, slots=True)
class Held:
    """Content of a journal, whatever its revision: its rows by session, and its events in order."""

    lines: tuple[tuple[object, ...], ...]
    events: tuple[tuple[object, ...], ...]


def held(path: Path) -> Held:
    """Read the content of a journal. Raises `sqlite3.Error`."""
    with closing(sqlite3.connect(path)) as connection:
        columns = (
            "id, agent, model, mode, status, opened, updated, events, calls, blocked, waiting, error"
        )
        lines = connection.execute(f"SELECT {columns} FROM session ORDER BY id").fetchall()
        order = "SELECT cursor, session, seq, at, type, body FROM event ORDER BY cursor"
        return Held(tuple(lines), tuple(connection.execute(order).fetchall()))


def decisions(path: Path) -> list[tuple[object, ...]]:
    """Return the rows of decisions of an upgraded journal."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM decision ORDER BY cursor").fetchall()


def problems_of(path: Path, before: Held) -> list[str]:
    """Return the problems of an upgraded journal that held `before`, or of the copy made before."""
    found: list[str] = []
    with closing(sqlite3.connect(path)) as connection:
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        sound = connection.execute("PRAGMA integrity_check").fetchall()
    if revision != [(NEWEST_OF_FILES,)] or sound != [("ok",)]:
        found.append(f"it is of revision {revision}, integrity_check says {sound[:3]}")
    now = held(path)
    if now.events != before.events:
        found.append(f"it held {len(before.events)} events and holds {len(now.events)}, or others")
    if now.lines != before.lines:
        found.append("its lines are others")
    found += [f"{c.session}: {c.fault.message}" for c in verify_journal(path) if c.fault is not None]
    if missing := check_file(path).missing:
        found.append(f"{missing} events are missing")
    reader = open_reader(path)
    for line in reader.sessions(limit=None):
        events = list(reader.events(line.id))
        try:
            fold(events)
        except FoldError as error:
            found.append(f"{line.id} makes no sense: {error}")
        if SessionLine.of(events).summary() != line:
            found.append(f"the line of {line.id} is not what its events say")
    if not any(_is_copy(copy, before) for copy in path.parent.glob(f"{path.name}.*.bak")):
        found.append("there is no copy from before")
    return found


def _is_copy(path: Path, before: Held) -> bool:
    try:
        return held(path) == before
    except sqlite3.Error:
        return False


def upgrade(
    reporting: int, folder: str, death: dict[str, object] | None = None, plant: str = ""
) -> dict[str, object]:
    """Open an older or partly upgraded journal for writing; return the number of disk operations."""
    planted.plant(plant)
    database = database_in(Path(folder))
    disk.arm(database, death)
    Journal.open(database, schema=schema_in(Path(folder))).close()
    return {"operations": disk.operations()}
