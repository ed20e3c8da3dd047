"""G-77: operators at a server's console and at a local console count together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.agent_methods import CallAnswer
from interlock.engine.history.model.state import ApprovalState

from ..served import Served, served, until

RULES = "require 2 human-approvals before deploy within 10m risk high no grants\n"
NET = "approve-before-deploy"


@asynccontextmanager
async def waiting_deploy(
    directory: Path,
) -> AsyncGenerator[tuple[Served, ConsoleClient, ApprovalState, asyncio.Task[CallAnswer]]]:
    """Yield a server, ada's console, and a deploy that needs two approvals."""
    async with served(directory, rules=RULES) as server, server.agent_client() as agent:
        gate = await agent.open("bot")
        call = asyncio.ensure_future(gate.call("deploy", {"env": "prod"}, call_id="c1"))
        [request] = await until(server.hub.approvals)
        ada = server.console()
        await ada.open()
        try:
            yield server, ada, request, call
        finally:
            await ada.close()
            call.cancel()


async def approve(console: ConsoleClient, request: ApprovalState) -> None:
    outcome = await console.decide(request.id, approved=True, digest=request.digest)
    assert outcome.ok, outcome.message


class TestTogether:
    async def test_two_approvals(self, tmp_path: Path) -> None:
        """An approval with a token and one without count together, in either order."""
        for first in ("wire", "here"):
            (tmp_path / first).mkdir()
            async with waiting_deploy(tmp_path / first) as (server, ada, request, call):
                if first == "wire":
                    await approve(ada, request)
                here = await server.hub.decide(request.id, approved=True, by="ben", digest=request.digest)
                assert here.ok, here.message
                if first == "here":
                    await approve(ada, request)
                answer = await asyncio.wait_for(call, 10)
                assert (answer.outcome, set(answer.approved_by)) == ("allow", {"ada", "ben"})

    async def test_a_revoked_token_does_not_count(self, tmp_path: Path) -> None:
        """An approval after the other token was revoked is refused, and the request is open again."""
        async with waiting_deploy(tmp_path) as (server, ada, request, call):
            await approve(ada, request)
            server.tokens.revoke("ada")
            here = await server.hub.decide(request.id, approved=True, by="ben", digest=request.digest)
            assert not here.ok
            assert "the token of ada is no longer in force" in here.message
            [again] = await until(server.hub.approvals)
            assert (again.given, call.done()) == ((), False)

    async def test_proposals_with_token_can_be_confirmed_without(self, tmp_path: Path) -> None:
        """An extension and a change that were proposed with a token can be confirmed without one."""
        async with waiting_deploy(tmp_path) as (server, ada, request, _):
            hub, session = server.hub, request.session
            assert (await ada.extend(request.id, seconds=3600)).ok
            assert (await hub.extend(request.id, seconds=3600, by="ben")).ok
            [longer] = await hub.approvals()
            assert longer.expires is not None
            assert request.expires is not None
            assert longer.expires > request.expires
            assert (await ada.toggle_net(session, NET, False, reason="a drill")).ok
            [change] = (await hub.session(session)).changes.values()
            confirmed = await hub.confirm_change(session, change.id, by="ben")
            assert confirmed.ok, confirmed.message
            assert NET not in (await hub.session(session)).active
