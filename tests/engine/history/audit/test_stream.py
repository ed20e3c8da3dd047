"""The record as a stream: every event once, in order, from the last position that was sent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from interlock.engine.history.audit.stream import Begin, LineFormat, RecordStream, StreamEvent
from interlock.engine.history.audit.stream_check import check_stream
from interlock.engine.history.audit.stream_positions import FilePositions, StreamPositions
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded
from interlock.engine.history.postgres.stream_positions import PostgresPositions
from tests.support.copies import copied

from ..postgres.support.servers import end, lease
from ..support.keeping import BODIES, MASK, MASKED, NOW, SECRET, recorded_at, tamper
from ..support.recording import opening

pytestmark = pytest.mark.sqlite("cursors count from 1, and copies are of files")

PLAIN = LineFormat("events", None)


def stream(path: Path, name: str = "s", begin: Begin = "start") -> RecordStream:
    """Return a claimed stream of a journal's file."""
    found = RecordStream(open_reader(path), FilePositions(path, name), begin)
    assert found.claim()
    return found


def stream_of(journal: Journal) -> RecordStream:
    """Return an unclaimed stream of a database's journal for one of its servers."""
    place: StreamPositions = PostgresPositions(lease(journal), "s")
    return RecordStream(journal.reader(), place, "start")


def drained(found: RecordStream, most: int = 3) -> list[StreamEvent]:
    """Send all waiting events and return them."""
    events: list[StreamEvent] = []
    while page := found.events(most):
        found.note(page)
        events += page
    return events


def lines(events: list[StreamEvent], form: LineFormat = PLAIN) -> list[bytes]:
    """Return the lines of events, with their line ends."""
    return [form.line(each).data + b"\n" for each in events]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Two sessions of ten events."""
    return copied(write_two, tmp_path / "j.db")


def write_two(path: Path) -> None:
    for session in ("s1", "s2"):
        recorded_at(path, NOW, session)


class TestEvents:
    def test_pages_have_each_event_once(self, journal: Path) -> None:
        """Pages over all sessions have each event once, and their lines pass the check."""
        events = drained(stream(journal))
        assert [each.cursor for each in events] == list(range(1, 21))
        found = check_stream([("s", lines(events))])
        assert (found.lines, found.sessions, found.faults, found.begins) == (20, 2, (), {})

    def test_another_process_continues_after_last_noted_event(self, journal: Path) -> None:
        """Another process starts after the last event that was noted, linked to the event before."""
        first = stream(journal)
        page = first.events(4)
        first.note(page[:2])
        events = drained(stream(journal))
        assert [each.cursor for each in events] == list(range(3, 21))
        assert events[0].after == 2
        assert events[0].prev == page[1].event.hash

    def test_event_not_noted_is_returned_again(self, journal: Path) -> None:
        """An event that was read but not noted is returned again, as the same line."""
        found = stream(journal)
        assert lines(found.events(3)) == lines(found.events(3))

    def test_new_events_follow(self, journal: Path) -> None:
        """A drained stream returns and counts events that are recorded later."""
        found = stream(journal)
        drained(found)
        assert found.events(3) == []
        assert found.backlog().events == 0
        recorded_at(journal, NOW, "s3", opening())
        assert found.backlog().events == 1
        assert found.backlog().oldest is not None
        assert [each.event.place.session for each in drained(found)] == ["s3"]

    def test_stream_from_now_has_only_later_events(self, journal: Path) -> None:
        """A stream that begins now has only later events, even after a restart before the first one."""
        assert drained(stream(journal, begin="now")) == []
        recorded_at(journal, NOW, "s3", opening(), MessageAdded(role="user", text="go"))
        events = drained(stream(journal, begin="now"))
        assert [each.after for each in events] == [20, 21]
        assert check_stream([("s", lines(events))]).begins == {0: 20}

    def test_two_streams_have_positions_of_their_own(self, journal: Path) -> None:
        """One stream's position does not affect the other."""
        drained(stream(journal, "a"))
        assert len(drained(stream(journal, "b"))) == 20


class TestOtherJournal:
    def test_restored_copy_is_sent_again(self, journal: Path) -> None:
        """A restored older copy is sent again, and so are the events recorded after it."""
        backup = journal.with_name("backup.db")
        shutil.copy(journal, backup)
        recorded_at(journal, NOW, "s3")
        drained(stream(journal))
        shutil.copy(backup, journal)
        found = stream(journal)
        assert len(drained(found)) == 20
        recorded_at(journal, NOW, "s4")
        assert {each.event.place.session for each in drained(found)} == {"s4"}

    def test_new_journal_is_sent_from_its_first_event(self, journal: Path) -> None:
        """A new journal under the name of an earlier one is sent from its first event."""
        drained(stream(journal))
        for each in journal.parent.glob("j.db*"):
            if ".stream-" not in each.name:
                each.unlink()
        recorded_at(journal, NOW, "s9")
        assert [each.cursor for each in drained(stream(journal))] == list(range(1, 11))

    @pytest.mark.slow
    def test_different_last_event_sends_everything_again(self, journal: Path) -> None:
        """If the last sent event differs from the journal's, everything is sent again."""
        backup = journal.with_name("backup.db")
        shutil.copy(journal, backup)
        recorded_at(journal, NOW, "s3")
        drained(stream(journal))
        shutil.copy(backup, journal)
        recorded_at(journal, NOW, "s4")
        recorded_at(journal, NOW, "s5")
        assert [each.cursor for each in drained(stream(journal))] == list(range(1, 41))

    @pytest.mark.slow
    def test_damaged_position_sends_everything_again(self, journal: Path) -> None:
        """With an unreadable position everything is sent again."""
        drained(stream(journal))
        journal.with_name("j.db.stream-s").write_text("{")
        assert len(drained(stream(journal, begin="now"))) == 20


class TestLines:
    def test_secrets_are_masked_unless_requested(self, journal: Path) -> None:
        """Secrets are masked unless requested, and the chain can still be checked."""
        events = drained(stream(journal))
        shown = b"".join(lines(events, LineFormat("events", MASK)))
        assert SECRET.encode() not in shown
        found = check_stream([("s", shown.splitlines(keepends=True))])
        assert (found.faults, found.masked) == ((), 2 * len(MASKED))
        assert SECRET.encode() in b"".join(lines(events))

    def test_ocsf_has_each_event_as_an_activity(self, journal: Path) -> None:
        """Each event is an activity of its session's agent and includes the event for verification."""
        made = lines(drained(stream(journal)), LineFormat("ocsf", MASK))
        first = json.loads(made[1])
        assert first["class_uid"] == 6003
        assert first["src_endpoint"]["name"] == "release-bot"
        found = check_stream([("s", made)])
        assert (found.lines, found.faults) == (20, ())

    def test_oversized_event_is_sent_without_content(self, journal: Path) -> None:
        """An event beyond the receiver's size limit has no content; facts and place can be checked."""
        recorded_at(journal, NOW, "s3", opening(), MessageAdded(role="user", text="x" * 9000))
        event = drained(stream(journal))[-1]
        data = PLAIN.line(event, 8000).data
        assert len(data) < 8000
        assert b"xxx" not in data
        found = check_stream([("s", [data])])
        assert (found.masked, found.faults) == (1, ())

    def test_oversized_facts_are_left_out(self, journal: Path) -> None:
        """An event with oversized facts is sent as its place only, marked as left out."""
        event = drained(stream(journal))[0]
        data = PLAIN.line(event, 400).data
        assert json.loads(data)["left_out"] == "too large"
        found = check_stream([("s", [data])])
        assert (found.bare, found.faults) == (1, ())

    @pytest.mark.parametrize("form", [LineFormat("events", MASK), LineFormat("ocsf", MASK)])
    def test_damaged_event_is_sent_as_its_place(self, journal: Path, form: LineFormat) -> None:
        """An event that was damaged in the file is sent as its place only, and the stream continues."""
        tamper(journal, "UPDATE event SET body = 'x', at = 'y' WHERE cursor = 3")
        made = lines(drained(stream(journal)), form)
        assert len(made) == 20
        assert b'"left_out":"unreadable"' in made[2]
        assert check_stream([("s", made)]).bare == 1

    @pytest.mark.parametrize("form", [LineFormat("events", MASK), LineFormat("ocsf", MASK)])
    @pytest.mark.parametrize(
        "change",
        ["type = x'00ff'", "type = 5", "seq = 'x'", "hash = 5", "session = x'00ff'", "salt = 'x'"],
    )
    def test_damaged_column_blocks_no_later_event(
        self, journal: Path, form: LineFormat, change: str
    ) -> None:
        """A damaged column of one event does not block the events after it."""
        tamper(journal, f"UPDATE event SET {change} WHERE cursor = 3")
        made = lines(drained(stream(journal)), form)
        assert len(made) == 20
        assert [each for each in made[4:] if b"left_out" in each] == []

    @pytest.mark.slow
    def test_large_events_shorten_pages(self, tmp_path: Path) -> None:
        """Pages of large events are short, and all events are sent."""
        large = [MessageAdded(role="user", text="x" * 1_000_000) for _ in range(20)]
        recorded_at(tmp_path / "l.db", NOW, "s1", opening(), *large)
        found = stream(tmp_path / "l.db")
        assert len(found.events(100)) < 8
        assert len(drained(found, 100)) == 21


class TestDatabase:
    """Servers of one database: one of them sends a stream, and another can continue it."""

    def test_one_server_sends(self, postgresql: PostgresLocation) -> None:
        """The first server that claims the stream sends all servers' events; a second claim fails."""
        with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
            one.write("s1", *BODIES)
            other.write("s2", *BODIES)
            here, there = stream_of(one), stream_of(other)
            assert here.claim()
            assert not there.claim()
            made = lines(drained(here))
            found = check_stream([("s", made)])
            assert (found.lines, found.sessions, found.faults) == (20, 2, ())

    @pytest.mark.slow
    def test_second_server_continues_after_firsts_end(self, postgresql: PostgresLocation) -> None:
        """After the first server's end, the second starts after its last noted event, in all lanes."""
        with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
            one.write("s1", *BODIES)
            other.write("s2", *BODIES)
            here, there = stream_of(one), stream_of(other)
            assert here.claim()
            page = here.events(3)
            here.note(page[:4])
            end(one)
            assert there.claim()
            rest = drained(there)
            assert {each.cursor for each in page[:4]}.isdisjoint(each.cursor for each in rest)
            found = check_stream([("s", lines([*page[:4], *rest]))])
            assert (found.lines, found.faults) == (20, ())
            with pytest.raises(JournalError, match="another server"):
                here.note(page[4:])
            assert not here.claim()

    @pytest.mark.slow
    def test_released_stream_can_be_claimed(self, postgresql: PostgresLocation) -> None:
        """A server that releases the stream leaves it to the others."""
        with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
            here, there = stream_of(one), stream_of(other)
            assert here.claim()
            here.let_go()
            assert there.claim()
            assert not here.claim()

    @pytest.mark.slow
    def test_session_moved_between_servers_stays_in_order(self, postgresql: PostgresLocation) -> None:
        """The events of a session that moves to another server arrive in order, from either lane."""
        with Journal.open(postgresql) as one, Journal.open(postgresql) as other:
            one.write("s1", *BODIES[:5])
            one.release("s1")
            other.write("s1", *BODIES[5:])
            here = stream_of(one)
            assert here.claim()
            assert [each.event.seq for each in drained(here)] == list(range(1, 11))


def test_positions_are_private(journal: Path) -> None:
    """Only the owner of a journal can read its stream positions."""
    drained(stream(journal))
    assert journal.with_name("j.db.stream-s").stat().st_mode & 0o777 == 0o600
