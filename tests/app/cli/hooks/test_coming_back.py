"""A hook that connects while its server is restarting."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from interlock.app.cli.hooks import server as hook_server
from interlock.engine.gateway.hooks.websocket import GoneError
from tests.engine.gateway.mcp.proxy import proxy, through
from tests.engine.gateway.served import served, until


class TestAServerThatIsStartedAgain:
    async def test_is_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Connections that break before the first request are retried until a server answers."""
        came: list[str] = []
        prove = hook_server.prove

        def counted(url: str, token: str, until: float) -> None:
            came.append(url)
            prove(url, token, until)

        monkeypatch.setattr(hook_server, "prove", counted)
        async with proxy() as network, served(tmp_path, hosts=[network.name]) as server:
            environ, latest = {"INTERLOCK_TOKEN": server.agent}, time.monotonic() + 20.0
            hook = asyncio.ensure_future(
                asyncio.to_thread(hook_server._client, network.url, latest, environ)
            )
            await until(lambda: asyncio.sleep(0, len(came) >= 3))
            assert not hook.done()
            through(network, server)
            client = await hook
            assert client.frame > 0
            client.close()

    async def test_absent_server_fails_the_connection(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If no server answers in time, connecting fails."""
        monkeypatch.setattr(hook_server, "CONNECT_TIMEOUT", 0.3)

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listener:
            url = f"ws://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            environ = {"INTERLOCK_TOKEN": "ilk_agent_somebody"}
            with pytest.raises(GoneError, match="lost"):
                await asyncio.to_thread(hook_server._client, url, time.monotonic() + 5.0, environ)
