"""Roles in the database: the rights of a server's role, and a role behind a pooler."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interlock.engine.history.audit.stream_positions import SentEvent
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded, SessionStatus
from interlock.engine.history.postgres.connection import connect
from interlock.engine.history.postgres.servers import lease as leasing
from interlock.engine.history.postgres.servers.lease import ServerLease
from interlock.engine.history.postgres.stream_positions import PostgresPositions

from ..support.recording import decided, opening, result
from .support.servers import rows, writer

HELLO = MessageAdded(role="user", text="hello")
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "many-servers.md"


def as_role(location: PostgresLocation, role: str, more: str = "") -> PostgresLocation:
    """Return the same location for another role."""
    url = location.url.replace("postgresql://interlock@", f"postgresql://{role}@")
    assert url != location.url
    return PostgresLocation.of(f"{url}{'&' if '?' in url else '?'}schema={location.schema}{more}")


@pytest.fixture
def role(postgresql: PostgresLocation) -> Iterator[str]:
    """A role without rights, named after the schema."""
    name = f"{postgresql.schema}_server"
    admin = psycopg.connect(postgresql.url, autocommit=True)
    admin.execute(f"CREATE ROLE {name} LOGIN".encode())
    yield name
    admin.execute(f"DROP OWNED BY {name}".encode())
    admin.execute(f"DROP ROLE {name}".encode())
    admin.close()


def granted(location: PostgresLocation, role: str) -> None:
    """Run the page's statements for another schema and role."""
    [block] = re.findall(r"```sql\n(.*?GRANT.*?)```", PAGE.read_text(), re.DOTALL)
    admin = psycopg.connect(location.url, autocommit=True)
    for statement in block.split(";"):
        text = re.sub(r"--.*", "", statement).strip()
        if text and not text.startswith("CREATE ROLE"):
            text = text.replace("interlock_server", role).replace(
                "SCHEMA interlock", f"SCHEMA {location.schema}"
            )
            text = re.sub(r"\binterlock\.", f"{location.schema}.", text)
            admin.execute(text.encode())
    admin.close()


class TestServersRole:
    @pytest.mark.slow
    def test_writes_and_reads(self, postgresql: PostgresLocation, role: str) -> None:
        """The rights on the page suffice for all work of a server."""
        Journal.open(postgresql).close()
        granted(postgresql, role)
        with (
            Journal.open(as_role(postgresql, role)) as journal,
            Journal.open(as_role(postgresql, role)) as other,
        ):
            journal.name_server("http://here:1")
            journal.write("s", opening(), decided("c1", "test"), result("c1", "test"))
            journal.write("t", opening())
            journal.write("s", decided("c2", "test"))
            journal.write("s", result("c2", "test"), SessionStatus(status="done"))
            journal.release("t")
            assert other.orphans(9) == ["t"]
            assert other.write("t", HELLO)[0].seq == 2
            assert isinstance(other.lock, ServerLease)
            place = PostgresPositions(other.lock, "audit")
            assert place.claim()
            place.note({0: SentEvent(1)})
            assert place.read() == {0: SentEvent(1)}
            place.let_go()
        assert len(list(open_reader(as_role(postgresql, role)).events("s"))) == 6

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE event SET body = 'other'",
            "DELETE FROM event",
            "TRUNCATE event",
            "DELETE FROM session",
            "DELETE FROM owner",
            "UPDATE line SET text = 'other'",
            "DELETE FROM line",
            "UPDATE fenced SET session = 'other'",
            "DELETE FROM fenced",
            "UPDATE pruned SET events = 0",
            "INSERT INTO pruned (session, agent, opened, updated, events, head, at, by, key, signature) "
            "VALUES ('s', '', 0, 0, 0, '', 0, '', '', '')",
            "DROP TABLE event",
            "ALTER TABLE event DISABLE TRIGGER ALL",
        ],
    )
    def test_changes_no_event(self, postgresql: PostgresLocation, role: str, statement: str) -> None:
        """A server's role can neither change nor remove records."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening())
        granted(postgresql, role)
        connection = connect(as_role(postgresql, role))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.raw.execute(statement.encode())
        connection.close()


class TestMissingRight:
    def test_schema_right_is_named(self, postgresql: PostgresLocation, role: str) -> None:
        """A missing right on the schema is reported as such, not as a missing table."""
        Journal.open(postgresql).close()
        with pytest.raises(JournalError, match="GRANT USAGE ON SCHEMA"):
            Journal.open(as_role(postgresql, role))

    def test_table_right_is_named(self, postgresql: PostgresLocation, role: str) -> None:
        """The error of a refused write names the missing right and no other cause."""
        Journal.open(postgresql).close()
        granted(postgresql, role)
        with Journal.open(as_role(postgresql, role)) as journal:
            rows(postgresql, f"REVOKE INSERT ON {postgresql.schema}.event FROM {role}")
            with pytest.raises(JournalError, match="The role lacks a right") as failed:
                journal.write("s", opening())
        assert "reached from here" not in str(failed.value)

    @pytest.mark.slow
    def test_lease_renewal_failure_is_reported_once(
        self,
        postgresql: PostgresLocation,
        role: str,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A server that cannot renew its lease reports the reason once."""
        monkeypatch.setattr(leasing, "LEASE_SECONDS", 0.4)
        Journal.open(postgresql).close()
        granted(postgresql, role)
        with Journal.open(as_role(postgresql, role)) as journal:
            assert isinstance(journal.lock, ServerLease)
            rows(postgresql, f"REVOKE UPDATE ON {postgresql.schema}.server FROM {role}")
            for _ in range(200):
                if "is not renewed" in caplog.text:
                    break
                time.sleep(0.05)
            time.sleep(0.5)
            assert caplog.text.count("is not renewed") == 1
            assert "The role lacks a right" in caplog.text


class TestPooler:
    def test_no_statement_is_prepared(self, postgresql: PostgresLocation, role: str) -> None:
        """Behind a pooler no statement is prepared, and the role's setting determines the schema."""
        Journal.open(postgresql).close()
        granted(postgresql, role)
        rows(postgresql, f"ALTER ROLE {role} SET search_path = {postgresql.schema}")
        location = as_role(postgresql, role, "&pooler=transaction")
        assert str(location).endswith("pooler=transaction")
        prepared: list[Any] = []
        with Journal.open(location) as journal:
            journal.write("s", opening())
            for _ in range(9):
                journal.write("s", HELLO)
            found = writer(journal)._open().execute("SELECT name FROM pg_prepared_statements")
            prepared += found.fetchall()
        assert prepared == []
        assert len(list(open_reader(postgresql).events("s"))) == 10

    @pytest.mark.slow
    def test_another_schema_is_an_error(self, postgresql: PostgresLocation, role: str) -> None:
        """If the role has another schema, the error names the statement that changes it."""
        Journal.open(postgresql).close()
        granted(postgresql, role)
        location = as_role(postgresql, role, "&pooler=transaction")
        with pytest.raises(
            JournalError, match=f"ALTER ROLE {role} SET search_path = {postgresql.schema}; .*RECONNECT"
        ):
            Journal.open(location)

    @pytest.mark.slow
    def test_another_setting_is_an_error(self, postgresql: PostgresLocation, role: str) -> None:
        """A setting that a pooled connection cannot change must be set for the role."""
        Journal.open(postgresql).close()
        granted(postgresql, role)
        rows(postgresql, f"ALTER ROLE {role} SET search_path = {postgresql.schema}")
        rows(postgresql, f"ALTER ROLE {role} SET default_transaction_isolation = serializable")
        location = as_role(postgresql, role, "&pooler=transaction")
        wanted = f"ALTER ROLE {role} SET default_transaction_isolation = 'read committed'"
        with pytest.raises(JournalError, match=wanted):
            Journal.open(location)

    def test_another_kind_is_an_error(self) -> None:
        """An unknown kind of pooler is refused."""
        with pytest.raises(JournalError, match="write pooler=transaction"):
            PostgresLocation.of("postgresql://db/lock?pooler=statement")
