"""Unusual settings of databases and roles: each connection sets all that statements depend on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres.connection import connect, unreachable
from interlock.engine.history.postgres.pool import close_idle

from ..support.recording import decided, opening, result

TEXT = "a \\ ' \" \\x41 \N{SNOWMAN} NULL"
ODD = {
    "strings": "standard_conforming_strings = off",
    "arrays": "array_nulls = off",
    "isolation": "default_transaction_isolation = serializable",
    "deferrable": "default_transaction_deferrable = on",
    "bytes": "bytea_output = escape",
    "dates": "datestyle = 'German, DMY'",
    "numbers": "extra_float_digits = -10",
    "zone": "timezone = 'Asia/Kathmandu'",
    "path": "search_path = nowhere",
    "nulls": "transform_null_equals = on",
}


@pytest.fixture
def admin(postgresql: PostgresLocation) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgresql.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(postgresql: PostgresLocation, admin: psycopg.Connection) -> Iterator[PostgresLocation]:
    """The same location, with an owner of the tables that has unusual settings."""
    name = f"{postgresql.schema}_odd"
    admin.execute(f"CREATE ROLE {name} LOGIN SUPERUSER".encode())
    url = postgresql.url.replace("postgresql://interlock@", f"postgresql://{name}@")
    place = PostgresLocation(url, postgresql.schema)
    yield place
    close_idle(place)
    admin.execute(f"DROP OWNED BY {name} CASCADE".encode())
    admin.execute(f"DROP ROLE {name}".encode())


def set_up(admin: psycopg.Connection, place: PostgresLocation, setting: str) -> None:
    admin.execute(f"ALTER ROLE {place.schema}_odd SET {setting}".encode())


class TestOddRole:
    def test_unusual_role_settings_have_no_effect(
        self, admin: psycopg.Connection, role: PostgresLocation
    ) -> None:
        """A role's settings for strings, arrays, bytes, numbers and transactions have no effect."""
        for setting in ODD.values():
            set_up(admin, role, setting)
        with Journal.open(role) as journal:
            journal.write("s", opening())
            journal.write("s", decided("c1", "deploy"), MessageAdded(role="user", text=TEXT))
            journal.write("s", result("c1", "deploy"))
            counters = journal.counters
            assert counters is not None
            assert counters.read(["one"]).versions.keys() == {"one"}
        assert [check.fault for check in verify_journal(role)] == [None]
        reader = open_reader(role)
        texts = [each.body.text for each in reader.events("s") if isinstance(each.body, MessageAdded)]
        assert texts == [TEXT]
        assert [line.id for line in reader.sessions(None)] == ["s"]

    @pytest.mark.slow
    def test_idle_connections_stay_open(self, admin: psycopg.Connection, role: PostgresLocation) -> None:
        """Connections that are idle for long, to listen or wait for a batch, stay open."""
        set_up(admin, role, "idle_session_timeout = '200ms'")
        with Journal.open(role) as journal:
            journal.write("s", opening())
            connection = connect(role)
            time.sleep(0.6)
            assert connection.number("SELECT 1") == 1
            connection.close()
            journal.write("s", MessageAdded(role="user", text=TEXT))

    def test_jit_compilation_is_off(self, admin: psycopg.Connection, role: PostgresLocation) -> None:
        """Compilation is off, since plans with a high estimated cost take seconds to compile."""
        set_up(admin, role, "jit = on")
        with closing(connect(role)) as connection:
            assert connection.execute("SHOW jit").fetchall() == [("off",)]

    @pytest.mark.slow
    def test_read_only_setting_is_named(self, admin: psycopg.Connection, role: PostgresLocation) -> None:
        """The error names the role's setting, not only a standby as the cause."""
        set_up(admin, role, "default_transaction_read_only = on")
        with pytest.raises(JournalError, match="default_transaction_read_only is on for the role"):
            Journal.open(role)


class TestErrorText:
    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (
                psycopg.OperationalError(
                    'connection failed: connection to server at "::1", port 1 failed: Connection refused'
                    "\n\tIs the server running on that host and accepting TCP/IP connections?"
                ),
                'connection failed: connection to server at "::1", port 1 failed: Connection refused',
            ),
            (
                psycopg.errors.DiskFull(
                    'could not extend file "base/1": No space left on device\n'
                    "HINT:  Check free disk space."
                ),
                'could not extend file "base/1": No space left on device. HINT: Check free disk space',
            ),
            (
                psycopg.OperationalError(
                    "server closed the connection unexpectedly\n\tThis probably means the server "
                    "terminated abnormally\n\tbefore or while processing the request."
                ),
                "server closed the connection unexpectedly. This probably means the server terminated "
                "abnormally before or while processing the request",
            ),
            (psycopg.OperationalError(), "OperationalError"),
        ],
    )
    def test_omits_the_question_of_libpq(self, error: psycopg.Error, text: str) -> None:
        """The text omits the question of PostgreSQL's library, which the remedy answers."""
        assert f"PostgreSQL says: {text}. " in str(
            unreachable(PostgresLocation("postgresql://db/x", "i"), error)
        )


class TestRemedies:
    @pytest.mark.parametrize(
        ("error", "remedy"),
        [
            (psycopg.errors.QueryCanceled("statement timeout"), "statement_timeout = 0"),
            (psycopg.errors.TooManyConnections("too many"), "max_connections"),
            (psycopg.errors.DiskFull("no space"), "disk is full"),
            (psycopg.errors.LockNotAvailable("lock timeout"), "lock_timeout = 0"),
            (psycopg.OperationalError("FATAL:  sorry, too many clients already"), "max_connections"),
            (psycopg.OperationalError("FATAL:  password authentication failed for user"), "PGPASSFILE"),
            (psycopg.OperationalError("FATAL:  no pg_hba.conf entry, no encryption"), "sslmode=require"),
        ],
    )
    def test_name_the_limit_and_its_remedy(
        self, postgresql: PostgresLocation, error: psycopg.Error, remedy: str
    ) -> None:
        """The error names the limit of the database or role and its remedy."""
        assert remedy in str(unreachable(postgresql, error))


class TestEncoding:
    @pytest.mark.slow
    def test_other_encoding_is_refused_at_once(
        self, postgresql: PostgresLocation, admin: psycopg.Connection
    ) -> None:
        """A database with another encoding is refused at once, not at the first text it cannot store."""
        name = f"{postgresql.schema}_latin"
        admin.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
        try:
            place = PostgresLocation(postgresql.url.replace("/postgres", f"/{name}", 1), "journal")
            with pytest.raises(JournalError, match="the encoding of this database is LATIN1"):
                Journal.open(place)
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
