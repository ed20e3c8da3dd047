"""Requests of the Agent Approval Protocol at two servers of one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession

from interlock.app.hosting.approval_requests import ApprovalRequests
from interlock.app.hosting.http_listener import listening
from interlock.engine.gateway.aap.provider import (
    ApprovalProvider,
    ProviderUnavailableError,
    RequestConflictError,
)
from interlock.engine.gateway.aap.wire import CreateRequest, Outcome
from interlock.engine.gateway.cluster.shared_hub import SharedHub, open_hub
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.tokens import Identity, TokenFile
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.errors import JournalError
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.history.postgres.servers.clock import now
from interlock.engine.recording.protocol_requests import ProtocolRequest
from interlock.rules import compile_rules
from tests.engine.gateway.cluster.support.hubs import renews_no_more
from tests.engine.gateway.served import until

from .aap_server import RULES, submission


@dataclass
class Server:
    """One server as its client sees it."""

    hub: SharedHub
    provider: ApprovalProvider
    me: Identity

    async def create(self, key: str, tool: str = "deploy") -> ProtocolRequest:
        message = CreateRequest.model_validate(submission(tool))
        return (await self.provider.create(self.me, key, message))[0]

    async def status(self, request: ProtocolRequest, wait: float = 0.0) -> str | None:
        found = await self.provider.get(self.me, request.id, wait)
        return None if found.decision is None else found.decision.status

    async def asked(self, number: int) -> list[ApprovalState]:
        """The approval requests of sessions on this server, as soon as there are that many."""

        async def find() -> list[ApprovalState] | None:
            found = [each for each in await self.hub.approvals() if not self.hub.server_of(each.session)]
            return found if len(found) == number else None

        return await until(find)

    async def decide(self, request: ProtocolRequest) -> None:
        async def find() -> ApprovalState | None:
            found = await self.hub.approvals()
            return next((each for each in found if each.call_id == request.id), None)

        approval = await until(find)
        done = await self.hub.decide(approval.id, approved=True, by="ada", digest=approval.digest)
        assert done.ok, done.message
        assert await self.status(request, 20) == "approved"


@asynccontextmanager
async def server(location: PostgresLocation, tokens: TokenFile) -> AsyncGenerator[Server]:
    """A server that shares the database with others, as `interlock serve` creates it."""
    hub = await asyncio.to_thread(open_hub, location)
    assert isinstance(hub, SharedHub)
    rules = RuleSets.of(compile_rules(RULES).registry)
    gateway = Gateway(hub, tokens, rules=rules)
    provider = ApprovalProvider(gateway.sessions, tokens)
    hub.ended_with_server = provider.take
    try:
        await hub.share()
        await provider.start()
        [me] = [each.identity for each in tokens.tokens()]
        yield Server(hub, provider, me)
    finally:
        await provider.close()
        await gateway.close()
        await hub.close()


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.issue("agent", "bot")
    return tokens


class TestOtherServer:
    """Operations that a client requests from a server that does not have its session."""

    async def test_request_is_cancelled_at_another_server(
        self, postgresql: PostgresLocation, tokens: TokenFile
    ) -> None:
        """One request is cancelled. Others of its session stay open on their server."""
        async with server(postgresql, tokens) as here, server(postgresql, tokens) as there:
            one, other = await here.create("one"), await here.create("other")
            await here.asked(2)
            assert await there.status(one) is None
            ended = await there.provider.cancel(there.me, one.id)
            assert ended.decision is not None
            assert ended.decision.status == "cancelled"
            [left] = await here.asked(1)
            assert left.call_id == other.id
            assert await there.status(other) is None
            await here.decide(other)
            assert await there.status(other, 20) == "approved"

    async def test_approval_is_used_once_at_another_server(
        self, postgresql: PostgresLocation, tokens: TokenFile
    ) -> None:
        """An approval can be used and reported through another server. It cannot be used again."""
        async with server(postgresql, tokens) as here, server(postgresql, tokens) as there:
            made = await here.create("one")
            with pytest.raises(RequestConflictError) as early:
                await there.provider.consume(there.me, made.id, "use")
            assert early.value.code == "not_approved"
            await here.decide(made)
            used = await there.provider.consume(there.me, made.id, "use")
            assert used.used is not None
            assert (await here.provider.consume(here.me, made.id, "use")).used == used.used
            with pytest.raises(RequestConflictError) as again:
                await here.provider.consume(here.me, made.id, "another use")
            assert again.value.code == "already_consumed"
            outcome = Outcome.model_validate({"status": "failed", "note": "no space"})
            reported = await there.provider.report(there.me, made.id, outcome)
            assert reported.outcome is not None
            assert (reported.outcome.is_error, reported.outcome.note) == (True, "no space")
            assert (await here.provider.get(here.me, made.id)).outcome == reported.outcome
            assert await here.hub.has_elsewhere(made.session) is False

    async def test_outcome_without_note_is_reported_at_another_server(
        self, postgresql: PostgresLocation, tokens: TokenFile
    ) -> None:
        """A server passes an outcome on to the session's owner as its client sent it."""
        async with server(postgresql, tokens) as here, server(postgresql, tokens) as there:
            made = await here.create("one")
            await here.decide(made)
            await there.provider.consume(there.me, made.id, "use")
            outcome = Outcome.model_validate({"status": "succeeded"})
            reported = await there.provider.report(there.me, made.id, outcome)
            assert reported.outcome is not None
            assert (reported.outcome.is_error, reported.outcome.note) == (False, "")

    async def test_requests_of_a_conversation_share_a_session(
        self, postgresql: PostgresLocation, tokens: TokenFile
    ) -> None:
        """Requests of the same conversation belong to one session, whichever server receives them."""
        async with server(postgresql, tokens) as here, server(postgresql, tokens) as there:
            one = await here.create("one")
            other = await there.create("other")
            assert (other.session, await there.status(other)) == (one.session, None)
            assert (await there.create("other")).id == other.id
            await here.asked(2)
            for each in (one, other):
                await there.decide(each)
                assert await there.status(each, 20) == "approved"

    async def test_later_server_leaves_requests_unchanged(
        self, postgresql: PostgresLocation, tokens: TokenFile
    ) -> None:
        """A server that starts later leaves the requests of others unchanged."""
        async with server(postgresql, tokens) as here:
            made = await here.create("one")
            [before] = await here.asked(1)
            async with server(postgresql, tokens) as there:
                assert await there.status(made) is None
                assert [each.id for each in await here.asked(1)] == [before.id]
                await here.decide(made)

    async def test_unavailable_owner_returns_an_error(
        self, postgresql: PostgresLocation, tokens: TokenFile
    ) -> None:
        """If the owning server cannot act, the client gets an error and the request stays open."""
        async with server(postgresql, tokens) as here, server(postgresql, tokens) as there:
            made = await here.create("one")
            here.hub.request_actor = None
            with pytest.raises((JournalError, ProviderUnavailableError)):
                await there.provider.cancel(there.me, made.id)
            assert await here.status(made) is None


class TestTakenOver:
    async def test_open_request_moves_to_another_server(
        self, postgresql: PostgresLocation, tokens: TokenFile
    ) -> None:
        """A request moves to another server once its own ends; that server asks its operators again."""
        async with server(postgresql, tokens) as there:
            async with server(postgresql, tokens) as here:
                made, used = await here.create("one"), await here.create("two")
                await here.decide(used)
                await here.asked(1)
            await there.asked(1)
            await there.decide(made)
            assert await there.status(made, 20) == "approved"
            assert (await there.provider.consume(there.me, used.id, "use")).used is not None


class TestPaused:
    """A server that was paused for longer than its lease: others may have frozen the agents since."""

    @pytest.mark.parametrize("goes_on", [True, False], ids=["held again", "taken over"])
    async def test_paused_server_confirms_no_use(
        self, postgresql: PostgresLocation, tokens: TokenFile, goes_on: bool
    ) -> None:
        """Its client waits, or is told to try again, and never reads that its approval is used."""
        secret = tokens.rotate("bot")
        async with server(postgresql, tokens) as here:
            requests = ApprovalRequests(here.provider, here.hub, tokens, Limits())
            async with listening(Address(port=0), [requests], None, Limits()) as at:
                made = await here.create("one")
                await here.decide(made)
                await renews_no_more(here.hub)
                used = await here.provider.consume(here.me, made.id, "use")
                assert used.used is not None
                here.hub._lease._valid_until = 0.0
                headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "use"}
                url = f"http://{at}/v1/requests/{made.id}/consume"

                async def consume() -> int:
                    async with ClientSession(headers=headers) as client, client.post(url) as answer:
                        return answer.status

                again = asyncio.ensure_future(consume())
                await asyncio.wait([again], timeout=0.3)
                assert not again.done()
                if goes_on:
                    here.hub._lease._valid_until = now() + 60
                else:
                    here.hub._lease.end()
                assert await asyncio.wait_for(again, 5) == (200 if goes_on else 503)
