"""Results of calls that were never submitted: they raise an alarm and change no net."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.gateway import GatewayError
from interlock.engine.history.model.events import CallResult, JournalEvent, SessionStatus

from ..served import Served, served


async def alarms(server: Served, session: str) -> list[CallResult]:
    """Return the alarms in a session's record."""
    events = await server.hub.recorded(session)
    return [e.body for e in events if isinstance(e.body, CallResult) and e.body.anomaly is not None]


class TestUngatedResults:
    async def test_raise_an_alarm(self, tmp_path: Path) -> None:
        """The journal has the result, every console is notified, and the agent gets an error."""
        async with (
            served(tmp_path) as server,
            server.console() as console,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            events = console.subscribe()
            for _ in range(2):
                with pytest.raises(GatewayError, match="has made no call 'x'"):
                    await session.result("x", "deleted")
            [alarm] = await alarms(server, session.id)
            assert (alarm.call_id, alarm.output) == ("x", "deleted")
            state = await server.hub.session(session.id)
            said = SessionStatus(status=state.phase, error=state.error)
            assert "ran without asking" in (state.error or "")
            assert any("ran without asking" in each.text for each in state.transcript)
            async with asyncio.timeout(20):
                async for event in events:
                    if isinstance(event, JournalEvent) and event.body == said:
                        break

    async def test_are_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The number of recorded alarms is bounded."""
        monkeypatch.setattr("interlock.engine.sessions.submitted_calls.MOST_ALARMS", 3)
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            for number in range(5):
                with pytest.raises(GatewayError):
                    await session.result(f"x{number}", "deleted")
            assert len(await alarms(server, session.id)) == 3

    async def test_do_not_settle_a_call(self, tmp_path: Path) -> None:
        """A later call under the id is decided by the rules."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as session,
        ):
            with pytest.raises(GatewayError):
                await session.result("x", "tests passed")
            answer = await session.call("rm", {}, call_id="x")
            assert answer.outcome == "block"
            allowed = await session.call("look", {}, call_id="y")
            assert allowed.outcome == "allow"
            await session.result("y", "ok")
