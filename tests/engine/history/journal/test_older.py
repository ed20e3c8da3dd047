"""A journal of an earlier release is read and continued; one from before the first is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, ScriptedModel, T, tool
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.fold.replay import Replay
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.journal.maintenance import index_mismatches, rebuild
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.schema import RETIRED
from interlock.engine.hub.hub import DIED, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

pytestmark = pytest.mark.sqlite("files of earlier releases")

DUMP = Path(__file__).parents[3] / "data" / "journal_0006.sql"
RULES = """
require test before deploy
require human-approval before deploy
limit deploy to 2 per session
block rm
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A journal of the first release with three sessions left open by a killed host."""
    path = tmp_path / "older.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())
    return path


def contents(path: Path) -> list[str]:
    """Return all content of a journal as SQL statements."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


class TestReading:
    def test_without_upgrade(self, older: Path) -> None:
        """History and replay can show it, and no byte changes."""
        before = older.read_bytes()
        reader = open_reader(older)
        lines = reader.sessions()
        assert [(s.id, s.status, s.waiting, s.kind, s.parent) for s in lines] == [
            ("cut-1", "running", 0, "root", None),
            ("asks-1", "waiting", 1, "root", None),
            ("done-1", "idle", 0, "root", None),
        ]
        assert reader.session("done").source is None
        for line in lines:
            events = list(reader.events(line.id))
            assert len(events) == line.events
            assert len(Replay(events)) == line.events
            assert all(headline(event) for event in events)
        assert list(index_mismatches(older)) == []
        assert older.read_bytes() == before

    def test_opened_for_writing(self, older: Path) -> None:
        """It already has the newest schema, so no copy is made and all content stays."""
        before = contents(older)
        Journal.open(older).close()
        assert contents(older) == before
        assert list(older.parent.glob("*.bak")) == []


class TestRetired:
    @pytest.mark.parametrize("revision", RETIRED)
    def test_pre_release_journal_is_refused_unchanged(self, older: Path, revision: str) -> None:
        """A journal from before the first release is refused with advice and stays unchanged."""
        with closing(sqlite3.connect(older)) as connection:
            connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
            connection.commit()
        before = older.read_bytes()
        for opened in (Journal.open, open_reader, lambda path: list(verify_journal(path)), rebuild):
            with pytest.raises(JournalError) as caught:
                opened(older)
            assert (
                f"Journal '{older}' has schema {revision}, of a version before the first release"
                in str(caught.value)
            )
            assert "use the version that wrote it, or choose another file" in str(caught.value)
        assert older.read_bytes() == before


class TestWriting:
    async def test_open_sessions_are_ended_and_can_be_resumed(self, older: Path) -> None:
        """A hub ends the sessions that were left open, and they can be resumed."""
        hub = Hub.open(older)
        assert {(s.status, s.error, s.waiting) for s in await hub.history()} == {("failed", DIED, 0)}

        @tool
        async def deploy() -> str:
            """Deploy."""
            raise AssertionError("nothing runs again")

        registry = compile_rules(RULES).registry
        # The second is requested again, and the message that is sent at once withdraws it.
        for session, told in (("cut-1", "Outcome unknown"), ("asks-1", "Skipped: user sent")):
            model = ScriptedModel([T("I see")])
            agent = Agent(model, name="bot", tools=[deploy])
            await hub.resume_session(session, agent, SessionConfig(registry))
            await hub.send(session, "go on")
            await hub.wait(session)
            assert model.requests[0].messages[-2].text.startswith(told)
            assert fold(await hub.recorded(session)) == await hub.session(session)
        state = await hub.session("asks-1")
        assert state.nets["require-test-before-deploy"].marking["gate"] == 1
        await hub.close()
