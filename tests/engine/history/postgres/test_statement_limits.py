"""Statements whose answer is lost, and statements that take long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

import psycopg
import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.postgres import statement_limits as limits
from interlock.engine.history.postgres.connection import connect
from interlock.engine.history.postgres.pool import close_idle, reading

from ....crash.proxy import Proxy
from ....support.ports import free_port
from ....support.postgres import own_server
from .support.servers import rows, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _short_quiet_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUIET_SECONDS", 0.4)


@contextmanager
def proxied() -> Iterator[tuple[PostgresLocation, PostgresLocation, Proxy]]:
    """Return the location of a database, its location behind a proxy, and the proxy."""
    with own_server(port=free_port(), durable=False) as database:
        assert database.port is not None
        proxy = Proxy(database.port)
        through = PostgresLocation(f"postgresql://interlock@{proxy.address}/postgres", "journal")
        try:
            yield PostgresLocation(database.url, "journal"), through, proxy
        finally:
            close_idle(through)
            proxy.close()


class TestHalfOpenConnection:
    def test_idle_backend_ends_the_read(self) -> None:
        """The read fails, even within a transaction, and the next one gets a working connection."""
        with proxied() as (_, through, proxy):
            for begins in ("SELECT 1", "BEGIN"):

                def read(begins: str = begins) -> None:
                    with reading(through) as connection:
                        connection.execute(begins)
                        proxy.stall()
                        connection.execute("SELECT 8")

                with pytest.raises(JournalError, match="the answer was lost"):
                    read()
                with reading(through) as connection:
                    assert connection.execute("SELECT 9").fetchone() == (9,)

    def test_ended_backend_ends_the_read(self) -> None:
        with proxied() as (place, through, proxy):

            def read() -> None:
                with reading(through) as connection:
                    proxy.stall()
                    with reading(place) as other:
                        process = connection.raw.info.backend_pid
                        other.execute("SELECT pg_terminate_backend(?)", (process,))
                    connection.execute("SELECT 8")

            with pytest.raises(JournalError, match="the answer was lost"):
                read()


class TestStatementThatArrivedInPart:
    def test_counts_as_lost_although_active(self, postgresql: PostgresLocation) -> None:
        """The database waits for the rest of a statement, which it lists as active."""
        opened = connect(postgresql, gives_up=True)
        raw = opened.raw.pgconn
        raw.enter_pipeline_mode()
        raw.send_prepare(b"", b"SELECT 7")
        raw.send_flush_request()
        raw.flush()
        state = "SELECT state, wait_event FROM pg_stat_activity WHERE pid = ?"
        waits = [("active", "ClientRead")]
        wait_for(lambda: rows(postgresql, state, (raw.backend_pid,)) == waits)
        wait_for(lambda: limits._is_lost(opened.raw, partial(connect, postgresql)))
        opened.close()


class TestStatementThatTakesLong:
    def test_is_left_running_while_active(
        self, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The database reports that it still executes the statement."""
        said: list[bool] = []
        is_lost = limits._is_lost
        monkeypatch.setattr(limits, "_is_lost", lambda *args: said.append(is_lost(*args)) or said[-1])
        with reading(postgresql) as connection:
            assert connection.execute("SELECT pg_sleep(1), 7").fetchone() == ("", 7)
        assert set(said) == {False}

    def test_is_left_running_if_database_cannot_be_asked(self, postgresql: PostgresLocation) -> None:
        """The statement also continues if the database has no free connection for the question."""
        refusals: list[str] = []

        def connect() -> NoReturn:
            refusals.append("too many clients")
            raise psycopg.OperationalError(refusals[-1])

        with limits.watchful(postgresql, connect).connect(postgresql.url) as connection:
            assert connection.execute("SELECT pg_sleep(1), 7").fetchone() == ("", 7)
        assert refusals
