"""Changes to a database's journal while servers write it, and its lists."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.history.audit.importing import import_session, read_export
from interlock.engine.history.audit.prune import Pruning, prune, stubs
from interlock.engine.history.audit.verify import check_file
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.decisions.counts import count_decisions
from interlock.engine.history.decisions.filter import DecisionFilter
from interlock.engine.history.decisions.reader import decision_connection
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.maintenance import index_mismatches, rebuild
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import MessageAdded, SessionStatus
from interlock.engine.history.model.times import to_ms
from tests.support.decisions import call, ended, opened, usual
from tests.support.postgres import own_server

from ..audit.test_stream import drained, stream_of
from ..support.keeping import BODIES, NOW, exported, recorded_at, saved, tamper, verdicts
from .support.servers import rows

OLD = NOW - timedelta(days=100)


@pytest.fixture
def served(postgresql: PostgresLocation) -> Iterator[Journal]:
    """The journal of a running server."""
    journal = Journal.open(postgresql, clock=lambda: OLD)
    yield journal
    journal.close()


def pruned(place: PostgresLocation, key: Path, *, dry: bool = False) -> Pruning:
    return prune(place, before=to_ms(NOW), by="maria", at=to_ms(NOW), key=key, dry=dry)


class TestPrune:
    def test_removes_ended_and_holds_open_sessions(
        self, postgresql: PostgresLocation, served: Journal, tmp_path: Path
    ) -> None:
        """Prune removes an ended session of a running server, and names its open one as held."""
        served.write("done", *BODIES)
        served.write("open", opened("bot"))
        key = tmp_path / "key.pem"
        for dry in (True, False):
            found = pruned(postgresql, key, dry=dry)
            assert [stub.session for stub in found.pruned] == ["done"]
            assert (found.kept, found.held) == ((), ("open",))
        assert [each.stub.session for each in stubs(postgresql) if each.good] == ["done"]
        assert check_file(postgresql).missing == 0
        served.write("open", SessionStatus(status="running"))
        with pytest.raises(JournalError):
            served.write("done", SessionStatus(status="running"))
        assert {c.session: c.fault for c in verdicts(postgresql).values()} == {"open": None}

    def test_session_is_kept_until_streamed(
        self, postgresql: PostgresLocation, served: Journal, tmp_path: Path
    ) -> None:
        """A session of any lane is kept until a stream has sent all its events."""
        served.write("first", *BODIES)
        with Journal.open(postgresql, clock=lambda: OLD) as other:
            other.write("second", *BODIES)
            sent = stream_of(served)
            assert sent.claim()
            page = [each for each in sent.events(10) if each.event.place.session == "first"]
            sent.note(page)
            key = tmp_path / "key.pem"
            found = pruned(postgresql, key)
            assert [each.session for each in found.pruned] == ["first"]
            assert found.unsent == {"second": ["s"]}
            drained(sent)
            assert [each.session for each in pruned(postgresql, key).pruned] == ["second"]

    @pytest.mark.slow
    def test_unfinished_session_of_ended_server_is_removed(
        self, postgresql: PostgresLocation, tmp_path: Path
    ) -> None:
        """Prune also removes an unfinished session whose server has ended."""
        recorded_at(postgresql, OLD, "open", opened("bot"))
        assert [s.session for s in pruned(postgresql, tmp_path / "key.pem").pruned] == ["open"]

    @pytest.mark.slow
    def test_frees_the_space(self, tmp_path: Path) -> None:
        """Prune frees the space at once, without the database's own vacuum.

        The database has no other users, since rows that an open transaction may see are kept.
        """
        with own_server() as database:
            place = PostgresLocation(database.url, "journal")
            recorded_at(place, OLD, "s", *BODIES)
            size = "SELECT pg_relation_size('event') + pg_relation_size('decision')"
            assert rows(place, size)[0][0] > 0
            assert len(pruned(place, tmp_path / "key").pruned) == 1
            assert rows(place, size)[0][0] == 0


class TestImport:
    def test_import_can_be_resumed_by_any_server(
        self, postgresql: PostgresLocation, served: Journal, tmp_path: Path
    ) -> None:
        """An import has numbers apart from those of servers, and any server can resume it."""
        served.write("own", opened("bot"))
        recorded_at(tmp_path / "source.db", OLD, "s1")
        export = read_export(saved(tmp_path / "s1.jsonl", exported(tmp_path / "source.db")))
        import_session(export, postgresql, tmp_path / "key.pem")
        served.write("own", SessionStatus(status="running"))
        assert open_reader(postgresql).session("s1").imported
        assert [c.fault for c in verdicts(postgresql).values()] == [None, None]
        assert check_file(postgresql).missing == 0
        served.write("s1", SessionStatus(status="running"))
        assert verdicts(postgresql)["s1"].fault is None

    @pytest.mark.slow
    def test_existing_session_is_refused(self, postgresql: PostgresLocation, tmp_path: Path) -> None:
        """An import of an existing session is refused and leaves nothing behind."""
        recorded_at(tmp_path / "source.db", OLD, "s1")
        export = read_export(saved(tmp_path / "s1.jsonl", exported(tmp_path / "source.db")))
        import_session(export, postgresql, tmp_path / "key.pem")
        with pytest.raises(JournalError, match="is in journal"):
            import_session(export, postgresql, tmp_path / "key.pem")
        assert check_file(postgresql).missing == 0


class TestRebuild:
    def test_changed_lines_are_named_and_rebuilt(self, postgresql: PostgresLocation) -> None:
        """Lines that differ from the events are named and rebuilt."""
        usual(postgresql)
        assert list(index_mismatches(postgresql)) == []
        tamper(
            postgresql,
            "UPDATE session SET calls = 99 WHERE id = 'nightly-sync-02'",
            "UPDATE decision SET verdict = 'allow' WHERE session = 'release-bot-1f3a'",
        )
        assert set(index_mismatches(postgresql)) == {"nightly-sync-02", "release-bot-1f3a"}
        done = rebuild(postgresql)
        assert (done.mended, done.decisions, done.held) == (("nightly-sync-02",), True, ())
        assert list(index_mismatches(postgresql)) == []

    @pytest.mark.slow
    def test_session_of_running_server_is_unchanged(
        self, postgresql: PostgresLocation, served: Journal
    ) -> None:
        """A session of a running server is left unchanged."""
        served.write("s", opened("bot"))
        tamper(postgresql, "UPDATE session SET calls = 99 WHERE id = 's'")
        done = rebuild(postgresql)
        assert (done.sessions, done.mended, done.held) == (0, (), ("s",))


class TestLists:
    def test_equal_those_of_a_file(self, postgresql: PostgresLocation, tmp_path: Path) -> None:
        """The same sessions give the same lines in both databases, in values and order."""
        readers = [open_reader(usual(place)) for place in (postgresql, tmp_path / "j.db")]
        one, other = ([each.sessions(), each.talks()] for each in readers)
        assert one == other
        one, other = ([count_decisions(r.path, by=by) for by in ("rule", "tool", None)] for r in readers)
        assert one == other

    @pytest.mark.slow
    def test_nul_is_shown_as_visible_character(self, postgresql: PostgresLocation) -> None:
        """Lists show NUL in a text as a visible character, and this is no mismatch."""
        with Journal.open(postgresql) as journal:
            journal.write("s", opened("bo\0t"), MessageAdded(role="user", text="a\0b"))
            journal.write("s", call("c\0", "x\0", "ls\0"), ended("c\0"))
        assert list(index_mismatches(postgresql)) == []
        assert rebuild(postgresql).mended == ()
        assert verdicts(postgresql)["s"].fault is None
        assert [*open_reader(postgresql).events("s")][1].body.text == "a\0b"


class TestStop:
    def test_stopped_query_is_not_executed(self, postgresql: PostgresLocation) -> None:
        """A query that is already stopped is not executed."""
        Journal.open(postgresql).close()
        stop = threading.Event()
        stop.set()
        with (
            pytest.raises(JournalError, match="not wanted"),
            decision_connection(postgresql, stop) as asked,
        ):
            asked.execute("SELECT pg_sleep(60)").fetchall()
        count_decisions(postgresql, DecisionFilter(words=("x",)), stop=threading.Event())
