"""A server with frozen agents: consoles show the freeze, agents get the reason, and rights apply."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.hub.hub import FreezeChanged

from ..served import served, until

WHY = "the deploys look wrong"


async def frozen(console: ConsoleClient) -> str:
    now = console.current_freeze()
    return "" if now is None else now.words


class TestConsoles:
    async def test_freeze_is_shown_at_once(self, tmp_path: Path) -> None:
        """A connected console is notified of a freeze, and a later one shows it."""
        async with served(tmp_path) as server, server.console() as ada, server.console(server.ben) as ben:
            events = ben.subscribe()
            outcome = await ada.freeze(by="", reason=WHY)
            assert outcome.ok, outcome.message
            async with asyncio.timeout(10):
                async for event in events:
                    if isinstance(event, FreezeChanged):
                        break
            assert await frozen(ben) == f"frozen by ada: {WHY}"
            async with server.console(server.ben) as later:
                assert await frozen(later) == f"frozen by ada: {WHY}"
            assert (await ben.lift_freeze(by="", reason="looked at")).ok

            async def thawed() -> bool:
                return await frozen(ada) == ""

            await until(thawed)

    async def test_limited_rights_may_not_lift(self, tmp_path: Path) -> None:
        """A `decide` token may freeze but not lift; a read-only console may do neither."""
        async with served(tmp_path) as server:
            decides = server.tokens.issue("operator", "dora", rights="decide")
            looks = server.tokens.issue("operator", "lou", rights="look")
            async with server.console(looks) as console:
                refused = await console.freeze(by="", reason=WHY)
                assert (refused.ok, server.hub.current_freeze()) == (False, None)
            async with ConsoleClient(server.url, server.ada, read_only=True) as console:
                refused = await console.freeze(by="", reason=WHY)
                assert (refused.ok, server.hub.current_freeze()) == (False, None)
            async with server.console(decides) as console:
                assert (await console.freeze(by="", reason=WHY)).ok
                refused = await console.lift_freeze(by="", reason="looked at")
                assert not refused.ok
                assert "administer" in refused.message
                assert server.hub.current_freeze() is not None


class TestAgents:
    async def test_waiting_call_gets_the_reason(self, tmp_path: Path) -> None:
        """A waiting call gets the reason of the freeze, and is allowed after its end."""
        async with served(tmp_path, rules="block rm") as server, server.agent_client() as client:
            gate = await client.open("bot")
            await server.hub.freeze(by="maria", reason=WHY)
            answer = await gate.call("test", {}, call_id="t1", wait=0.0)
            assert (answer.outcome, answer.reason) == ("waiting", f"frozen by maria: {WHY}")
            await server.hub.lift_freeze(by="maria", reason="looked at")
            assert (await gate.call("test", {}, call_id="t1")).outcome == "allow"
