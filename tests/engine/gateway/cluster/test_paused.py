"""A server that is paused between recording and sending a decision, for longer than its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.cluster.shared_hub import SharedHub
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.errors import ServerEnded
from interlock.engine.history.postgres.servers.clock import now
from interlock.engine.hub.hub import CallAnswer

from ...support.external_agent import opened
from .support.hubs import RULES


async def renews_no_more(hub: SharedHub) -> None:
    """Stop the thread that renews a server's lease, as a pause of the process would."""
    hub._lease._stop.set()
    await asyncio.to_thread(hub._lease._thread.join)


class TestCall:
    @pytest.mark.parametrize("goes_on", [True, False], ids=["held again", "taken over"])
    async def test_is_not_released_while_the_lease_is_over(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch, goes_on: bool
    ) -> None:
        """A recorded decision is not released while the lease is expired: a freeze elsewhere may hold."""
        here, _ = two
        await opened(here, RULES)
        await renews_no_more(here)
        writer = here._journal._writer
        commit, pause = writer.commit, True

        def paused(*args: object) -> Mapping[str, object]:
            done = commit(*args)
            if pause:
                here._lease._valid_until = 0.0
            return done

        monkeypatch.setattr(writer, "commit", paused)
        call = asyncio.ensure_future(here.call("robin-1", "t1", "test", {}))
        await asyncio.wait([call], timeout=0.2)
        assert here._lease._valid_until == 0.0
        assert not call.done()
        pause = False
        if goes_on:
            here._lease._valid_until = now() + 60
            assert (await asyncio.wait_for(call, 5)).outcome == "allow"
        else:
            here._lease.end()
            with pytest.raises(ServerEnded):
                await asyncio.wait_for(call, 5)

    async def test_is_not_answered_where_the_lease_ran_out_last(
        self, two: tuple[SharedHub, SharedHub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """The server checks the lease at the moment at which it sends the answer."""
        here, _ = two
        await renews_no_more(here)
        submit = here.submit_call

        def paused(*args: object, **kwargs: object) -> asyncio.Future[CallAnswer]:
            def pause(_: object) -> None:
                here._lease._valid_until = 0.0

            answer = submit(*args, **kwargs)
            answer.add_done_callback(pause)
            return answer

        monkeypatch.setattr(here, "submit_call", paused)
        tokens = TokenFile(tmp_path / "tokens.json")
        secret = tokens.issue("agent", "bot")
        gateway = Gateway(here, tokens, rules=RuleSets.of({}))
        address = await gateway.start(Address(port=0))
        try:
            async with AgentClient(address.url, secret) as client:
                gate = await client.open("bot")
                call = asyncio.ensure_future(gate.call("test", {}, call_id="t1"))
                await asyncio.wait([call], timeout=0.2)
                assert here._lease._valid_until == 0.0
                assert not call.done()
                here._lease._valid_until = now() + 60
                assert (await asyncio.wait_for(call, 5)).outcome == "allow"
        finally:
            await gateway.close()
