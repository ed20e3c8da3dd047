"""A journal of an older version: read as it is, upgraded when opened for writing, gone on with."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, ScriptedModel, T, tool
from interlock.engine.history.fold.event_text import headline
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.fold.replay import Replay
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.schema import CURRENT
from interlock.engine.hub.hub import DIED, Hub
from interlock.rules import compile_rules

DUMP = Path(__file__).parents[3] / "data" / "journal_0001.sql"
RULES = """
require test before deploy
require human-approval before deploy
limit deploy to 2 per session
block rm
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A journal of schema 0001 with three sessions that its host left open when it was killed."""
    path = tmp_path / "older.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())
    return path


def revision(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]


class TestReading:
    def test_without_upgrade(self, older: Path) -> None:
        """What history and replay show of it is there, and not a byte changes."""
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
        assert older.read_bytes() == before
        assert revision(older) == "0001"

    def test_while_it_is_upgraded(self, older: Path) -> None:
        """A reader that was opened before goes on reading afterwards."""
        reader = open_reader(older)
        Journal.open(older).close()
        assert revision(older) == CURRENT.newest
        assert [s.id for s in reader.sessions()] == [s.id for s in open_reader(older).sessions()]


class TestWriting:
    async def test_sessions_go_on(self, older: Path) -> None:
        """A hub upgrades it after a copy; what was left open is ended and can be resumed."""
        hub = Hub.open(older)
        assert older.with_name("older.db.0001.bak").exists()
        assert {(s.status, s.error, s.waiting) for s in await hub.history()} == {("failed", DIED, 0)}

        @tool
        async def deploy() -> str:
            """Deploy."""
            raise AssertionError("nothing runs again")

        registry = compile_rules(RULES).registry
        # The second is asked again, and the message that is sent at once takes the question back.
        for session, told in (("cut-1", "Outcome unknown"), ("asks-1", "Skipped: user sent")):
            model = ScriptedModel([T("I see")])
            agent = Agent(model, name="bot", tools=[deploy])
            await hub.resume_session(session, agent, registry=registry)
            await hub.send(session, "go on")
            await hub.wait(session)
            assert model.requests[0].messages[-2].text.startswith(told)
            assert fold(await hub.recorded(session)) == await hub.session(session)
        state = await hub.session("asks-1")
        assert state.nets["require-test-before-deploy"].marking["gate"] == 1
        await hub.close()
