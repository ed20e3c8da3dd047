"""Sessions that a newer version recorded: shown as far as possible, but not changed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from interlock.engine.history.errors import JournalError, SessionNewer
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import NewerEvent
from interlock.engine.history.model.records import Record
from interlock.engine.hub.hub import Hub
from tests.support.newer import NEWER, SessionPaused
from tests.support.raw_database import raw_database

from ..support.recording import decided, opening, result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize(("body", "part"), NEWER.values(), ids=NEWER)
class TestWhoeverActs:
    def test_unknown_content_is_reported_with_advice(self, path: Path, body: Record, part: str) -> None:
        """An unknown type, field or value is reported, with advice to use that version."""
        with Journal.open(path) as journal:
            journal.write("s", opening(), body)
            with pytest.raises(SessionNewer, match="at a server of that version") as refused:
                list(journal.reader().events("s"))
        assert f"does not know: event 2, {part}" in str(refused.value)
        assert refused.value.session == "s"

    async def test_hub_leaves_the_session_open(self, path: Path, body: Record, part: str) -> None:
        """A hub does not end such a session, unlike others that were left open, and still shows it."""
        with Journal.open(path) as journal:
            journal.write("s", opening(), body)
            journal.write("t", opening())
            before = journal.reader().count("s")
        hub = Hub.open(path)
        try:
            with open_reader(path).connection() as connection:
                rows = connection.execute("SELECT id, status FROM session ORDER BY id").fetchall()
            assert rows[1] == ("t", "failed")
            assert rows[0][1] != "failed"
            assert len(await hub.recorded("s")) == before
        finally:
            await hub.close()


class TestWhoeverLooks:
    def test_unknown_event_is_shown_as_placeholder(self, path: Path) -> None:
        """An event of an unknown type is shown as a placeholder, and the state is marked as newer."""
        with Journal.open(path) as journal:
            journal.write("s", opening(), SessionPaused(), decided("c1", "test"))
            events = list(journal.reader().showing().events("s"))
        assert [each.seq for each in events] == [1, 2, 3]
        assert events[1].body == NewerEvent(name="session.paused")
        assert "session.paused" in headline(events[1])
        state = fold(events)
        assert state.newer
        assert "c1" in state.calls

    def test_event_depending_on_unknown_one_is_skipped(self, path: Path) -> None:
        """An event that is impossible without the unknown one is skipped."""
        with Journal.open(path) as journal:
            journal.write("s", opening(), SessionPaused(), result("c9", "test", fired=[("n", "t")]))
            state = fold(journal.reader().showing().events("s"))
        assert state.seq == 3

    def test_damaged_body_is_not_taken_for_newer(self, path: Path) -> None:
        """A damaged body is not taken for an event of a newer version."""
        with Journal.open(path) as journal:
            journal.write("s", opening(), decided("c1", "test"))
        with closing(raw_database(path)) as connection:
            connection.execute("UPDATE event SET body = '{' WHERE seq = 2")
            connection.commit()
        with pytest.raises(JournalError, match="cannot be read"):
            list(open_reader(path).showing().events("s"))
