"""Messages, stops and limits from a remote operator, for every kind of session of a server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.live.cost_limit import RaiseLimit
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.inputs.say_line import SayLine
from interlock.engine.agents import Agent, AgentError, C, ScriptedModel, T, Usage, tool
from interlock.engine.hub.hub import UnknownSessionError
from interlock.engine.sessions.config import SessionConfig

from ...engine.gateway.acp.acp_world import World, call
from ...engine.gateway.served import Served, until
from .seats import attached, served


@tool
async def note() -> str:
    """Note."""
    return "noted"


async def acp(server: Served, directory: Path) -> World:
    """Start an ACP agent in the server's process."""
    directory.mkdir()  # noqa: ASYNC240
    world = World(server.hub, directory)
    await world.start()
    return world


@pytest.mark.slow
class TestCostLimit:
    async def test_remote_console_raises_the_limit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A session that stopped at its cost limit continues after a remote console has raised it."""
        monkeypatch.chdir(tmp_path)
        model = ScriptedModel(
            [replace(C(note={}), usage=Usage(input=10, output=5, cost=1.5)), T("I go on")]
        )
        async with served(tmp_path) as server:
            agent = Agent(model, name="bot", tools=[note], max_cost=1.0)
            session = await server.hub.open_session(agent, SessionConfig({}))
            await server.hub.send(session, "go", by="cy")
            async with attached(server) as ada:
                await ada.shows("$1.50 of $1.00", "raise the limit")
                await ada.press("dollar_sign")
                await ada.at(RaiseLimit)
                await ada.press("4", "enter", "x", "enter")
                await ada.at(LiveScreen)
                await ada.shows("$1.50 of $4.00")
                assert (await server.hub.session(session)).max_cost == 4.0
                [raised] = [
                    event.body
                    for event in await server.hub.recorded(session)
                    if event.body.type == "limit.raised"
                ]
                assert raised.by == "ada"
                await ada.hub.send(session, "go on", by="ada")
                await ada.shows("I go on")


class TestAcpAgents:
    @pytest.mark.slow
    async def test_remote_message_reaches_the_agent(self, tmp_path: Path) -> None:
        """A message from a remote console reaches an ACP agent, under the token's name."""
        async with served(tmp_path) as server, attached(server) as ada:
            world = await acp(server, tmp_path / "work")
            await ada.shows("scripted")
            await ada.press("i")
            await ada.until(lambda: _typing(ada))
            await ada.type("hello")
            await ada.press("enter")
            await ada.shows("You said: hello")
            said = [(e.kind, e.text, e.by) for e in (await world.state()).transcript]
            assert said == [("user", "hello", "ada"), ("assistant", "You said: hello", None)]

    @pytest.mark.slow
    async def test_remote_key_stops_the_turn(self, tmp_path: Path) -> None:
        """A key stops the turn; a message interrupts the next turn."""
        async with served(tmp_path) as server, attached(server) as ada:
            world = await acp(server, tmp_path / "work")
            await world.tell(["until_cancelled"])
            await world.until(lambda: world.done("prompted"))
            await ada.shows("scripted")
            await ada.press("ctrl+x")
            await ada.at(Confirm)
            screen = ada.app.screen
            assert isinstance(screen, Confirm)
            await ada.until(lambda: screen._shown_at is not None)
            ada.seconds += 1.0
            await ada.press("y")
            await asyncio.wait_for(server.hub.wait(world.session), 20)
            assert world.done("cancelled") == [True]
            await world.tell(["until_cancelled"])
            await world.until(lambda: len(world.done("prompted")) == 2)
            await ada.hub.send(world.session, "stop that", by="ada")
            await asyncio.wait_for(server.hub.wait(world.session), 20)
            assert world.done("prompted")[2:] == [["stop that"]]


class TestEveryKind:
    async def test_hosted_agent_can_be_messaged_and_stopped(self, tmp_path: Path) -> None:
        """A session that the server hosts can be messaged, stopped and compacted."""
        async with served(tmp_path) as server, server.console() as console:
            agent = Agent(ScriptedModel([T("hello")]), name="bot")
            session = await server.hub.open_session(agent, SessionConfig({}))
            await console.sessions()
            assert console.steers(session)
            await console.send(session, "hi")
            await asyncio.wait_for(server.hub.wait(session), 20)
            await console.abort(session, "enough")
            assert "Nothing to compact" in (await console.compact(session, keep_last=50)).message

    async def test_remote_agent_can_only_be_stopped(self, tmp_path: Path) -> None:
        """Messages and compaction for a remote agent are refused; stopping denies its request."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("robin")
            await gate.call("test", {}, call_id="t1")
            await gate.result("t1", "42 passed")
            call = asyncio.ensure_future(gate.call("deploy", {}, call_id="d1"))
            await until(server.hub.approvals)
            await console.sessions()
            assert not console.steers(gate.id)
            with pytest.raises(AgentError, match="Send it messages where it runs"):
                await console.send(gate.id, "hello")
            assert "external agent" in (await console.compact(gate.id)).message
            await console.abort(gate.id)
            answer = await asyncio.wait_for(call, 10)
            assert answer.outcome == "block"
            assert "stopped by ada" in (answer.reason or "")

    async def test_unsupported_acp_operations_are_refused(self, tmp_path: Path) -> None:
        """Operations that an ACP agent does not support are refused; it is steered while live."""
        async with served(tmp_path) as server, server.console() as console:
            world = await acp(server, tmp_path / "work")
            await console.sessions()
            assert console.steers(world.session)
            assert "external agent" in (await console.compact(world.session)).message
            assert not (await console.raise_limit(world.session, 5.0, reason="a test")).ok
            await console.close_session(world.session)
            await console.sessions()
            assert not console.steers(world.session)
            with pytest.raises(UnknownSessionError):
                await console.send(world.session, "hello")

    @pytest.mark.slow
    async def test_edit_is_offered_only_where_supported(self, tmp_path: Path) -> None:
        """The dialog for an ACP agent's call offers no edit: the agent cannot run edited input."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            attached(server, size=(120, 40)) as ada,
        ):
            world = await acp(server, tmp_path / "work")
            assert not server.hub.takes_edits(world.session)
            await world.tell(["ask", call("c1", "fetch", url="x")])
            screen = await ada.dialog()
            assert not screen.check_action("edit", ())
            await ada.press("e")
            assert ada.app.screen is screen
            assert screen.check_action("approve", ())
            await ada.press("a")
            await ada.at(LiveScreen)
            gate = await client.open("robin")
            await gate.call("test", {}, call_id="t1")
            await gate.result("t1", "passed")
            deploy = asyncio.ensure_future(gate.call("deploy", {"env": "prod"}))
            screen = await ada.dialog()
            assert screen.check_action("edit", ())
            deploy.cancel()

    async def test_message_to_an_ended_acp_agent_is_refused(self, tmp_path: Path) -> None:
        """A message to an ended ACP agent is refused, and the error says how it ended."""
        async with served(tmp_path) as server, server.console() as console:
            world = await acp(server, tmp_path / "work")
            await world.tell(["die", 3])
            await world.until(lambda: server.hub._live.hosted(world.session).shown.phase == "failed")
            with pytest.raises(AgentError, match="exit code 3"):
                await console.send(world.session, "hello")


def _typing(seat: object) -> bool:
    focused = seat.app.screen.focused  # type: ignore[attr-defined]
    return focused is not None and any(isinstance(each, SayLine) for each in focused.ancestors_with_self)
