"""Commands that a console prints when it exits."""

from __future__ import annotations

from pathlib import Path

from interlock.app.hosting.farewell import farewell, farewell_to_server
from interlock.engine.agents import Agent, ScriptedModel, T
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...support.fake_hub import FakeHub
from ..support.scenes import NOW, docs_writer, release_bot


class TestFarewell:
    async def test_replay_and_resume(self, tmp_path: Path) -> None:
        """Each session has a replay command, and a resume command if its record has a source."""
        hub = Hub.open(tmp_path / "j.db")
        try:
            registry = compile_rules("block rm").registry
            agent = Agent(ScriptedModel([T("hi")]), name="bot")
            plain = await hub.open_session(agent, SessionConfig(registry))
            again = await hub.open_session(agent, SessionConfig(registry, source={"model": "m"}))
            lines = await farewell(hub, ["--db", "a b.db"])
            usual = await farewell(hub)
        finally:
            await hub.close()
        assert lines == [
            f"bot: interlock replay {plain} --db 'a b.db'",
            f"bot: interlock replay {again} --db 'a b.db'",
            f"bot: interlock resume {again} --db 'a b.db'",
        ]
        assert usual[0] == f"bot: interlock replay {plain}"

    async def test_many_sessions_are_counted(self, tmp_path: Path) -> None:
        """Of many sessions only the last ones are listed, the others counted."""
        hub = Hub.open(tmp_path / "j.db")
        try:
            registry = compile_rules("block rm").registry
            for number in range(6):
                agent = Agent(ScriptedModel([T("hi")]), name=f"bot-{number}")
                await hub.open_session(agent, SessionConfig(registry))
            lines = await farewell(hub)
        finally:
            await hub.close()
        assert [line.split(":")[0] for line in lines] == ["bot-2", "bot-3", "bot-4", "bot-5", "2 more"]
        assert lines[-1] == "2 more: interlock history"


class TestFarewellToServer:
    async def test_continuing_sessions_and_requests(self) -> None:
        """The number of sessions and requests that continue, and the command to connect again."""
        hub = FakeHub(release_bot(), docs_writer(), now=NOW)
        lines = await farewell_to_server(hub, None, ["--connect", "unix:/tmp/a b"])
        assert lines == [
            f"2 sessions continue at {hub.location}, 1 request waits",
            "To connect again: interlock console --connect 'unix:/tmp/a b'",
        ]

    async def test_lost_server_shows_the_error(self) -> None:
        """After a lost connection only the error and the command to connect again are shown."""
        hub = FakeHub(release_bot(), now=NOW)
        state, back = await farewell_to_server(hub, "The connection was lost\x1b[2J", ["--connect"])
        assert state == f"{hub.location}: The connection was lost\\x1b[2J"
        assert back == "To connect again: interlock console --connect"
