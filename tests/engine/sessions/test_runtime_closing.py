"""A hosted agent's runtime is closed when its last session ends."""

from __future__ import annotations

from pathlib import Path

from interlock.engine import Agent, FakeRuntime, ScriptedModel
from interlock.engine.agents import T
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig


class Remote(FakeRuntime):
    """A runtime that must be closed."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


class Broken(Remote):
    async def aclose(self) -> None:
        raise ConnectionError("gone already")


class TestRuntime:
    async def test_is_closed_with_its_last_session(self, tmp_path: Path) -> None:
        """If two sessions share a runtime, it is closed with the second."""
        hub = Hub.open(tmp_path / "hub.db")
        runtime = Remote()
        agent = Agent(ScriptedModel([T("hi")]), runtime=runtime)
        first = await hub.open_session(agent, SessionConfig({}))
        second = await hub.open_session(agent, SessionConfig({}))
        await hub.close_session(first, "maria")
        assert runtime.closed == 0
        await hub.close_session(second, "maria")
        assert runtime.closed == 1
        await hub.close()
        assert runtime.closed == 1

    async def test_is_closed_once_with_the_hub(self, tmp_path: Path) -> None:
        """Closing the hub closes each runtime once, even if another one fails to close."""
        hub = Hub.open(tmp_path / "hub.db")
        runtime = Remote()
        agent = Agent(ScriptedModel([]), runtime=runtime)
        for each in (agent, agent, Agent(ScriptedModel([]), runtime=Broken())):
            await hub.open_session(each, SessionConfig({}))
        await hub.close()
        assert runtime.closed == 1
        assert [s.status for s in Hub.open(tmp_path / "hub.db")._journal.reader().sessions()] == [
            "done"
        ] * 3
