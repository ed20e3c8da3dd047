"""Durability: the setting of each batch, and settings that can lose acknowledged events."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.logs.line_log import line_log
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres.append import APPEND
from interlock.engine.history.postgres.connection import PostgresConnection, connect
from interlock.engine.history.postgres.durability import durability
from interlock.engine.history.postgres.maintenance import changing_database

from ....support.postgres import own_server
from ..support.recording import opening
from .support.servers import Step, append_values, writer

HELLO = MessageAdded(role="user", text="hello")


class TestCommits:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("given", "found"),
        [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply",) * 2],
    )
    def test_batch_is_durable_regardless_of_settings(
        self, postgresql: PostgresLocation, given: str, found: str
    ) -> None:
        """A batch is durable at its commit, regardless of the settings of the role or database."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening())
            step = Step(postgresql)
            step.connection.raw.execute(f"SET synchronous_commit = {given}".encode())
            step.run(APPEND, append_values(journal, HELLO, session="s"))
            assert step.run("SHOW synchronous_commit") == [(found,)]
            step.commit()
            assert step.run("SHOW synchronous_commit") == [(given,)]
            step.close()

    def test_log_line_is_durable_regardless_of_settings(self, postgresql: PostgresLocation) -> None:
        """A freeze is on disk when it is acknowledged, regardless of the database's settings."""
        with Journal.open(postgresql), closing(connect(postgresql)) as connection:
            for statement in (
                "CREATE TABLE committed (how text)",
                "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN INSERT INTO committed "
                "VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$",
                "CREATE CONSTRAINT TRIGGER noted AFTER INSERT ON line DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION note()",
            ):
                connection.raw.execute(statement.encode())
            assert connection.execute("SHOW synchronous_commit").fetchall() == [("off",)]
            line_log(postgresql, "freeze").append("frozen")
            assert connection.execute("SELECT how FROM committed").fetchall() == [("on",)]

    def test_a_change_of_the_whole_journal_is_durable_too(self, postgresql: PostgresLocation) -> None:
        """An import or a copy is on disk when the command ends, because its source may be deleted."""
        setting = "SHOW synchronous_commit"
        with changing_database(postgresql, create=True) as connection:
            assert connection.execute(setting).fetchall() == [("on",)]
        with closing(connect(postgresql)) as other:
            assert other.execute(setting).fetchall() == [("off",)]

    @pytest.mark.slow
    def test_look_for_a_lost_batch_is_durable(self, postgresql: PostgresLocation) -> None:
        """The look for a batch with a lost answer is itself a durable write."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening())
            asked: list[Any] = []
            opened = writer(journal)._lease.settled_number

            def settled(connection: Any) -> int:
                asked.append(connection)
                return opened(connection)

            writer(journal)._lease.settled_number = settled
            connection = writer(journal)._open()

            def execute(statement: str, values: Any) -> Any:
                PostgresConnection.execute_named(connection, statement, values)
                connection.raw.close()
                raise psycopg.OperationalError("lost")

            connection.execute_named = execute
            journal.write("s", HELLO)
            assert asked


class TestWarnings:
    @pytest.mark.slow
    def test_unsafe_settings_are_named(self) -> None:
        """Settings that do not wait for the disk cause warnings that name them."""
        with own_server(durable=False) as database:
            location = PostgresLocation(database.url, "journal")
            fsync, pages = durability(location)
            assert fsync.startswith("fsync is off")
            assert pages.startswith("full_page_writes is off")

    @pytest.mark.slow
    def test_default_settings_cause_none(self) -> None:
        """A database with its default settings causes no warning."""
        with own_server() as database:
            assert durability(PostgresLocation(database.url, "journal")) == []

    def test_unreachable_database_is_an_error(self) -> None:
        """A database that cannot be reached is an error."""
        with pytest.raises(JournalError, match="Check that the database runs"):
            durability(PostgresLocation("postgresql://nobody@127.0.0.1:1/none"))
