"""One token on many connections: its work is limited for all of them together."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from interlock.engine.gateway.protocol import server_proof
from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.gateway.server.limits import Limits
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.gateway.server.socket import Peer

from ..served import raw, served, until
from .test_attacks_inside import ASKS, ask, code, request


class TestManyConnections:
    """The limits of a token apply to all its connections together."""

    async def test_jobs_beyond_the_limit_are_refused(self, tmp_path: Path) -> None:
        """Jobs beyond the limit are refused with the remedy; another token's are not."""
        backtest = {"rules": {"a.rules": "block rm"}}
        async with served(tmp_path, limits=Limits(jobs_per_token=2)) as server, AsyncExitStack() as stack:
            ada = [await stack.enter_async_context(raw(server, server.ada, "/console")) for _ in range(3)]
            ben = await stack.enter_async_context(raw(server, server.ben, "/console"))
            for socket in (*ada[:2], ben):
                assert code(await ask(socket, "backtest.run", **backtest)) is None
            refused = (await ask(ada[2], "backtest.run", **backtest)).error
            assert refused is not None
            assert (refused.code, refused.data) == (Code.LIMIT, {"limit": 2})
            assert "wait until one ends, or close the console that started it" in refused.message
            assert code(await ask(ada[0], "job.end", job=1)) is None
            assert code(await ask(ada[2], "backtest.run", **backtest)) is None
            await ada[1].close()

            async def has_room() -> bool:
                return code(await ask(ada[0], "backtest.run", **backtest)) is None

            await until(has_room)

    async def test_ended_jobs_do_not_count(self, tmp_path: Path) -> None:
        """A job that ended or failed no longer counts."""
        async with (
            served(tmp_path, limits=Limits(jobs_per_token=1)) as server,
            raw(server, server.ada, "/console") as socket,
        ):
            # This server reads no rules, so the job fails.
            failing = await ask(socket, "backtest.run", rules={"a.rules": "block rm"})
            counting = await ask(socket, "approvals.statistics")
            assert (code(failing), code(counting)) == (None, Code.LIMIT)
            assert code(await ask(socket, "job.next", job=1)) == Code.PARAMS
            assert code(await ask(socket, "approvals.statistics")) is None

            async def ended() -> bool:
                found = (await ask(socket, "job.next", job=2)).result
                assert isinstance(found, dict)
                return not any(found.values())

            await until(ended)
            assert code(await ask(socket, "approvals.statistics")) is None

    async def test_waiting_calls_count_together(self, tmp_path: Path) -> None:
        """Waiting calls count together, also if several wait for the same call."""
        limits = Limits(calls_per_token=3)
        async with (
            served(tmp_path, rules=ASKS, limits=limits) as server,
            server.agent_client(server.other) as client,
            client.session("other") as theirs,
            AsyncExitStack() as stack,
        ):
            agents = [await stack.enter_async_context(raw(server, server.agent)) for _ in range(4)]
            await ask(agents[0], "session.open", agent="bot", session="s")
            given = {"session": "s", "call": "c1", "tool": "deploy", "input": {}}
            for socket in agents[:3]:
                await socket.send(json.dumps(request("tool.call", 1, **given)))
            [usage] = [
                each
                for token, each in server.gateway._usage.items()  # type: ignore[reportPrivateUsage]
                if token == server.tokens.find(server.agent).token  # type: ignore[union-attr]
            ]
            await until(lambda: asyncio.sleep(0, usage.calls == 3))
            refused = (await ask(agents[3], "tool.call", **given)).error
            assert refused is not None
            assert refused.code == Code.LIMIT
            assert "on all its connections 3 calls" in refused.message
            assert "withdraw some" in refused.message
            assert (await theirs.call("ls", {})).outcome == "allow"
            await ask(agents[3], "tool.withdraw", session="s", call="c1", reason="x")
            await until(lambda: asyncio.sleep(0, usage.calls == 0))
            assert (
                code(await ask(agents[3], "tool.call", **{**given, "call": "c2", "tool": "ls"})) is None
            )

    async def test_threaded_requests_are_limited(self, tmp_path: Path) -> None:
        """A token's requests at work in threads are limited; others wait, and other tokens continue."""
        limits = Limits(at_work_per_token=2)
        at_work, most, go_on = 0, 0, asyncio.Event()

        async def slow(session: str, *_: object) -> str:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await go_on.wait()
            at_work -= 1
            return session

        async with (
            served(tmp_path, limits=limits) as server,
            server.agent_client(server.other) as client,
            client.session("other") as theirs,
            AsyncExitStack() as stack,
        ):
            agents = [await stack.enter_async_context(raw(server, server.agent)) for _ in range(4)]
            await ask(agents[0], "session.open", agent="bot", session="s")
            with patch.object(server.hub, "system_prompt", slow):
                for socket in agents:
                    for number in (1, 2):
                        await socket.send(json.dumps(request("session.prompt", number, session="s")))
                await until(lambda: asyncio.sleep(0, at_work == 2))
                assert (await theirs.explain("ls", {})).outcome == "allow"
                go_on.set()
                for socket in agents:
                    assert [json.loads(await socket.recv())["id"] for _ in (1, 2)] == [1, 2]
            assert most == 2


class TestSockets:
    """Each client opens a socket for the server's proof, so hundreds may close in a second."""

    async def test_answered_socket_is_freed_without_gc(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An answered socket is freed without a garbage collection."""
        # Recorded log entries would keep their sockets.
        caplog.set_level(logging.ERROR, f"{Gateway.__module__}.sockets")

        def peers() -> list[Peer]:
            return [each for each in gc.get_objects() if isinstance(each, Peer)]

        async def none_is_left() -> bool:
            return not {id(each) for each in peers()} - {id(each) for each in others}

        async with served(tmp_path) as server:
            assert server.gateway.address is not None
            gc.collect()
            others = peers()  # from other tests
            gc.disable()
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.gateway.address.port)
                writer.write(f"GET {server_proof.PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                assert (await reader.read()).startswith(b"HTTP/1.1 ")
                writer.close()
                async with asyncio.timeout(20):
                    await until(none_is_left)
            finally:
                gc.enable()
