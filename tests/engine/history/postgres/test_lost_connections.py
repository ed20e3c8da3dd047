"""Connections that break at each moment of a write, and databases that do not answer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interlock.engine.core.shared_limit import Reservation
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres import connection as connecting
from interlock.engine.history.postgres import counters as counting
from interlock.engine.history.postgres import writer as writing
from interlock.engine.history.postgres.append import APPEND
from interlock.engine.history.postgres.connection import PostgresConnection
from interlock.engine.history.postgres.servers import lease as leasing

from ....support.postgres import own_server
from ..support.recording import opening
from .support.servers import Step, append_values, beside, rows, wait_for, writer

HELLO = MessageAdded(role="user", text="hello")
MORE = MessageAdded(role="user", text="more")
BODIES = "SELECT seq, body LIKE '%hello%' FROM event WHERE session = ? AND type = 'message' ORDER BY seq"


@pytest.fixture
def journal(postgresql: PostgresLocation) -> Iterator[Journal]:
    """A server with a session `s` of one event."""
    with Journal.open(postgresql) as journal:
        journal.write("s", opening())
        yield journal


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with shorter time limits than usual."""
    monkeypatch.setattr(writing, "RECONNECT_SECONDS", 1.0)
    monkeypatch.setattr(writing, "CLOSE_SECONDS", 0.5)
    monkeypatch.setattr(writing, "PATIENCE", 1.0)
    monkeypatch.setattr(writing, "LOOK_SECONDS", 1.0)
    monkeypatch.setattr(leasing, "PATIENCE", 1.0)


def breaking(journal: Journal, act: Callable[[Any, Any, Any], None]) -> None:
    """Replace the next append by `act`, and lose its connection afterwards."""
    connection = writer(journal)._open()

    def execute(statement: str, values: Any) -> Any:
        assert statement == APPEND
        act(connection, statement, values)
        connection.raw.close()
        raise psycopg.OperationalError("the connection is lost")

    connection.execute_named = execute


class TestMoments:
    def test_unsent_batch_is_written_once(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A batch that was never sent is written once, on a new connection."""
        breaking(journal, lambda connection, statement, values: None)
        assert journal.write("s", HELLO)[0].seq == 2
        assert rows(postgresql, BODIES, ("s",)) == [(2, True)]

    @pytest.mark.slow
    def test_committed_batch_with_lost_answer_is_found(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A batch with a lost answer is found and not written again."""
        breaking(journal, PostgresConnection.execute_named)
        assert journal.write("s", HELLO)[0].seq == 2
        assert journal.write("s", MORE)[0].seq == 3
        assert rows(postgresql, BODIES, ("s",)) == [(2, True), (3, False)]

    @pytest.mark.slow
    def test_batch_committed_after_the_look_is_written_once(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A batch that commits after the server has looked for it is still written only once."""
        ghost = Step(postgresql)
        breaking(journal, lambda connection, statement, values: ghost.run(APPEND, values) and None)

        def later() -> None:
            waiting = (
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND application_name = 'interlock journal' AND query LIKE '%WITH place%'"
            )
            wait_for(lambda: bool(rows(postgresql, waiting)))
            ghost.commit()

        thread = threading.Thread(target=later)
        thread.start()
        assert journal.write("s", HELLO)[0].seq == 2
        thread.join()
        ghost.close()
        assert rows(postgresql, BODIES, ("s",)) == [(2, True)]

    @pytest.mark.slow
    def test_late_commit_of_failed_batch_stops_no_server(
        self, postgresql: PostgresLocation, journal: Journal, short_limits: None
    ) -> None:
        """A failed batch that the database commits late does not stop the server."""
        ghost = Step(postgresql)

        def taken(connection: Any, statement: Any, values: Any) -> None:
            ghost.run(APPEND, values)
            writer(journal)._open = away

        def away() -> Any:
            raise psycopg.OperationalError("nobody there")

        breaking(journal, taken)
        with pytest.raises(JournalError, match="no call is allowed"):
            journal.write("s", HELLO)
        del writer(journal)._open
        ghost.commit()
        ghost.close()
        wait_for(lambda: writer(journal).away is None)
        assert journal.write("s", MORE)[0].seq == 3
        assert journal.write("t", opening())[0].seq == 1
        assert rows(postgresql, BODIES, ("s",)) == [(2, True), (3, False)]

    @pytest.mark.slow
    def test_numbers_of_late_batch_are_not_reused(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """Numbers of a late batch are not used again; the next write gets others."""
        values = append_values(journal, HELLO, session="s")
        written = writer(journal)._made

        def made(*given: Any) -> Any:
            del writer(journal)._made
            found = written(*given)
            ghost = Step(postgresql)
            ghost.run(APPEND, values)
            ghost.commit()
            ghost.close()
            return found

        writer(journal)._made = made
        with pytest.raises(JournalError, match=r"not what the database has|taken late"):
            journal.write("t", opening())
        assert journal.write("t", opening())[0].seq == 1
        assert rows(postgresql, "SELECT session, seq FROM event ORDER BY cursor") == [
            ("s", 1),
            ("s", 2),
            ("t", 1),
        ]


class TestConflicts:
    def test_a_deadlock_is_tried_again(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A batch that the database rolled back because of a conflict is sent again on the connection."""
        connection = writer(journal)._open()
        tries: list[Any] = []

        def execute(statement: str, values: Any) -> Any:
            tries.append(values)
            if len(tries) == 1:
                raise psycopg.errors.DeadlockDetected("deadlock detected")
            return PostgresConnection.execute_named(connection, statement, values)

        connection.execute_named = execute
        assert journal.write("s", HELLO)[0].seq == 2
        assert len(tries) == 2
        assert writer(journal)._open() is connection

    @pytest.mark.slow
    def test_a_full_disk_fails_at_once(self, journal: Journal) -> None:
        """An error that a retry cannot solve is reported at once, and the next write succeeds."""
        connection = writer(journal)._open()

        def execute(statement: str, values: Any) -> Any:
            del connection.execute_named
            raise psycopg.errors.DiskFull("no space left on device")

        connection.execute_named = execute
        with pytest.raises(JournalError, match="no space left"):
            journal.write("s", HELLO)
        assert journal.write("s", HELLO)[0].seq == 2


@pytest.mark.slow
class TestDatabaseAway:
    def test_write_waits_for_database_restart(self) -> None:
        """A write succeeds once a database that was shut down immediately is running again."""
        with own_server() as database:
            location = PostgresLocation(database.url, "journal")
            with Journal.open(location) as journal:
                journal.write("s", opening())
                database.stop(signal.SIGQUIT)
                later = threading.Timer(0.5, database.start)
                later.start()
                assert journal.write("s", HELLO)[0].seq == 2
                later.join()
            assert rows(location, BODIES, ("s",)) == [(2, True)]

    def test_a_write_fails_in_time_and_the_next_at_once(self, short_limits: None) -> None:
        """Without the database a write fails, later ones fail without delay, and writes succeed
        after its return."""
        with own_server() as database:
            location = PostgresLocation(database.url, "journal")
            with Journal.open(location) as journal:
                journal.write("s", opening())
                database.stop(signal.SIGQUIT)
                with pytest.raises(JournalError, match="could not be written"):
                    journal.write("s", HELLO)
                with pytest.raises(JournalError, match="does not answer"):
                    journal.write("s", HELLO)
                database.start()
                wait_for(lambda: writer(journal).away is None)
                assert journal.write("s", HELLO)[0].seq == 2

    def test_a_stopped_database_does_not_hang_a_write_or_the_end(self, short_limits: None) -> None:
        """A write to a database that does not answer fails, and the journal closes in time."""
        with own_server() as database:
            location = PostgresLocation(database.url, "journal")
            journal = Journal.open(location)
            journal.write("s", opening())
            assert database._process is not None
            stopped = [database._process.pid, *_children(database._process.pid)]
            try:
                for each in stopped:
                    _signal(each, signal.SIGSTOP)
                with pytest.raises(JournalError, match="could not be written"):
                    journal.write("s", HELLO)
                begun = time.monotonic()
                journal.close()
                assert time.monotonic() - begun < 60
            finally:
                for each in stopped:
                    _signal(each, signal.SIGCONT)


def _children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


class TestLongLock:
    def test_holds_nobody_who_stopped_waiting(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process of the database ends with its client, also if it waits for a lock."""
        monkeypatch.setattr(
            connecting, "_ENDS_WITH_CLIENT", ("client_connection_check_interval = '20ms'", 140000)
        )
        holder = Step(postgresql)
        holder.run("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
        asking = connecting.connect(postgresql, name="a question", patience=0.3)
        with pytest.raises(psycopg.OperationalError, match="no answer within"):
            asking.execute("SELECT count(*) FROM event")
        asking.close()
        there = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'a question'"
        wait_for(lambda: rows(postgresql, there) == [])
        holder.close()

    def test_on_a_system_that_does_not_notice(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the database's system cannot check its clients, connections have all other settings."""
        monkeypatch.setattr(
            connecting, "_ENDS_WITH_CLIENT", ("client_connection_check_interval = 'never'", 140000)
        )
        with connecting.connect(postgresql).raw as raw:
            assert raw.execute("SHOW idle_session_timeout").fetchone() == ("0",)

    def test_of_a_counter_fails_its_calls(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A row that stays locked does not hold up calls with shared limits for as long."""
        monkeypatch.setattr(counting, "PATIENCE", 0.2)
        monkeypatch.setattr(counting, "RECONNECT_SECONDS", 0.3)
        counters = journal.counters
        assert counters is not None
        versions = counters.read(["mail"]).versions
        holder = Step(postgresql)
        holder.run("UPDATE counter SET at = at")
        first = Reservation("r1", "s", "c1", {"limit": "mail"}, 1.0, 2.0)
        with pytest.raises(counting.CountersError, match="no answer within"):
            counters.reserve([first], versions)
        holder.close()
        counters.release(first)
        second = first._replace(id="r2", call_id="c2")
        wait_for(lambda: counters.reserve([second], counters.read(["mail"]).versions))

    @pytest.mark.slow
    def test_server_ends_without_waiting_for_each_statement(
        self, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The end of a server takes one short attempt for each statement on a table that is locked."""
        monkeypatch.setattr(writing, "CLOSE_SECONDS", 0.5)
        monkeypatch.setattr(writing, "LEAST_SECONDS", 0.5)
        journal = Journal.open(postgresql)
        journal.write("s", opening())
        writer(journal)._ends.doubt()
        with ThreadPoolExecutor() as threads, beside(postgresql) as connection:
            connection.raw.execute("BEGIN")
            connection.execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
            written = threads.submit(journal.write, "s", HELLO)
            wait_for(lambda: bool(journal._under_way))
            begun = time.monotonic()
            journal.close()
            assert time.monotonic() - begun < 5
            connection.raw.rollback()
            with pytest.raises(JournalError, match="could not be written"):
                written.result()
