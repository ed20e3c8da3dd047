"""Line logs beside a file and in a database, and the logs of keys and freezes in them."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.engine.history.database.location import Location, PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.logs.freeze_log import UNREADABLE, FreezeLog
from interlock.engine.history.logs.key_log import KeyHistory, KeyLog
from interlock.engine.history.logs.line_log import line_log
from interlock.engine.history.model.records import EnrolledKey, FreezeRecord

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
WHOLE = 1 << 20


def frozen(why: str) -> FreezeRecord:
    return FreezeRecord(by="maria", at=AT, reason=why)


def key(credential: str, operator: str) -> EnrolledKey:
    return EnrolledKey(
        credential=credential,
        key="AA",
        operator=operator,
        name="phone",
        rp="localhost",
        origin="http://localhost",
        at=AT,
        uses=1,
        confirmed="code",
    )


@pytest.fixture(params=[pytest.param("file", marks=pytest.mark.sqlite("a log in a file")), "postgresql"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A journal of each kind."""
    if request.param == "file":
        return tmp_path / "j.db"
    location: PostgresLocation = request.getfixturevalue("postgresql")
    Journal.open(location).close()
    return location


class TestLineLog:
    def test_lines_come_back_in_order(self, journal: Location) -> None:
        """Lines come back in order, and of a long log only the end is read."""
        log = line_log(journal, "freeze")
        assert log.read(WHOLE) is None
        log.append("first")
        log.append("zweite ü")
        assert log.read(WHOLE) == "first\nzweite ü\n".encode()
        text = log.read(12)
        assert text is not None
        assert text.endswith("zweite ü\n".encode())

    def test_lines_are_kept_apart_by_log(self, journal: Location) -> None:
        """Lines are kept apart by log name."""
        line_log(journal, "keys").append("key")
        assert line_log(journal, "freeze").read(WHOLE) is None

    def test_schema_without_tables_has_no_log(self, postgresql: PostgresLocation) -> None:
        """A schema without tables has no log, which is not an error."""
        assert line_log(postgresql, "keys").read(WHOLE) is None

    def test_unreachable_database_raises_oserror(self, tmp_path: Path) -> None:
        """An unreachable database raises an OSError, as a file does."""
        away = PostgresLocation(f"postgresql://interlock@/postgres?host={tmp_path}")
        with pytest.raises(OSError, match="PostgreSQL says"):
            line_log(away, "keys").read(WHOLE)

    def test_append_requires_expected_line_count(self, postgresql: PostgresLocation) -> None:
        """In a database a line is appended only after the expected number of lines."""
        Journal.open(postgresql).close()
        log = line_log(postgresql, "keys")
        assert log.append_to(0, "a")
        assert not log.append_to(0, "b")
        assert not log.append_to(2, "c")
        assert log.has_grown(0)
        assert not log.has_grown(1)
        assert log.read(WHOLE) == b"a\n"

    def test_concurrent_appends_are_all_stored(self, postgresql: PostgresLocation) -> None:
        """Lines of servers that append concurrently are all stored, each once."""
        Journal.open(postgresql).close()

        def write(name: int) -> None:
            log = line_log(postgresql, "freeze")
            for number in range(10):
                log.append(f"{name}-{number}")

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        text = line_log(postgresql, "freeze").read(WHOLE)
        assert text is not None
        assert sorted(text.decode().split()) == sorted(f"{a}-{b}" for a in range(4) for b in range(10))


class TestFreezeLog:
    def test_freeze_holds_until_lifted(self, journal: Location) -> None:
        """A freeze is in force on every server of the journal until it is lifted."""
        one, other = (FreezeLog(journal, lambda: AT) for _ in range(2))
        assert other.read() is None
        one.begin(frozen("looked odd"))
        assert other.read() == frozen("looked odd")
        other.lift(frozen("was nothing"))
        assert one.read() is None

    def test_unreachable_database_freezes_agents(self, tmp_path: Path) -> None:
        """If the database cannot be reached, agents are frozen, with `UNREADABLE` as the operator."""
        away = PostgresLocation(f"postgresql://interlock@/postgres?host={tmp_path}")
        now = FreezeLog(away, lambda: AT).read()
        assert now is not None
        assert now.by == UNREADABLE
        assert "PostgreSQL says" in now.reason


class TestKeyLog:
    def test_two_servers_append_to_one_chain(self, postgresql: PostgresLocation) -> None:
        """A server that does not know another server's line appends after it."""
        Journal.open(postgresql).close()
        log, other = KeyLog(postgresql), KeyLog(postgresql)
        stale = other.read()
        log.enroll(key("k1", "maria"), KeyHistory())
        found = other.enroll(key("k2", "ben"), stale)
        assert [each.key.operator for each in found.in_force()] == ["maria", "ben"]
        read = log.read()
        assert (read.faults, read.head, read.lines) == ((), found.head, 2)

    def test_key_removed_at_another_server_is_noticed(self, postgresql: PostgresLocation) -> None:
        """The keys are read again after another server added lines."""
        Journal.open(postgresql).close()
        log, other = KeyLog(postgresql), KeyLog(postgresql)
        known = log.enroll(key("k1", "maria"), KeyHistory())
        assert log.newer(known) is known
        other.remove("k1", "maria", AT, other.read())
        assert log.newer(known).in_force() == []

    def test_second_key_at_another_server_needs_the_first(self, postgresql: PostgresLocation) -> None:
        """If one operator enrols a first key at two servers, the second one needs the first."""
        Journal.open(postgresql).close()
        log, other = KeyLog(postgresql), KeyLog(postgresql)
        stale = other.read()
        log.enroll(key("k1", "maria"), KeyHistory())
        with pytest.raises(ValueError, match="has a key already"):
            other.enroll(key("k2", "maria"), stale)

    def test_equal_use_count_at_second_server_is_refused(self, postgresql: PostgresLocation) -> None:
        """A key with the same number of uses at two servers may be a copy: the second use is refused."""
        Journal.open(postgresql).close()
        log, other = KeyLog(postgresql), KeyLog(postgresql)
        known = log.enroll(key("k1", "maria"), KeyHistory())
        log.note_uses("k1", 5, known)
        with pytest.raises(ValueError, match="at another server at the same time"):
            other.note_uses("k1", 5, known)
        assert other.note_uses("k1", 6, known).uses("k1") == 6
