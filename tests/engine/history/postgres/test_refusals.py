"""Batches that the database accepts only in part: a faulty event fails its own session."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator

import psycopg
import pytest

from interlock.engine.core.shared_limit import Reservation
from interlock.engine.history.audit.verify import check_file, verify_journal
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import (
    JournalError,
    SessionDiverged,
    SessionElsewhere,
    SessionRefused,
)
from interlock.engine.history.journal import write_monitor
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres import writer as writing
from interlock.engine.history.postgres.pool import reading

from ..support.recording import decided, opening
from .support.servers import beside, lease, rows, wait_for, writer

HELLO = MessageAdded(role="user", text="hello")
TOO_LONG = "x" * 20_000
"""An id too long for an index of PostgreSQL."""
EVENTS = "SELECT session, seq FROM event WHERE length(session) < 9 ORDER BY cursor"


@pytest.fixture
def journal(postgresql: PostgresLocation) -> Iterator[Journal]:
    with Journal.open(postgresql) as journal:
        yield journal


def random_id() -> str:
    """Return an id too long for an index even after compression."""
    return secrets.token_hex(len(TOO_LONG) // 2)


def check_complete(location: PostgresLocation) -> None:
    """Assert that no number is missing in the journal and that its chains are intact."""
    assert [check for check in verify_journal(location) if check.fault is not None] == []
    assert check_file(location).missing == 0


def submit_in_one_batch(journal: Journal, *written: tuple[str, tuple[object, ...]]) -> list[object]:
    """Submit events while a commit is held, so that they form one batch; return results or errors."""

    async def run() -> list[object]:
        held = threading.Event()
        begun = threading.Event()
        commit = writer(journal).commit

        def waiting(batch: object) -> object:
            del writer(journal).commit
            begun.set()
            held.wait()
            return commit(batch)

        writer(journal).commit = waiting
        first = journal.append(f"held-{secrets.token_hex(4)}", opening())
        await asyncio.to_thread(begun.wait)
        futures = [journal.append(session, *bodies) for session, bodies in written]
        held.set()
        await first
        return await asyncio.gather(*futures, return_exceptions=True)

    return asyncio.run(run())


DISCARDS = (
    "CREATE FUNCTION discard() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN IF NEW.body LIKE '%hello%' THEN RETURN NULL; END IF; RETURN NEW; END $$",
    "CREATE TRIGGER discard BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION discard()",
)


class TestFaultySession:
    def test_discarded_event_is_not_acknowledged(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """An event that a trigger discards fails its session's callers; others are recorded."""
        journal.write("a", opening())
        with beside(postgresql) as connection:
            for statement in DISCARDS:
                connection.raw.execute(statement.encode())
        results = submit_in_one_batch(journal, ("a", (HELLO,)), ("b", (opening(),)))
        assert isinstance(results[0], SessionRefused)
        assert "cannot be stored: a trigger of table event discarded" in str(results[0])
        rows(postgresql, "DROP TRIGGER discard ON event")
        assert journal.write("a", HELLO)[0].seq == 2
        assert rows(postgresql, EVENTS) == [("a", 1), ("b", 1), ("a", 2)]
        journal.close()
        check_complete(postgresql)

    def test_only_its_own_callers_fail(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """An event that cannot be stored fails its session's callers; all others are recorded."""
        faulty = random_id()
        results = submit_in_one_batch(
            journal,
            ("a", (opening(), HELLO)),
            (faulty, (opening(),)),
            ("b", (opening(),)),
            (faulty, (HELLO,)),
            ("a", (HELLO,)),
        )
        assert [isinstance(each, SessionRefused) for each in results] == [False, True, False, True, False]
        assert "cannot be stored" in str(results[1])
        assert rows(postgresql, EVENTS) == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
        assert journal.write("a", HELLO)[0].seq == 4

    def test_lost_reservation_does_not_name_another_server(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A decision whose reserved use was lost in a crash of the database is refused as such."""
        journal.write("a", opening())
        assert journal.counters is not None
        reserved = Reservation("r1", "a", "c1", {"refunds": "refunds"}, 1.0, 2.0)
        assert journal.counters.reserve([reserved], journal.counters.read(["refunds"]).versions)
        rows(postgresql, "DELETE FROM reservation")
        with pytest.raises(SessionRefused, match="the database has lost a use of a limit") as refused:
            journal.write("a", decided("c1", "refund", uses={"refunds": "refunds"}))
        assert not isinstance(refused.value, SessionElsewhere)
        assert journal.write("a", HELLO)[0].seq == 2

    @pytest.mark.slow
    def test_refused_numbers_are_accounted_for(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """The numbers of refused events are accounted for."""
        submit_in_one_batch(
            journal, ("a", (opening(),)), (random_id(), (opening(), HELLO)), ("b", (opening(),))
        )
        journal.write("a", HELLO)
        journal.close()
        check_complete(postgresql)

    @pytest.mark.slow
    def test_earlier_events_are_acknowledged(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """Events that a session submitted before the faulty one are acknowledged."""
        submit_in_one_batch(journal, ("a", (opening(),)))
        made = writer(journal)._rows.rows

        def rows_of(connection: object, batch: list) -> object:
            for each in batch:
                if each.event.session == "a" and each.event.seq > 2:
                    raise ValueError("faulty")
            return made(connection, batch)

        writer(journal)._rows.rows = rows_of
        results = submit_in_one_batch(journal, ("a", (HELLO,)), ("b", (opening(),)), ("a", (HELLO,)))
        del writer(journal)._rows.rows
        assert [isinstance(each, SessionRefused) for each in results] == [False, False, True]
        assert journal.write("a", HELLO)[0].seq == 3

    @pytest.mark.slow
    def test_removed_session_fails_alone(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """A session that was removed from the database fails alone."""
        journal.write("a", opening())
        writer(journal)._rows.sessions.clear()
        for table in ("event", "owner"):
            rows(postgresql, f"DELETE FROM {table} WHERE session = 'a'")
        rows(postgresql, "DELETE FROM session WHERE id = 'a'")
        results = submit_in_one_batch(journal, ("a", (HELLO,)), ("b", (opening(),)))
        assert isinstance(results[0], SessionRefused)
        assert not isinstance(results[1], Exception)


class TestSeveralStatements:
    def test_a_large_batch_is_split(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A batch too large for one statement is written in several, in order."""
        monkeypatch.setattr(writing, "MOST_BYTES", 100)
        journal.write("a", opening(), *[HELLO] * 9)
        assert rows(postgresql, EVENTS) == [("a", number) for number in range(1, 11)]


class TestElsewhere:
    def test_others_of_the_batch_are_recorded(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """Sessions of another server fail, both known and unknown ones; the rest is recorded."""
        with Journal.open(postgresql) as other:
            journal.write("known", opening())
            rows(
                postgresql,
                "UPDATE owner SET server = ?, epoch = 5 WHERE session = 'known'",
                (lease(other).id,),
            )
            other.write("unknown", opening())
            results = submit_in_one_batch(
                journal, ("known", (HELLO,)), ("unknown", (HELLO,)), ("a", (opening(),))
            )
            assert isinstance(results[0], SessionElsewhere)
            assert isinstance(results[1], SessionElsewhere)
            assert not isinstance(results[2], Exception)
        journal.write("a", HELLO)
        journal.close()
        check_complete(postgresql)


class TestDiverged:
    def test_a_head_behind_memory_stops_its_session(
        self, postgresql: PostgresLocation, journal: Journal, caplog: pytest.LogCaptureFixture
    ) -> None:
        """If the database lost an acknowledged event, only that session stops, with a log entry."""
        journal.write("s", opening(), HELLO)
        journal.write("t", opening())
        rows(postgresql, "DELETE FROM event WHERE session = 's' AND seq = 2")
        rows(
            postgresql,
            "UPDATE owner SET seq = 1, hash = (SELECT hash FROM event WHERE event.session = 's') "
            "WHERE session = 's'",
        )
        rows(postgresql, "UPDATE session SET events = 1 WHERE id = 's'")
        rows(postgresql, "UPDATE lane SET last = 1")
        writer(journal)._drop()
        assert journal.write("t", HELLO)[0].seq == 2
        for _ in range(2):
            with pytest.raises(SessionDiverged, match="'s' diverged: event 2 of it was acknowledged"):
                journal.write("s", HELLO)
        assert "'s' diverged" in caplog.text
        assert journal.write("t", HELLO)[0].seq == 3

    @pytest.mark.slow
    def test_another_event_in_its_place_stops_it_too(
        self, postgresql: PostgresLocation, journal: Journal
    ) -> None:
        """A session also stops if another event has the number of an acknowledged one."""
        journal.write("s", opening(), HELLO)
        rows(postgresql, "UPDATE event SET hash = 'other' WHERE session = 's' AND seq = 2")
        writer(journal)._drop()
        with pytest.raises(SessionDiverged):
            journal.write("s", HELLO)

    @pytest.mark.slow
    def test_lost_numbers_are_not_reused(self, postgresql: PostgresLocation, journal: Journal) -> None:
        """If the database sets a lane back, its server continues after its own last number."""
        journal.write("s", opening(), HELLO)
        last = journal.write("t", opening())[0].cursor
        rows(postgresql, "DELETE FROM event WHERE session = 't'")
        rows(postgresql, "DELETE FROM owner WHERE session = 't'")
        rows(postgresql, "DELETE FROM session WHERE id = 't'")
        rows(postgresql, "UPDATE lane SET last = 2")
        with pytest.raises(JournalError):
            journal.write("s", HELLO)
        assert journal.write("s", HELLO)[0].cursor > last


class TestFullDisk:
    def test_is_an_outage_until_there_is_space(
        self, postgresql: PostgresLocation, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The outage lasts until there is space, because the test write needs new space as well."""
        monkeypatch.setattr(write_monitor, "PROOF_SECONDS", 0.0)
        journal.write("s", opening())
        with reading(postgresql) as connection:
            connection.execute(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'No space left' USING ERRCODE = 'disk_full'; END $$"
            )
            for table in ("event", "fenced"):
                connection.execute(
                    f"CREATE TRIGGER no_space BEFORE INSERT ON {table} "
                    "FOR EACH ROW EXECUTE FUNCTION full_disk()"
                )
        with pytest.raises(JournalError, match="disk is full"):
            journal.write("s", HELLO)
        with pytest.raises(psycopg.errors.DiskFull):
            journal.prove().result(10)
        assert journal.outage is not None
        assert journal.outage.kind == "unwritable"
        with reading(postgresql) as connection:
            for table in ("event", "fenced"):
                connection.execute(f"DROP TRIGGER no_space ON {table}")
        wait_for(lambda: journal.outage is None)
        assert rows(postgresql, "SELECT count(*) FROM fenced") == [(0,)]
        assert journal.write("s", HELLO)[0].seq == 2
        check_complete(postgresql)
