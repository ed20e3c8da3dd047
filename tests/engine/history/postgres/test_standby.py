"""Failover to a standby that has all acknowledged events, or only some."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError, SessionDiverged
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres import timelines
from interlock.engine.history.postgres.durability import durability
from interlock.engine.history.postgres.pool import close_idle
from interlock.engine.history.postgres.servers.silence import forget_silence, watch_silence

from ....support.ports import free_port
from ....support.postgres import own_server
from ....support.standby import Pair, replicated
from ..support.recording import opening
from .support.servers import rows, wait_for, writer

HELLO = MessageAdded(role="user", text="hello")


@pytest.fixture
def pair() -> Iterator[Pair]:
    with replicated() as pair:
        yield pair


@pytest.mark.slow
class TestSynchronous:
    def test_failover_keeps_all_acknowledged_events(self, pair: Pair) -> None:
        """A standby for which each commit waits has all acknowledged events after a failover."""
        pair.set(pair.one, "synchronous_standby_names", "*")
        wait_for(lambda: rows(pair.one, "SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        with Journal.open(pair.location) as journal:
            assert durability(pair.location) == []
            journal.write("s", opening(), HELLO)
            pair.fail_over()
            assert journal.write("s", HELLO)[0].seq == 3
        assert len(list(open_reader(pair.other).events("s"))) == 3
        assert [check.fault for check in verify_journal(pair.other)] == [None]

    def test_acknowledgement_waits_for_the_standby(self, pair: Pair) -> None:
        """A write waits until a standby has it, and only then is it acknowledged."""
        with Journal.open(pair.location) as journal:
            journal.write("s", opening())
            pair.set(pair.one, "synchronous_standby_names", "*")
            pair.standby.stop(signal.SIGQUIT)
            wait_for(lambda: pair.attached() == 0)
            answered = threading.Event()
            writing = threading.Thread(
                target=lambda: (journal.write("s", HELLO), answered.set()), daemon=True
            )
            writing.start()
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            wait_for(lambda: bool(rows(pair.one, waiting)))
            assert not answered.is_set()
            pair.standby.start()
            writing.join(30)
            assert answered.is_set()

    def test_a_wait_that_is_cancelled_acknowledges_nothing(self, pair: Pair) -> None:
        """An administrator who cancels waiting commits does not make them count without the standby."""
        pair.set(pair.one, "synchronous_standby_names", "*")
        wait_for(lambda: rows(pair.one, "SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        with Journal.open(pair.location) as journal:
            journal.write("s", opening())
            pair.standby.stop(signal.SIGQUIT)
            wait_for(lambda: pair.attached() == 0)
            answered = threading.Event()
            writing = threading.Thread(
                target=lambda: (journal.write("s", HELLO), answered.set()), daemon=True
            )
            writing.start()
            cancel = (
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                "WHERE wait_event = 'SyncRep' AND application_name = 'interlock journal'"
            )
            for _ in range(2):
                wait_for(lambda: bool(rows(pair.one, cancel)))
            waiting = cancel.replace("pg_cancel_backend(pid)", "1")
            wait_for(lambda: bool(rows(pair.one, waiting)))
            assert not answered.is_set()
            pair.standby.start()
            writing.join(30)
            assert answered.is_set()
            there = rows(pair.other, "SELECT seq FROM event ORDER BY seq")
            assert there == [(1,), (2,)]


@pytest.mark.slow
class TestAsynchronous:
    def test_lost_event_stops_its_session(self, pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
        """If the standby lacks an acknowledged event, its session stops, and others continue."""
        with Journal.open(pair.location) as journal:
            assert "standby" in durability(pair.location)[0]
            journal.write("whole", opening())
            journal.write("s", opening())
            there = "SELECT count(*) FROM event"
            wait_for(lambda: rows(pair.other, there) == [(2,)])
            pair.set(pair.other, "primary_conninfo", "")
            wait_for(lambda: pair.attached() == 0)
            lost = journal.write("s", HELLO)[0]
            assert rows(pair.other, there) == [(2,)]
            pair.fail_over()
            with pytest.raises(JournalError):  # the first write may find its numbers gone
                journal.write("s", HELLO)
            with pytest.raises(SessionDiverged, match="event 2 of it was acknowledged"):
                journal.write("s", HELLO)
            assert "'s' diverged" in caplog.text
            assert journal.write("whole", HELLO)[0].cursor > lost.cursor


@pytest.mark.slow
class TestOldPrimary:
    def test_restarted_old_primary_is_not_used(
        self, pair: Pair, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An old primary that starts again and accepts writes is not used; the standby continues."""
        pair.set(pair.one, "synchronous_standby_names", "*")
        wait_for(lambda: rows(pair.one, "SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        with Journal.open(pair.location) as journal:
            journal.write("s", opening())
            pair.fail_over()
            journal.write("s", HELLO)
            pair.primary.start(synchronous_standby_names="")
            writer(journal)._drop()  # a short interruption of the network
            assert journal.write("s", HELLO)[0].seq == 3
            close_idle(pair.location)
            assert len(list(open_reader(pair.location).events("s"))) == 3
            assert f"127.0.0.1:{pair.primary.port} is an old primary" in caplog.text
            pair.standby.stop(signal.SIGQUIT)
            close_idle(pair.location)
            with pytest.raises(JournalError, match="a standby took over from it"):
                list(open_reader(pair.location).events("s"))
            pair.standby.start()

    def test_later_server_looks_at_all_hosts(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server that starts after the failover looks at all hosts first."""
        with Journal.open(pair.location) as journal:
            journal.write("s", opening())
            there = "SELECT count(*) FROM event"
            has_table = "SELECT to_regclass('event') IS NOT NULL"
            wait_for(lambda: rows(pair.other, has_table) == [(True,)])
            wait_for(lambda: rows(pair.other, there) == [(1,)])
        pair.fail_over()
        pair.primary.start()
        close_idle(pair.location)
        monkeypatch.setattr(timelines, "_newest", {})
        monkeypatch.setattr(timelines, "_looked", set())
        with Journal.open(pair.location) as journal:
            journal.write("t", opening())
        assert rows(pair.other, there) == [(2,)]


@pytest.mark.slow
class TestSeveralDatabases:
    def test_of_one_url_are_not_used_in_turn(self, caplog: pytest.LogCaptureFixture) -> None:
        """A host that is a database of its own is named at the start and never used."""
        with own_server(port=free_port()) as first, own_server(port=free_port()) as second:
            location = PostgresLocation.of(
                f"postgresql://interlock@127.0.0.1:{first.port},127.0.0.1:{second.port}/postgres"
            )
            with Journal.open(location) as journal:
                foreign = f"127.0.0.1:{second.port} is another database"
                assert foreign in caplog.text
                journal.write("s", opening())
                with Journal.open(PostgresLocation(second.url, location.schema)):
                    first.stop(signal.SIGQUIT)
                    close_idle(location)
                    with pytest.raises(JournalError, match=foreign):
                        list(open_reader(location).events("s"))
                    first.start()
                    assert journal.write("s", HELLO)[0].seq == 2


@pytest.mark.slow
class TestReads:
    def test_of_a_server_go_to_no_standby(self, pair: Pair) -> None:
        """A server whose URL leads to a standby, as a load balancer's may, does not read what lags."""
        with Journal.open(pair.one) as journal:
            journal.write("s", opening())
            wait_for(pair.caught_up)
            pair.cut_off()
            journal.write("s", HELLO)
        reader = open_reader(pair.other)
        assert len(list(reader.events("s"))) == 1
        close_idle(pair.other)
        watch_silence(pair.other, never := lambda: False)
        try:
            with pytest.raises(JournalError, match=f"127.0.0.1:{pair.standby.port} is a standby"):
                list(reader.events("s"))
        finally:
            forget_silence(pair.other, never)
        assert len(list(reader.events("s"))) == 1
