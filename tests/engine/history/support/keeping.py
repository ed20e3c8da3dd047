"""Journals with a few sessions that have secrets, and operations on such files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from interlock.engine.history.audit.export import Mask, as_jsonl, linked_events
from interlock.engine.history.audit.verify import ChainCheck, verify_journal
from interlock.engine.history.database.compiled import FIRST_ROWS
from interlock.engine.history.database.location import Location, PostgresLocation, absolute
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import EventBody, MessageAdded, SessionStatus
from interlock.engine.history.redaction.redaction import Redaction
from tests.support.raw_database import raw_database

from .recording import answer, approval, asks, decided, opening, request, result, step

DAY = timedelta(days=1)
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SECRET = "correct-horse-battery-9"
NET = approval("deploy")
MASK: Mask = Redaction().body

BODIES: tuple[EventBody, ...] = (
    opening(NET),
    SessionStatus(status="running"),
    MessageAdded(role="user", text="Ship it.", by="maria"),
    MessageAdded(role="user", text=f"The password is in here: PASSWORD={SECRET}", by="maria"),
    asks(("c1", "deploy")),
    request("a1", "c1", "deploy"),
    answer("a1", "c1"),
    decided(
        "c1", "deploy", step(NET, "approve", "deploy"), approved_by=("maria",), input={"token": SECRET}
    ),
    result("c1", "deploy"),
    SessionStatus(status="done"),
)
"""Ten events; the content of the fourth and the eighth is partly secret."""

MASKED = (4, 8)


def recorded_at(path: Location, when: datetime, session: str, *bodies: EventBody) -> None:
    """Record a session into the journal at `path`, all events at one time."""
    with Journal.open(path, clock=lambda: when) as journal:
        journal.write(session, *(bodies or BODIES))


def exported(path: Location, session: str = "s1", mask: Mask | None = MASK) -> list[str]:
    """Return the lines of a session's export."""
    return list(as_jsonl(session, linked_events(path, session), mask))


def saved(path: Path, lines: Iterable[str]) -> Path:
    """Write these lines into a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def tamper(path: Location, *statements: str) -> None:
    """Change a journal like an attacker with access to the file or full database rights."""
    with closing(raw_database(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def rows(path: Location, select: str) -> list[tuple[object, ...]]:
    """Return the rows of a query."""
    with closing(raw_database(path)) as connection:
        return connection.execute(select).fetchall()


def contents(path: Location) -> dict[str, list[tuple[object, ...]]]:
    """Return all content of a journal by table, and its highest event numbers as `numbers`."""
    if isinstance(absolute(path), PostgresLocation):
        found = {
            "numbers": rows(path, "SELECT lane, last FROM lane ORDER BY 1"),
            "owner": rows(path, "SELECT * FROM owner ORDER BY 1"),
        }
        for text in FIRST_ROWS:
            table = text.removesuffix(" LIMIT 1").rpartition(" ")[2]
            found[table] = rows(path, text.replace(" LIMIT 1", " ORDER BY 1"))
        return found
    tables = ("session", "event", "decision", "pruned")
    return {table: rows(path, f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables} | {
        "numbers": rows(path, "SELECT name, seq FROM sqlite_sequence")
    }


def files(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a journal's file and its SQLite logs; for a database, its rows."""
    if isinstance(absolute(path), PostgresLocation):
        yield repr(contents(path)).encode()
        return
    yield path.read_bytes()
    for beside in ("-wal", "-shm"):
        other = path.with_name(path.name + beside)
        if other.exists():
            yield other.read_bytes()


def verdicts(path: Location) -> dict[str, ChainCheck]:
    """Return the verification result of each session."""
    return {check.session: check for check in verify_journal(path)}
