"""Leases of servers: renewal, expiry, end by another server, and a server that cannot renew."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalDisturbed, JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres import statement_limits
from interlock.engine.history.postgres.pool import reading
from interlock.engine.history.postgres.servers import lease as leasing
from interlock.engine.history.postgres.servers.lease import ServerLease
from interlock.engine.history.postgres.servers.listing import list_servers

from ....support.postgres import own_server
from ..support.recording import opening
from .support.servers import Step, end, lease, rows, wait_for, writer

HELLO = MessageAdded(role="user", text="hello")
ENDED = "SELECT ended FROM server WHERE id = ?"


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that expire soon."""
    monkeypatch.setattr(leasing, "LEASE_SECONDS", 1.0)


@pytest.fixture
def journal(postgresql: PostgresLocation) -> Iterator[Journal]:
    with Journal.open(postgresql) as journal:
        yield journal


def silence(journal: Journal) -> None:
    """Stop the renewals of a server, as if it were paused."""
    lease(journal)._renew = lambda connection: None


@pytest.mark.slow
class TestReleased:
    def test_release_ends_pending_reads(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A read with a lost answer does not delay the end of the process."""
        monkeypatch.setattr(statement_limits, "LEAST_SECONDS", 0.2)
        errors: list[str] = []

        def read() -> None:
            try:
                with reading(postgresql) as connection:
                    connection.execute("SELECT pg_sleep(30)")
            except JournalError as error:
                errors.append(str(error))

        thread = threading.Thread(target=read)
        thread.start()
        thread.join(1.0)
        assert thread.is_alive()
        journal.close()
        thread.join(15.0)
        assert not thread.is_alive()
        assert "does not answer" in errors[0]

    def test_later_reads_have_no_time_limit(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A program without a lease, as `verify` after a copy, reads without a time limit."""
        monkeypatch.setattr(statement_limits, "LEAST_SECONDS", 0.2)
        with reading(postgresql) as connection:
            journal.close()
            assert connection.execute("SELECT pg_sleep(1.5), 7").fetchone() == ("", 7)


@pytest.mark.slow
class TestSilence:
    def test_a_silent_server_is_ended_by_another(
        self, postgresql: PostgresLocation, journal: Journal, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A server ends another whose expired lease is not renewed for a while, and logs its name."""
        told = threading.Event()
        journal.on_servers_ended = told.set
        with Journal.open(postgresql) as other:
            other.name_server("ws://10.0.0.2:8737")
            other.write("s", opening())
            silence(other)
            assert told.wait(20)
            assert "at ws://10.0.0.2:8737 did not renew its lease" in caplog.text
            wait_for(lambda: journal.orphans(9) == ["s"])
            with pytest.raises(JournalDisturbed, match="start it again"):
                other.write("s", HELLO)

    def test_ended_server_writes_no_event(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """An ended server writes no event, even if no server has taken its session yet."""
        with Journal.open(postgresql) as other:
            other.write("s", opening())
            lane = lease(other).lane
            silence(other)
            taken = "SELECT server FROM lane WHERE lane = ?"
            wait_for(lambda: rows(postgresql, taken, (lane,)) == [(None,)])
            with pytest.raises(JournalDisturbed, match="start it again"):
                other.write("s", HELLO)
            assert rows(postgresql, "SELECT count(*) FROM event") == [(1,)]
            assert journal.orphans(9) == ["s"]

    def test_a_server_that_renews_is_not_ended(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """Two servers run side by side for longer than their leases."""
        with Journal.open(postgresql) as other:
            before = rows(postgresql, "SELECT sum(lease) FROM server")[0][0]
            wait_for(lambda: rows(postgresql, "SELECT sum(lease) FROM server")[0][0] > before + 4000)
            assert [line.ended for line in list_servers(postgresql)] == [None, None]
            assert lease(journal).holds()
            assert lease(other).holds()

    def test_database_outage_ends_no_server(self) -> None:
        """While the database is away no server can renew, so none is ended."""
        with own_server() as database:
            location = PostgresLocation(database.url, "journal")
            with Journal.open(location) as one, Journal.open(location) as other:
                database.stop(signal.SIGQUIT)
                wait_for(lambda: not lease(one).holds() and not lease(other).holds())
                database.start()
                wait_for(lambda: lease(one).holds() and lease(other).holds())
                assert one.write("s", opening())[0].seq == 1
                assert other.write("t", opening())[0].seq == 1
                assert [line.ended for line in list_servers(location)] == [None, None]

    def test_leaping_database_clock_ends_no_server(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the database's clock leaps, all leases seem expired, but servers that renew stay."""
        with Journal.open(postgresql) as other:
            late = leasing._LEASES.replace("lease < ", "lease < 3600000 + ")
            assert late != leasing._LEASES
            monkeypatch.setattr(leasing, "_LEASES", late)
            before = rows(postgresql, "SELECT sum(lease) FROM server")[0][0]
            wait_for(lambda: rows(postgresql, "SELECT sum(lease) FROM server")[0][0] > before + 4000)
            assert rows(postgresql, ENDED, (lease(other).id,)) == [(None,)]
            assert rows(postgresql, ENDED, (lease(journal).id,)) == [(None,)]

    def test_far_future_lease_of_dead_server_ends(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A dead server's lease ends even if the database's clock was set back after it was granted."""
        rows(postgresql, leasing._REGISTER, ("dead", "dead", "1", 3_600_000))
        wait_for(lambda: rows(postgresql, ENDED, ("dead",)) != [(None,)])


class TestOwnClock:
    @pytest.mark.slow
    def test_acknowledgement_waits_for_the_renewal(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A server whose lease has expired by its own clock acknowledges only after a renewal."""
        journal.write("s", opening())
        held = Step(postgresql)
        held.run("SELECT 1 FROM server WHERE id = ? FOR UPDATE", (lease(journal).id,))
        wait_for(lambda: not lease(journal).holds())
        answered = threading.Event()
        thread = threading.Thread(target=lambda: (journal.write("s", HELLO), answered.set()))
        thread.start()
        wait_for(lambda: len(rows(postgresql, "SELECT 1 FROM event WHERE session = 's'")) == 2)
        assert not answered.is_set()
        held.roll_back()
        thread.join(20)
        assert answered.is_set()
        held.close()

    @pytest.mark.slow
    def test_ended_server_acknowledges_nothing(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A durable event is not acknowledged if its server learns first that it was ended."""
        journal.write("s", opening())
        silence(journal)
        wait_for(lambda: not lease(journal).holds())
        end(journal)
        del lease(journal)._renew
        with pytest.raises(JournalDisturbed):
            journal.write("s", HELLO)
        with pytest.raises(JournalDisturbed):
            journal.write("t", opening())

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux has CLOCK_BOOTTIME")
    def test_clock_advances_during_machine_sleep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The clock of leases is the one that runs on while the machine sleeps."""
        monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 7.0}.__getitem__)
        assert leasing.now() == 7.0


@pytest.mark.slow
class TestRenewal:
    def test_a_lost_connection_is_replaced(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A renewal that fails is retried on another connection."""
        lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ?"
        wait_for(lambda: bool(rows(postgresql, lost, ("interlock lease",))))
        before = rows(postgresql, "SELECT lease FROM server")[0][0]
        wait_for(lambda: rows(postgresql, "SELECT lease FROM server")[0][0] > before + 1000)
        assert journal.write("s", opening())[0].seq == 1

    def test_busy_server_continues_to_renew(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A server that is busy with sessions of ended servers continues to renew its lease."""
        busy, done = threading.Event(), threading.Event()

        def take() -> None:
            busy.set()
            done.wait(30)

        journal.on_servers_ended = take
        Journal.open(postgresql).close()
        assert busy.wait(20)
        before = lease(journal)._valid_until
        wait_for(lambda: lease(journal)._valid_until > before + 1)
        done.set()


class TestNames:
    def test_servers_are_listed_with_their_sessions(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """The list names each server's process, URL and number of unfinished sessions."""
        journal.name_server("http://here:1")
        journal.write("s", opening())
        [line] = list_servers(postgresql)
        assert line.id == lease(journal).id
        assert "process" in line.name
        assert (line.url, line.ended, line.sessions) == ("http://here:1", None, 1)

    @pytest.mark.slow
    def test_a_lane_outlives_its_server(self, postgresql: PostgresLocation) -> None:
        """The next server continues the numbers in the lane of one that left."""
        with Journal.open(postgresql) as one:
            first = one.write("s", opening())[0].cursor
        with Journal.open(postgresql) as other:
            assert other.write("s", HELLO)[0].cursor == first + 1
            assert isinstance(lease(other), ServerLease)
            assert writer(other).fenced == 0
