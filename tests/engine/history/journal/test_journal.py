"""Writing: order, durability, failure."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.session_index import SessionLine
from interlock.engine.history.model.events import CallDecided, MessageAdded, SessionOpened, SessionStatus
from interlock.engine.history.model.records import CallRecord
from tests.support.raw_database import raw_database

from ..support.recording import NOON, answer, asks, decided, opening, request, result

HELLO = MessageAdded(role="user", text="hello")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A journal with one open session, `s1`."""
    with Journal.open(tmp_path / "journal.db") as journal:
        journal.write("s1", opening())
        yield journal


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit files to one byte, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def held_commit(journal: Journal) -> Iterator[list[int]]:
    """Hold all commits until the end of the context; yield the sizes of committed batches."""
    sizes: list[int] = []
    released = threading.Event()
    commit = journal._writer.commit

    def held(batch: list) -> None:
        released.wait()
        sizes.append(len(batch))
        commit(batch)

    journal._writer.commit = held
    try:
        yield sizes
    finally:
        released.set()


def texts(path: Path, session: str = "s1") -> list[str | None]:
    """Return the messages in the file as another reader finds them."""
    return [e.body.text for e in open_reader(path).events(session) if isinstance(e.body, MessageAdded)]


class TestOrder:
    async def test_events_are_numbered_in_call_order(self, journal: Journal) -> None:
        """Events of concurrent callers are numbered in call order, without a gap."""

        async def caller(name: int) -> None:
            for n in range(20):
                [event] = await journal.append("s1", MessageAdded(role="user", text=f"{name} {n}"))
                handed.append((event.seq, event.cursor, event.body))

        handed: list[tuple[int, int, object]] = []
        await asyncio.gather(*(caller(name) for name in range(10)))
        stored = list(journal.reader().events("s1"))[1:]
        assert [e.seq for e in stored] == list(range(2, 202))
        assert sorted(handed, key=lambda h: h[0]) == [(e.seq, e.cursor, e.body) for e in stored]

    async def test_numbers_are_known_at_once(self, journal: Journal) -> None:
        """`submit` returns numbered events before they are durable, with a future for durability."""
        first, first_durable = journal.submit("s1", HELLO, HELLO)
        second, second_durable = journal.submit("s1", HELLO)
        assert [e.seq for e in first + second] == [2, 3, 4]
        await second_durable
        assert first_durable.done()
        assert [e.seq for e in journal.reader().events("s1")] == [1, 2, 3, 4]

    async def test_threads_and_loops_can_write_concurrently(self, journal: Journal) -> None:
        """A thread without an event loop and another event loop can write at the same time."""
        plain = threading.Thread(target=lambda: journal.write("s1", HELLO))

        async def append_in_other_loop() -> None:
            await journal.append("s1", HELLO)

        looping = threading.Thread(target=lambda: asyncio.run(append_in_other_loop()))
        for thread in (plain, looping):
            thread.start()
        await journal.append("s1", HELLO)
        for thread in (plain, looping):
            await asyncio.to_thread(thread.join)
        assert [e.seq for e in journal.reader().events("s1")] == [1, 2, 3, 4]

    async def test_reopened_journal_continues_numbers(self, journal: Journal) -> None:
        """A reopened journal continues the numbers of the session and the file."""
        [last] = await journal.append("s1", HELLO)
        journal.close()
        with Journal.open(journal.path) as again:
            [event] = again.write("s1", HELLO)
            [other] = again.write("s2", opening())
        assert (event.seq, event.cursor) == (last.seq + 1, last.cursor + 1)
        assert (other.seq, other.cursor) == (1, event.cursor + 1)

    def test_time_never_decreases_within_a_session(self, tmp_path: Path) -> None:
        """A clock that is set back does not reorder a session; times have millisecond precision."""
        times = iter([NOON, NOON - timedelta(hours=1), NOON + timedelta(microseconds=2999)])
        with Journal.open(tmp_path / "journal.db", clock=lambda: next(times)) as journal:
            events = [journal.write("s1", body)[0] for body in (opening(), HELLO, HELLO)]
            assert [e.at for e in events] == [NOON, NOON, NOON + timedelta(milliseconds=2)]
            assert list(journal.reader().events("s1")) == events


class TestDurability:
    async def test_waiters_return_after_the_commit(self, journal: Journal) -> None:
        """After an append returns, another connection can read the event."""
        for n in range(20):
            await journal.append("s1", MessageAdded(role="user", text=str(n)))
            assert texts(journal.path)[-1] == str(n)

    async def test_queued_events_share_a_commit(self, journal: Journal) -> None:
        """Group commit: events that arrive during a commit are written together by the next one."""
        with held_commit(journal) as sizes:
            first = journal.append("s1", HELLO)
            rest = [journal.append("s1", HELLO) for _ in range(500)]
        await asyncio.gather(first, *rest)
        assert sum(sizes) == 501
        assert len(sizes) <= 2

    def test_ended_event_loop_blocks_no_others(self, journal: Journal) -> None:
        """Events whose event loop ended before the commit are written and block no others."""

        async def hand_over() -> None:
            journal.submit("s1", MessageAdded(role="user", text="kept"))

        with held_commit(journal):
            asyncio.run(hand_over())
        journal.write("s1", HELLO)
        assert texts(journal.path) == ["kept", "hello"]

    async def test_cancelled_append_is_still_written(self, journal: Journal) -> None:
        """An append whose caller is cancelled is still written and blocks no others."""
        waiting = asyncio.ensure_future(journal.append("s1", MessageAdded(role="user", text="kept")))
        waiting.cancel()
        await journal.append("s1", HELLO)
        assert texts(journal.path) == ["kept", "hello"]

    @pytest.mark.sqlite("pragmas of its connection")
    def test_each_commit_is_synced(self, journal: Journal) -> None:
        """The writing connection syncs each commit and checks foreign keys."""
        connection = journal._writer._connection
        pragmas = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
        assert pragmas == PRAGMAS

    async def test_close_flushes_pending_events(self, journal: Journal) -> None:
        """`close` flushes pending events; later writes are refused."""
        waiting = [journal.append("s1", HELLO) for _ in range(50)]
        journal.close()
        await asyncio.gather(*waiting)
        assert len(texts(journal.path)) == 50
        with pytest.raises(JournalError, match="is closed"):
            await journal.append("s1", HELLO)
        with pytest.raises(JournalError, match="is closed"):
            journal.write("s1", HELLO)
        journal.close()


PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


class TestFailure:
    @pytest.mark.sqlite("its file cannot be written")
    async def test_a_full_disk_refuses_and_recovers(self, journal: Journal) -> None:
        """A failed commit fails all its waiters and stores nothing; with space, writing works again."""
        await journal.append("s1", MessageAdded(role="user", text="before"))
        with full_disk():
            lost = [journal.append("s1", MessageAdded(role="user", text="lost")) for _ in range(5)]
            outcomes = await asyncio.gather(*lost, return_exceptions=True)
        assert all(isinstance(o, JournalError) for o in outcomes)
        assert "could not be written" in str(outcomes[0])
        assert str(journal.path) in str(outcomes[0])
        [event] = await journal.append("s1", MessageAdded(role="user", text="after"))
        assert event.seq == 3
        assert texts(journal.path) == ["before", "after"]

    async def test_events_after_a_failed_batch_fail(self, journal: Journal) -> None:
        """Events numbered after a failed batch fail as well, so the record has no gap."""
        commit = journal._writer.commit
        entered, released = threading.Event(), threading.Event()

        def failing(batch: list) -> None:
            journal._writer.commit = commit
            entered.set()
            released.wait()
            raise sqlite3.OperationalError("disk I/O error")

        journal._writer.commit = failing
        first = journal.append("s1", HELLO)
        await asyncio.to_thread(entered.wait)
        second = journal.append("s1", HELLO)
        released.set()
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert all(isinstance(o, JournalError) for o in outcomes)
        [event] = await journal.append("s1", HELLO)
        assert event.seq == 2
        assert [e.seq for e in journal.reader().events("s1")] == [1, 2]

    @pytest.mark.sqlite("its file cannot be written")
    async def test_events_depending_on_a_failed_write_are_refused(self, journal: Journal) -> None:
        """G-63: events that depend on one that failed to be written are refused.

        Events of others, and events after the last stored one, are written.
        """
        journal.write("s2", opening())
        with full_disk():
            [lost], failing = journal.submit("s1", HELLO)
            with pytest.raises(JournalError):
                await failing
        with pytest.raises(JournalError, match=f"event {lost.seq} of session 's1'.*Try again"):
            journal.submit("s1", HELLO, after=lost.seq)
        journal.submit("s1", after=lost.seq)
        [other], _ = journal.submit("s2", HELLO, after=1)
        [event], written = journal.submit("s1", HELLO, after=lost.seq - 1)
        await written
        assert (event.seq, event.cursor) == (lost.seq, other.cursor + 1)

    @pytest.mark.sqlite("its file cannot be written")
    async def test_deleted_file_acknowledges_no_event(self, journal: Journal) -> None:
        """A journal whose file was deleted acknowledges no event."""
        journal.path.unlink()
        with pytest.raises(JournalError, match="moved, deleted or replaced"):
            await journal.append("s1", HELLO)

    async def test_lone_surrogate_is_refused_at_once(self, journal: Journal) -> None:
        """A lone surrogate is refused at once, and no number is used up."""
        with pytest.raises(JournalError, match="cannot be stored"):
            journal.submit("s1", MessageAdded(role="user", text="\ud800"))
        for session in ("", "\ud800"):
            with pytest.raises(JournalError, match="cannot be a session's id"):
                journal.submit(session, opening())
        [event] = await journal.append("s1", HELLO)
        assert event.seq == 2

    def test_sessions_open_once(self, journal: Journal) -> None:
        """Events of an unopened session and a second opening are refused."""
        with pytest.raises(JournalError, match="'s2' is not in the journal"):
            journal.write("s2", HELLO)
        with pytest.raises(JournalError, match="'s1' is in the journal already"):
            journal.write("s1", opening())
        with pytest.raises(JournalError, match="'s3' is in the journal already"):
            journal.write("s3", opening(), HELLO, opening())
        assert [s.id for s in journal.reader().sessions()] == ["s1"]


class TestWhatIsKept:
    def test_events_are_read_back_unchanged(self, journal: Journal) -> None:
        """Inputs with any JSON, big integers and non-JSON numbers are read back unchanged."""
        arguments = {
            "a": [1, None, {"b": 2.5}],
            "big": 10**30,
            "text": "ü\u202e\x1b",
            "inf": float("inf"),
        }
        call = decided("c1", "deploy", input=arguments, approved_by=("maria",), edited=True)
        journal.write("s1", call, result("c1", "deploy", output="done\x00"))
        assert [e.body for e in journal.reader().events("s1")][1:] == [
            call,
            result("c1", "deploy", output="done\x00"),
        ]

    def test_session_line_equals_a_fold(self, journal: Journal) -> None:
        """A session's line equals a fold over its events, even after a restart."""
        journal.write("s1", SessionStatus(status="running"), asks(("c1", "rm"), ("c2", "deploy")))
        journal.write("s1", decided("c1", "rm", outcome="block"), request("a1", "c2", "deploy"))
        assert journal.reader().session("s1").status == "waiting"
        journal.close()
        with Journal.open(journal.path) as again:
            again.write("s1", answer("a1", "c2"), decided("c2", "deploy"))
            again.write("s1", decided("c3", "rm", outcome="block", mode="shadow"))
            again.write("s1", SessionStatus(status="failed", error="out of tokens"))
        reader = open_reader(journal.path)
        line = reader.session("s1")
        assert line == SessionLine.of(reader.events("s1")).summary()
        assert (line.status, line.error, line.calls, line.blocked, line.waiting) == (
            "failed",
            "out of tokens",
            3,
            1,
            0,
        )

    def test_event_type_has_its_own_column(self, journal: Journal) -> None:
        """The type of an event is also in a separate column, for queries."""
        journal.write("s1", decided("c1", "deploy"))
        with closing(raw_database(journal.path)) as connection:
            rows = connection.execute("SELECT type FROM event ORDER BY cursor").fetchall()
        kinds = (SessionOpened, CallDecided)
        assert [kind for (kind,) in rows] == [k.model_fields["type"].default for k in kinds]


class TestDepth:
    @pytest.mark.parametrize("depth", [90, 190, 210, 240])
    def test_too_deep_input_is_refused_on_writing(self, tmp_path: Path, depth: int) -> None:
        """An input that is too deep to be read is refused on writing; any other is read back."""
        value: list[object] = []
        for _ in range(depth):
            value = [value]
        body = MessageAdded(
            role="assistant", calls=(CallRecord(call_id="c", tool="t", input={"deep": value}),)
        )
        with Journal.open(tmp_path / "journal.db") as journal:
            journal.write("s", opening())
            if depth > 195:
                with pytest.raises(JournalError, match="nested too deep"):
                    journal.write("s", body)
            else:
                journal.write("s", body)
            found = [event.body for event in journal.reader().events("s")]
        assert found == ([opening()] if depth > 195 else [opening(), body])
