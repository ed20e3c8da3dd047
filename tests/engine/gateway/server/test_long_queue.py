"""A console that connects to a server with a long queue, before it has read all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.engine.approvals.request_order import FIRST, Unread, in_order
from interlock.engine.gateway.client import console as console_client
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.agent_methods import SessionParams
from interlock.engine.gateway.protocol.console_methods import QUEUE, QueueLimit
from interlock.engine.gateway.server import console_handlers
from interlock.engine.gateway.server.connection import RequestHandler
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.history.model.state import SessionState

from ..served import Served, served, until

LONG = FIRST + 24
"""Requests of four sessions."""
RULES = "require human-approval before deploy"


@asynccontextmanager
async def waiting(
    directory: Path, number: int = LONG, *, text: str = ""
) -> AsyncGenerator[tuple[Served, list[AgentSession]]]:
    """Yield a server with this number of waiting requests."""
    async with served(directory, rules=RULES) as server, server.agent_client() as client:
        gates = [await client.open("bot") for _ in range(4)]
        calls = [
            asyncio.create_task(gates[n % 4].call("deploy", {"n": n, "text": text}))
            for n in range(number)
        ]

        async def all_wait() -> bool:
            return len(await server.hub.approvals()) == number

        await until(all_wait)
        yield server, gates
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def known_requests(console: ConsoleClient) -> int:
    """Return the number of waiting requests that the console knows."""
    return len(await console.approvals()) + console.unread().requests


class TestWhileItIsRead:
    """The console does not read the rest before the test ends."""

    @pytest.fixture
    def read(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Record the sessions whose states a console requests."""
        asked: list[str] = []
        usual = console_handlers.ConsoleHandlers._session  # pyright: ignore[reportPrivateUsage]

        async def noted(
            handlers: console_handlers.ConsoleHandlers, wanted: SessionParams
        ) -> SessionState:
            asked.append(wanted.session)
            return await usual(handlers, wanted)

        monkeypatch.setattr(console_handlers.ConsoleHandlers, "_session", noted)
        monkeypatch.setattr(console_client, "FIRST_PAINT", 3600.0)
        return asked

    @pytest.mark.slow
    async def test_first_requests_and_total_are_known(self, tmp_path: Path, read: list[str]) -> None:
        """The first requests in order and the total number are known at once, without a state."""
        async with waiting(tmp_path) as (server, _), server.console() as console:
            everything = await server.hub.approvals()
            assert in_order(await console.approvals()) == in_order(everything)[:FIRST]
            assert console.unread() == Unread(sessions=4, requests=LONG - FIRST)
            assert await console.sessions() == []
            assert read == []

    @pytest.mark.slow
    async def test_requested_session_is_read_separately(self, tmp_path: Path, read: list[str]) -> None:
        """A requested session is read separately, with its requests."""
        async with waiting(tmp_path) as (server, gates), server.console() as console:
            assert await console.session(gates[2].id) == await server.hub.session(gates[2].id)
            assert read == [gates[2].id]
            assert await known_requests(console) == LONG
            assert console.unread().sessions == 3

    @pytest.mark.slow
    async def test_new_request_is_listed_and_counted(self, tmp_path: Path, read: list[str]) -> None:
        """A new request is notified, listed and counted although other sessions are unread."""
        async with waiting(tmp_path) as (server, gates), server.console() as console:
            heard = console.subscribe()
            going = asyncio.create_task(gates[1].call("deploy", {"n": "late"}))
            async with asyncio.timeout(10):
                async for event in heard:
                    if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                        break
            listed = {each.id for each in await console.approvals()}
            assert event.body.approval_id in listed
            assert await known_requests(console) == LONG + 1
            assert read == [gates[1].id]
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    @pytest.mark.slow
    async def test_decided_request_leaves_list_and_count(self, tmp_path: Path, read: list[str]) -> None:
        """A decided request leaves the list and the number, whether it was listed or not."""
        async with waiting(tmp_path) as (server, _), server.console() as console:
            everything = in_order(await server.hub.approvals())
            for left, request in ((LONG - 1, everything[0]), (LONG - 2, everything[-1])):
                outcome = await console.decide(request.id, approved=False, digest=request.digest)
                assert outcome.ok, outcome.message

                async def gone(left: int = left) -> bool:
                    return await known_requests(console) == left

                await until(gone)
                assert request.id not in {each.id for each in await console.approvals()}
            assert len(set(read)) <= 2


@pytest.mark.slow
class TestOnceItIsRead:
    async def test_console_equals_the_hub(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After reading, the console has all sessions and requests of the hub."""
        monkeypatch.setattr(console_client, "FIRST_PAINT", 0.0)
        async with waiting(tmp_path) as (server, _), server.console() as console:

            async def all_read() -> bool:
                return console.unread() == Unread()

            await until(all_read)
            assert await console.approvals() == await server.hub.approvals()
            assert await console.sessions() == await server.hub.sessions()


class TestServers:
    async def test_server_of_older_version(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server of an older version without the method is read as before."""
        usual = console_handlers.ConsoleHandlers.handler

        def older(handlers: console_handlers.ConsoleHandlers, method: str) -> RequestHandler | None:
            return None if method == QUEUE.name else usual(handlers, method)

        monkeypatch.setattr(console_handlers.ConsoleHandlers, "handler", older)
        async with waiting(tmp_path, 5) as (server, _), server.console() as console:

            async def all_read() -> bool:
                return await console.approvals() == await server.hub.approvals()

            await until(all_read)
            assert console.unread() == Unread()

    @pytest.mark.slow
    async def test_large_requests_are_sent_in_smaller_numbers(self, tmp_path: Path) -> None:
        """With large requests fewer are sent first, and the number still covers all of them."""
        async with waiting(tmp_path, 4, text="word " * 40_000) as (server, _):
            async with server.console() as console:
                queue = await console.link.ask(QUEUE, QueueLimit())
            assert [each.id for each in queue.first] == [
                each.id for each in in_order(await server.hub.approvals())[: len(queue.first)]
            ]
            assert 1 <= len(queue.first) < 4
            assert sum(number for _, number in queue.waiting) == 4
