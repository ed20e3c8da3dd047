"""Durability: what each batch asks for, and settings under which acknowledged events can be lost."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres.append import APPEND
from interlock.engine.history.postgres.connection import PostgresConnection
from interlock.engine.history.postgres.durability import durability

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
    def test_each_batch_says_that_it_is_durable(
        self, postgresql: PostgresLocation, given: str, found: str
    ) -> None:
        """A batch is durable when it is committed, however the role or the database was set up."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opening())
            step = Step(postgresql)
            step.connection.raw.execute(f"SET synchronous_commit = {given}".encode())
            step.run(APPEND, append_values(journal, HELLO, session="s"))
            assert step.run("SHOW synchronous_commit") == [(found,)]
            step.commit()
            assert step.run("SHOW synchronous_commit") == [(given,)]
            step.close()

    @pytest.mark.slow
    def test_a_look_after_a_lost_connection_is_durable_too(self, postgresql: PostgresLocation) -> None:
        """What is found of a batch whose answer was lost is found behind it in the database's log."""
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
    def test_settings_that_promise_nothing_are_named(self) -> None:
        """A database that does not wait for its disk is warned of, with what to set."""
        with own_server(durable=False) as database:
            location = PostgresLocation(database.url, "journal")
            fsync, pages = durability(location)
            assert fsync.startswith("fsync is off")
            assert pages.startswith("full_page_writes is off")

    @pytest.mark.slow
    def test_usual_settings_give_none(self) -> None:
        """A database as it is installed promises what it says."""
        with own_server() as database:
            assert durability(PostgresLocation(database.url, "journal")) == []

    def test_a_database_that_is_not_there(self) -> None:
        """A database that cannot be asked is an error."""
        with pytest.raises(JournalError, match="Check that the database runs"):
            durability(PostgresLocation("postgresql://nobody@127.0.0.1:1/none"))
