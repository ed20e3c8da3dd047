"""Clients that reconnect: with a rotated token, and although a stranger listened in the meantime."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from interlock.engine.gateway.client import agent as agent_module
from interlock.engine.gateway.client import connection as link
from interlock.engine.gateway.client import console as console_module
from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.client.connection import (
    NotAdmittedError,
    RequestFailedError,
    UnreachableError,
)
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol import silence

from ..protocol.test_server_proof import page
from ..served import served, until


def write_secret(path: Path, secret: str) -> None:
    path.write_text(secret)
    path.chmod(0o600)


class TestARotatedToken:
    @pytest.mark.slow
    async def test_console_rereads_its_token_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A console that read its token from a file reads it again and reconnects."""
        file = tmp_path / "operator.token"
        monkeypatch.setattr(console_module, "operator_token_file", lambda: file)
        monkeypatch.delenv("INTERLOCK_TOKEN", raising=False)
        async with served(tmp_path) as server:
            write_secret(file, server.ada)
            address = server.address
            console = ConsoleClient(server.url)
            assert await console.open() == "ada"
            new = server.tokens.rotate("ada", overlap=0)
        write_secret(file, new)
        assert console.trouble is not None
        async with served(tmp_path, address=address):
            await until(lambda: asyncio.sleep(0, console.trouble is None))
            await console.close()

    @pytest.mark.slow
    async def test_agent_rereads_its_token_file_only(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An agent with a token file resumes its session; one with a token as an argument is refused."""
        file = tmp_path / "agent.token"
        monkeypatch.setattr(agent_module, "agent_token_file", lambda: file)
        monkeypatch.delenv("INTERLOCK_TOKEN", raising=False)
        async with served(tmp_path) as server:
            write_secret(file, server.agent)
            address = server.address
            agent, given = AgentClient(server.url, patience=10.0), server.agent_client()
            gate, other = await agent.open("robin"), await given.open("robin")
            new = server.tokens.rotate("bot", overlap=0)
        write_secret(file, new)
        async with served(tmp_path, address=address):
            assert (await gate.call("ls", {})).outcome == "allow"
            with pytest.raises(NotAdmittedError, match="not sent"):
                await other.call("ls", {})
            await agent.close()
            await given.close()


class TestAStrangerMeanwhile:
    async def test_stranger_delays_but_does_not_fail_agent(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A stranger on the server's port delays a connected agent, but does not make it fail."""
        monkeypatch.setattr(link, "LONGEST_PAUSE", 0.05)
        async with served(tmp_path) as server:
            address, secret = server.address, server.agent
            agent = AgentClient(server.url, secret, patience=10.0)
            gate = await agent.open("robin")
        heard: list[bytes] = []

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(page("200 OK", "0" * 64))
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(meet, address.host, address.port):
            call = asyncio.ensure_future(gate.call("ls", {}))
            await until(lambda: asyncio.sleep(0, len(heard) >= 2))
            assert not call.done()
        async with served(tmp_path, address=address):
            assert (await call).outcome == "allow"
            await agent.close()
        assert all(secret.encode() not in each for each in heard)

    @pytest.mark.slow
    async def test_never_connected_agent_is_refused_at_once(self, tmp_path: Path) -> None:
        """An agent that was never connected gets the refusal at once."""
        async with served(tmp_path) as server:
            url = server.url
            with pytest.raises(NotAdmittedError, match="not sent"):
                await AgentClient(url, "ilk_agent_of-another-server", patience=60.0).link.open(60.0)


class TestSeveralServers:
    async def test_silent_server_is_skipped(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If a server accepts the connection and stays silent, the client connects to the next one."""
        monkeypatch.setattr(link, "GREETING", 3600.0)
        monkeypatch.setattr(link, "NEXT_SERVER", 0.05)
        left = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            left.set()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as gone, served(tmp_path) as server:
            port = gone.sockets[0].getsockname()[1]
            agent = AgentClient(f"ws://127.0.0.1:{port},{server.url}", server.agent)
            async with asyncio.timeout(60):
                gate = await agent.open("robin")
                assert agent.link.url == server.url
                assert (await gate.call("ls", {})).outcome == "allow"
                await left.wait()
            await agent.close()

    async def test_error_names_one_unreachable_server(self) -> None:
        """If all servers are unreachable, the error names the URL of one of them."""
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            urls = [f"ws://127.0.0.1:{each.getsockname()[1]}" for each in (one, two)]
        agent = AgentClient(",".join(urls), "ilk_agent_some-token-of-an-agent", patience=0.0)
        with pytest.raises(UnreachableError, match="No Interlock server answers at ws://"):
            await agent.open("robin")

    async def test_refusal_tries_no_other_server(self, tmp_path: Path) -> None:
        """If the first server refuses a client, the client gets the error and tries no other server."""
        async with served(tmp_path) as server:
            with socket.create_server(("127.0.0.1", 0)) as other:
                other.setblocking(False)
                url = f"{server.url},ws://127.0.0.1:{other.getsockname()[1]}"
                with pytest.raises(NotAdmittedError, match="not sent"):
                    await AgentClient(url, "ilk_agent_of-another-server").open("robin")
                with pytest.raises(BlockingIOError):
                    other.accept()


class TestARequestThatCannotBeRead:
    async def test_error_without_id_ends_pending_requests(self, tmp_path: Path) -> None:
        """An error without a request id ends the wait of the requests under way."""
        async with (
            served(tmp_path, rules="require human-approval before deploy\n") as server,
            server.agent_client() as client,
        ):
            gate = await client.open("robin")
            call = asyncio.ensure_future(gate.call("deploy", {}))
            await until(server.hub.approvals)
            assert client.link._socket is not None
            await client.link._socket.send("no JSON", text=True)
            with pytest.raises(RequestFailedError):
                await call
            assert (await gate.call("ls", {})).outcome == "allow"


class TestAServerThatVanishes:
    async def test_system_keepalive_is_enabled(self, tmp_path: Path) -> None:
        """The operating system checks a silent connection and breaks it if the server does not respond.

        `tests/crash/test_network.py` drops packets.
        """
        async with served(tmp_path) as server, server.console() as console:
            assert console.link._socket is not None
            connection: socket.socket = console.link._socket.transport.get_extra_info("socket")
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                patience = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert patience == silence.SECONDS * 1000
