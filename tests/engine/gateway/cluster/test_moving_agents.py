"""External agents that change servers and come back, with their clients and servers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.client.connection import RequestFailedError
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.model.events import JournalEvent, SessionStatus
from interlock.engine.history.model.times import to_ms
from interlock.engine.sessions import registry
from interlock.rules import compile_rules

from .support.hubs import RULES, stop_following


@asynccontextmanager
async def clients(directory: Path, *hubs: SharedHub) -> AsyncIterator[list[AgentClient]]:
    """Serve each hub, and yield a client of each server; all have the same token."""
    tokens = TokenFile(directory / "tokens.json")
    secret = tokens.issue("agent", "bot")
    sets = RuleSets.of(compile_rules(RULES).registry)
    async with AsyncExitStack() as stack:
        found: list[AgentClient] = []
        for hub in hubs:
            gateway = Gateway(hub, tokens, rules=sets)
            stack.push_async_callback(gateway.close)
            address = await gateway.start(Address(port=0))
            client = AgentClient(address.url, secret, patience=5.0)
            found.append(await stack.enter_async_context(client))
        yield found


def held_ends(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold the ends of sessions; the first event is set once one is held, the second lets it go on."""
    begun, go = asyncio.Event(), asyncio.Event()
    record_end = registry._record_end

    async def held(*given: Any) -> None:
        begun.set()
        await go.wait()
        await record_end(*given)

    monkeypatch.setattr(registry, "_record_end", held)
    return begun, go


@pytest.mark.slow
class TestAgentThatMoves:
    async def test_keeps_its_session_when_its_earlier_end_is_seen_late(
        self, two: tuple[SharedHub, SharedHub], tmp_path: Path
    ) -> None:
        """The new server reads the end recorded by the previous one only after it resumed the session."""
        here, there = two
        async with clients(tmp_path, here, there) as (before, after):
            opened = await before.open("bot")
            await before.close()
            await stop_following(there)
            session = await after.resume(opened.id)
            seen = there.subscribe()
            there._following = asyncio.get_running_loop().create_task(there._follow())
            async for event in seen:
                if isinstance(event, JournalEvent) and isinstance(event.body, SessionStatus):
                    assert (event.session, event.body.status) == (opened.id, "done")
                    break
            seen.close()
            for number in range(3):
                assert (await session.call("read", {}, call_id=f"r{number}")).outcome == "allow"
            assert session.ended is None

    @pytest.mark.parametrize("processes", [1, 3])
    async def test_keeps_its_session_when_it_comes_back_during_the_hand_over(
        self,
        two: tuple[SharedHub, SharedHub],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        processes: int,
    ) -> None:
        """The session is ended for the other server and resumed here, once for all of its processes."""
        here, _ = two
        async with clients(tmp_path, here) as [client]:
            opened = await client.open("bot")
            begun, go = held_ends(monkeypatch)
            came = to_ms(here._journal.clock())
            leaving = asyncio.ensure_future(here._hand_over_session(opened.id, came))
            await begun.wait()
            coming = asyncio.gather(*(client.resume(opened.id) for _ in range(processes)))
            await asyncio.sleep(0.1)
            go.set()
            await leaving
            for number, session in enumerate([*await coming] * 3):
                assert (await session.call("read", {}, call_id=f"r{number}")).outcome == "allow"
                assert session.ended is None

    @pytest.mark.parametrize("last_rules", [RULES, ""], ids=["same-rules", "fewer-rules"])
    async def test_tries_further_servers_after_a_refusal(
        self, two: tuple[SharedHub, SharedHub], tmp_path: Path, last_rules: str
    ) -> None:
        """A session ends only after each server has refused to continue it under its own rules."""
        here, there = two
        tokens = TokenFile(tmp_path / "tokens.json")
        secret = tokens.issue("agent", "bot")
        gateways = [
            Gateway(hub, tokens, rules=RuleSets.of(compile_rules(rules).registry))
            for hub, rules in ((here, RULES), (there, ""), (there, last_rules))
        ]
        addresses = [await gateway.start(Address(port=0)) for gateway in gateways]
        try:
            url = ",".join(address.url for address in addresses)
            async with AgentClient(url, secret, patience=5.0) as client:
                session = await client.open("bot")
                assert client.link.url == addresses[0].url
                await gateways[0].close()
                if last_rules:
                    assert (await session.call("read", {})).outcome == "allow"
                    assert client.link.url == addresses[2].url
                else:
                    with pytest.raises(
                        RequestFailedError, match=r"has ended: .*approve-before-deploy.* is missing"
                    ):
                        await session.call("read", {})
        finally:
            for gateway in gateways:
                await gateway.close()
