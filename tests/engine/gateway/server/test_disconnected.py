"""Requests of disconnected agents: consoles show them, and decisions mention the missing agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import DisconnectedCalls, Hub

from ..served import Served, served, until

ASKS = "require human-approval before deploy"


async def disconnected_requests(hub: Hub | ConsoleClient) -> list[ApprovalState]:
    return [each for each in await hub.approvals() if each.disconnected is not None]


async def connected(hub: Hub | ConsoleClient) -> list[ApprovalState]:
    return [each for each in await hub.approvals() if each.disconnected is None]


async def abandoned(server: Served) -> str:
    """Return the id of a session whose agent disconnected while its deploy waited."""
    client = server.agent_client()
    gate = await client.open("bot")
    going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
    await until(server.hub.approvals)
    await client.close()
    await asyncio.gather(going, return_exceptions=True)
    await until(lambda: disconnected_requests(server.hub))
    return gate.id


class TestShown:
    async def test_disconnection_time_is_shown_to_every_console(self, tmp_path: Path) -> None:
        """The hub, a connected console and a later one show the time of the disconnection."""
        async with served(tmp_path, rules=ASKS) as server, server.console() as ada:
            events = ada.subscribe()
            session = await abandoned(server)
            [there] = await until(lambda: disconnected_requests(ada))
            [here] = await disconnected_requests(server.hub)
            assert there == here
            assert here.disconnected is not None
            assert here.disconnected > here.since
            async with server.console(server.ben) as ben:
                assert await until(lambda: disconnected_requests(ben)) == [here]
            events.close()
            seen = [event async for event in events if isinstance(event, DisconnectedCalls)]
            assert (seen[-1].session, set(seen[-1].calls)) == (session, {"d1"})

    async def test_not_shown_after_the_agent_returns(self, tmp_path: Path) -> None:
        """An agent that repeats its call counts as connected again."""
        async with served(tmp_path, rules=ASKS) as server, server.console() as ada:
            session = await abandoned(server)
            await until(lambda: disconnected_requests(ada))
            async with server.agent_client() as again:
                gate = await again.resume(session)
                going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
                [request] = await until(lambda: connected(ada))
                assert await connected(server.hub) == [request]
                outcome = await ada.decide(request.id, approved=True, digest=request.digest)
                assert (await going).outcome == "allow"
                assert "disconnected" not in outcome.message

    async def test_polling_agent_is_shown_after_its_connection_ends(self, tmp_path: Path) -> None:
        """An agent that polls counts as connected until its connection ends."""
        async with served(tmp_path, rules=ASKS) as server:
            client = server.agent_client()
            gate = await client.open("bot")
            assert (await gate.call("deploy", {}, call_id="d1", wait=0.0)).outcome == "waiting"
            assert len(await until(lambda: connected(server.hub))) == 1
            await client.close()
            assert len(await until(lambda: disconnected_requests(server.hub))) == 1

    async def test_replaced_request_is_shown_as_disconnected(self, tmp_path: Path) -> None:
        """A request that replaces that of a disconnected call is shown as disconnected, too."""
        async with served(tmp_path, rules=ASKS + "\nblock rm") as server, server.console() as ada:
            session = await abandoned(server)
            [first] = await until(lambda: disconnected_requests(ada))
            assert (await server.hub.toggle_net(session, "block-rm", False, by="ben", reason="no")).ok

            async def asked_anew() -> list[ApprovalState]:
                return [each for each in await disconnected_requests(ada) if each.id != first.id]

            [second] = await until(asked_anew)
            assert second.disconnected == first.disconnected

    async def test_reconnected_console_learns_of_agents_return(self, tmp_path: Path) -> None:
        """A console that lost its own connection is notified that the agent is connected again."""
        async with served(tmp_path, rules=ASKS) as server, server.console() as ada:
            session = await abandoned(server)
            await until(lambda: disconnected_requests(ada))
            [mirrored] = [each for each in server.gateway._connections if each.identity.name == "ada"]
            async with server.agent_client() as again:
                gate = await again.resume(session)
                mirrored.end(1012, "away")
                going = asyncio.create_task(gate.call("deploy", {}, call_id="d1"))
                assert len(await until(lambda: connected(ada))) == 1
                await server.hub.abort(session, "over")
                await going


class TestDecided:
    async def test_decision_mentions_the_disconnected_agent(self, tmp_path: Path) -> None:
        """The decision counts and mentions the disconnected agent, which gets it when it returns."""
        async with served(tmp_path, rules=ASKS) as server, server.console() as ada:
            session = await abandoned(server)
            [request] = await until(lambda: disconnected_requests(ada))
            outcome = await ada.decide(request.id, approved=True, digest=request.digest)
            assert outcome.ok
            assert outcome.message.startswith(
                "deploy approved by ada, but its agent has been disconnected"
            )
            assert outcome.message.endswith("nobody will act on this unless it comes back")
            async with server.agent_client() as again:
                gate = await again.resume(session)
                assert (await gate.call("deploy", {}, call_id="d1")).outcome == "allow"
