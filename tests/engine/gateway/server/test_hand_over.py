"""Two consoles at a server hand a request over: claims, comments, readers and a revoked approval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy

from ..served import Served, served, until

RULES = "require human-approval before deploy risk high"


@asynccontextmanager
async def two_consoles(
    directory: Path,
) -> AsyncGenerator[tuple[Served, ConsoleClient, ConsoleClient, str]]:
    """Yield a server with a waiting deploy, two consoles and the request's id."""
    async with (
        served(directory, rules=RULES) as server,
        server.agent_client() as agent,
        server.console() as ada,
        server.console(server.ben) as ben,
    ):
        gate = await agent.open("bot")
        call = asyncio.ensure_future(gate.call("deploy", {}, call_id="d1"))
        [request] = await until(ada.approvals)
        await until(ben.approvals)
        try:
            yield server, ada, ben, request.id
        finally:
            call.cancel()


async def request_of(console: ConsoleClient) -> ApprovalState:
    [request] = await console.approvals()
    return request


class TestTwoConsoles:
    async def test_see_a_claim_end_with_its_console(self, tmp_path: Path) -> None:
        """The claim has the token's name, whatever the client sends, and ends with the connection."""
        async with two_consoles(tmp_path) as (server, ada, ben, request):
            assert (await ada.claim(request, by="mallory")).ok

            async def claimed() -> bool:
                claim = (await request_of(ben)).claim
                return claim is not None and claim.by == "ada"

            await until(claimed)
            await ada.close()

            async def free() -> bool:
                return (await request_of(ben)).claim is None

            await until(free)
            assert (await server.hub.approvals())[0].claim is None

    async def test_see_comments_and_readers(self, tmp_path: Path) -> None:
        """A console shows the other's comment and reader, and so does a later console."""
        async with two_consoles(tmp_path) as (server, ada, ben, request):
            assert (await ada.comment(request, "yours?", by="", to="ben")).ok
            await ada.note_reading(request, True, by="")

            async def seen() -> bool:
                shown = await request_of(ben)
                return bool(shown.comments) and shown.readers == ("ada",)

            await until(seen)
            async with server.console(server.ben) as later:

                async def seen_later() -> bool:
                    return (await request_of(later)).readers == ("ada",)

                await until(seen_later)
            await ada.note_reading(request, False, by="")

            async def gone() -> bool:
                return (await request_of(ben)).readers == ()

            await until(gone)

    async def test_take_an_approval_back(self, tmp_path: Path) -> None:
        """An operator takes another's approval back before the call runs."""
        async with two_consoles(tmp_path) as (server, ada, ben, request):
            [hosted] = server.hub._live
            hosted.questions.table.policy = ApprovalPolicy(fuse=3600.0)
            shown = await request_of(ada)
            assert (await ada.decide(request, approved=True, digest=shown.digest)).ok

            async def burns() -> bool:
                return (await request_of(ben)).fuse is not None

            await until(burns)
            outcome = await ben.take_back(request, by="")
            assert outcome.message == "deploy: ben took back the approval of ada"

            async def open_again() -> bool:
                shown = await request_of(ada)
                return (shown.fuse, shown.taken_back) == (None, "ben")

            await until(open_again)

    async def test_read_only_consoles_cannot_take_part(self, tmp_path: Path) -> None:
        """A read-only console cannot claim, comment, take back or be shown as a reader."""
        async with two_consoles(tmp_path) as (server, _, _, request):
            async with ConsoleClient(server.url, server.ada, read_only=True) as looks:
                outcomes = [
                    await looks.claim(request, by=""),
                    await looks.comment(request, "x", by=""),
                    await looks.take_back(request, by=""),
                ]
                assert not any(each.ok for each in outcomes)
                refused = await asyncio.gather(
                    looks.note_reading(request, True, by=""), return_exceptions=True
                )
                assert isinstance(refused[0], Exception)
            shown = (await server.hub.approvals())[0]
            assert (shown.claim, shown.comments, shown.readers) == (None, (), ())
