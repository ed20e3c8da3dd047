"""Claims under attack: consoles that claim, release, decide and disconnect at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from interlock.engine.approvals import claims
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import (
    ApprovalClaimed,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalUnclaimed,
)
from interlock.engine.history.model.state import ApprovalState

from ..served import Served, served, until

RULES = "require human-approval before deploy"


@asynccontextmanager
async def served_consoles(
    directory: Path, consoles: int = 6
) -> AsyncGenerator[tuple[Served, AgentSession, list[ConsoleClient]]]:
    """Yield a server, an agent's session, and consoles of two operators in turn."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(served(directory, rules=RULES))
        agent = await stack.enter_async_context(server.agent_client())
        gate = await agent.open("bot")
        tokens = (server.ada, server.ben)
        desks = [await stack.enter_async_context(server.console(tokens[n % 2])) for n in range(consoles)]
        yield server, gate, desks


async def waiting_call(server: Served, gate: AgentSession) -> tuple[asyncio.Task[object], ApprovalState]:
    """Make a call that waits, and return it with its request."""
    going: asyncio.Task[object] = asyncio.create_task(gate.call("deploy", {}))
    return going, (await until(server.hub.approvals))[0]


async def check_record(server: Served, session: str) -> None:
    """Check the record: no request has two claims, and only its holder releases a claim."""
    holder: dict[str, str | None] = {}
    events = await server.hub.recorded(session)
    for event in events:
        body = event.body
        if isinstance(body, ApprovalRequested):
            holder[body.approval_id] = None
        elif isinstance(body, ApprovalClaimed):
            assert holder[body.approval_id] is None, f"{event.seq}: {holder}"
            holder[body.approval_id] = body.by
        elif isinstance(body, ApprovalUnclaimed):
            assert holder[body.approval_id] == body.by, f"{event.seq}: {holder}"
            holder[body.approval_id] = None
        elif isinstance(body, ApprovalDecided):
            del holder[body.approval_id]
    assert fold(events) == await server.hub.session(session)


async def unclaimed(server: Served) -> None:
    """Return once no waiting request is claimed."""

    async def free() -> bool:
        return all(each.claim is None for each in await server.hub.approvals())

    await until(free)


class TestAtOnce:
    async def test_simultaneous_claims_have_one_winner(self, tmp_path: Path) -> None:
        """Of several simultaneous claims one succeeds, and the others get the holder's name."""
        async with served_consoles(tmp_path) as (server, gate, desks):
            going, request = await waiting_call(server, gate)
            for _ in range(5):
                outcomes = await asyncio.gather(*(each.claim(request.id, by="") for each in desks))
                assert [each.ok for each in outcomes].count(True) == 1
                [claim] = [a.claim for a in await server.hub.approvals()]
                assert claim is not None
                assert {o.message for o in outcomes if not o.ok} == {f"{claim.by} has this already"}
                released = await asyncio.gather(*(d.unclaim(request.id, by="") for d in desks))
                assert [each.ok for each in released].count(True) == 1
            await check_record(server, gate.id)
            going.cancel()

    async def test_simultaneous_acts_leave_a_valid_record(self, tmp_path: Path) -> None:
        """Simultaneous claims, releases, comments and decisions leave a valid record and one decision."""
        async with served_consoles(tmp_path) as (server, gate, desks):
            for n in range(6):
                going, request = await waiting_call(server, gate)
                first, second, third, *others = desks
                await asyncio.gather(
                    first.claim(request.id, by=""),
                    second.claim(request.id, by=""),
                    first.unclaim(request.id, by=""),
                    third.claim(request.id, by=""),
                    second.comment(request.id, "mine", by=""),
                    *(each.unclaim(request.id, by="") for each in others),
                    *(
                        each.decide(request.id, approved=bool(n % 2), digest=request.digest)
                        for each in desks
                    ),
                )
                await going
                assert not (await first.claim(request.id, by="")).ok
            await check_record(server, gate.id)
            decided = [
                each
                for each in await server.hub.recorded(gate.id)
                if isinstance(each.body, ApprovalDecided)
            ]
            assert len(decided) == 6


class TestVanished:
    @pytest.mark.slow
    async def test_disconnect_during_claim_releases_it(self, tmp_path: Path) -> None:
        """A console that disconnects during its claim holds no claim in the end."""
        async with served_consoles(tmp_path, 0) as (server, gate, _):
            going, request = await waiting_call(server, gate)
            for n in range(12):
                console = server.console()
                await console.open()
                claiming = asyncio.ensure_future(console.claim(request.id, by=""))
                for _ in range(n):
                    await asyncio.sleep(0)
                await console.close()
                await asyncio.gather(claiming, return_exceptions=True)
                async with server.console(server.ben) as ben:

                    async def mine(ben: ConsoleClient = ben) -> bool:
                        return (await ben.claim(request.id, by="")).ok

                    await until(mine)
                await unclaimed(server)
            await check_record(server, gate.id)
            going.cancel()

    async def test_queued_claim_of_vanished_console_is_released(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A claim that was still queued when its console disconnected is released."""
        async with served_consoles(tmp_path, 0) as (server, gate, _):
            going, request = await waiting_call(server, gate)
            [hosted] = server.hub._live
            [waits] = hosted.questions.table.open.values()
            gone, console_gone = asyncio.Event(), server.hub.console_gone

            async def noted(console: str) -> None:
                await console_gone(console)
                gone.set()

            monkeypatch.setattr(server.hub, "console_gone", noted)
            console = server.console()
            await console.open()
            async with waits.turn:
                claiming = asyncio.ensure_future(console.claim(request.id, by=""))

                async def queued() -> bool:
                    return bool(waits.turn._waiters)

                await until(queued)
                await console.close()
                await asyncio.gather(claiming, return_exceptions=True)
                await gone.wait()

            async def claimed() -> bool:
                bodies = [each.body for each in await server.hub.recorded(gate.id)]
                return any(isinstance(each, ApprovalClaimed) for each in bodies)

            await until(claimed)
            await unclaimed(server)
            await check_record(server, gate.id)
            going.cancel()

    async def test_claim_ends_only_with_its_own_console(self, tmp_path: Path) -> None:
        """A claim ends with the console that made it, and not with another console."""
        async with served_consoles(tmp_path, 0) as (server, gate, _):
            going, request = await waiting_call(server, gate)
            async with server.console() as one:
                async with server.console() as two:
                    assert (await one.claim(request.id, by="")).ok
                    assert not (await two.claim(request.id, by="")).ok
                async with server.console(server.ben) as ben:
                    refused = await ben.claim(request.id, by="")
                    assert refused.message == "ada has this already"
            await unclaimed(server)
            await check_record(server, gate.id)
            going.cancel()


class TestTimeOver:
    @pytest.mark.slow
    async def test_expiry_among_other_acts_leaves_a_valid_record(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Claims that expire during claims, releases, disconnects and decisions leave a valid record."""
        monkeypatch.setattr(claims, "CLAIM", 0.01)
        async with served_consoles(tmp_path, 4) as (server, gate, desks):
            for _ in range(3):
                going, request = await waiting_call(server, gate)

                async def one(desk: ConsoleClient, n: int, request: ApprovalState = request) -> None:
                    for k in range(8):
                        await desk.claim(request.id, by="")
                        await asyncio.sleep(0.003 * ((n + k) % 5))
                        if (n + k) % 3 == 0:
                            await desk.unclaim(request.id, by="")

                async def vanishing(request: ApprovalState = request) -> None:
                    for _ in range(4):
                        async with server.console(server.ben) as console:
                            await console.claim(request.id, by="")

                await asyncio.gather(vanishing(), *(one(desk, n) for n, desk in enumerate(desks)))
                await unclaimed(server)
                deciding = [
                    each.decide(request.id, approved=True, digest=request.digest) for each in desks
                ]
                claiming = [each.claim(request.id, by="") for each in desks]
                outcomes = await asyncio.gather(*deciding, *claiming)
                assert [each.ok for each in outcomes[:4]].count(True) == 1
                await going
            await check_record(server, gate.id)
