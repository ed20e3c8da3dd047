"""A server proves that it knows the client's token before the client sends it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.engine.gateway.client.agent import AgentClient
from interlock.engine.gateway.client.connection import GatewayError, NotAdmittedError, UnreachableError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.hooks.websocket import GoneError, HookError, NotLetInError, prove
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.protocol.server_proof import NONCE_HEADER, PATH, TOKEN_HEADER, ProofRequest
from interlock.engine.gateway.server.limits import Limits

from ..served import Served, served

SECRET = "ilk_agent_a-secret-of-somebody"


@asynccontextmanager
async def listening(answer: Callable[[bytes], bytes]) -> AsyncGenerator[tuple[str, list[bytes]], None]:
    """Yield the URL of a stranger in a server's place, and a list of the requests it gets."""
    heard: list[bytes] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(heard[-1]))
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with listener:
        yield f"ws://127.0.0.1:{listener.sockets[0].getsockname()[1]}", heard


def page(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def proof_answer(server: Served, lines: dict[str, str]) -> tuple[int, str]:
    """Return the server's answer to a proof request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"GET {PATH} HTTP/1.1\r\n{head}\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split()[1]), answer.partition("\r\n\r\n")[2].strip()


def question(secret: str, host: str, nonce: str = "0" * 64) -> dict[str, str]:
    """Return the headers of docs/protocol.md, computed without the tested code."""
    key = hashlib.sha256(secret.encode()).digest()
    name = hmac.new(key, b"interlock name", hashlib.sha256).hexdigest()[:32]
    return {"Host": host, TOKEN_HEADER: name, NONCE_HEADER: nonce}


class TestClients:
    @pytest.mark.parametrize(
        "answer",
        [
            lambda _: b"\x00" * 100_000,
            lambda _: b"SSH-2.0-x\r\n",
            lambda _: page("200 OK", ""),
            lambda _: page("200 OK", "0" * 64),
            lambda asked: page("200 OK", asked.decode().split("Nonce: ")[1][:64]),
            lambda _: page("404 Not Found", "Connect to /agent or /console"),
            lambda _: page("401 Unauthorized", "This token is not known here"),
            lambda _: b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        ],
    )
    async def test_send_no_token_without_proof(self, answer: Callable[[bytes], bytes]) -> None:
        """A stranger without the proof gets no token from agents, consoles and hooks."""
        async with listening(answer) as (url, heard):
            for client in (AgentClient(url, SECRET, patience=0.0), ConsoleClient(url, SECRET)):
                with pytest.raises(NotAdmittedError, match="not sent"):
                    await client.link.open()
            with pytest.raises(NotLetInError, match="not sent"):
                await asyncio.to_thread(prove, url, SECRET, time.monotonic() + 5.0)
            assert len(heard) == 3
            for each in heard:
                assert SECRET.encode() not in each
                assert b"Authorization" not in each
                assert hashlib.sha256(SECRET.encode()).hexdigest().encode() not in each

    @pytest.mark.parametrize(
        "answer",
        [
            lambda _: b"",
            lambda _: b"HT",
            lambda _: b"HTTP/1.1 200 OK\r\nContent-Le",
            lambda _: page("200 OK", "0" * 64)[:-1],
            lambda _: page("401 Unauthorized", "This token is not known here")[:-5],
        ],
    )
    async def test_truncated_answer_is_a_lost_connection(self, answer: Callable[[bytes], bytes]) -> None:
        """A truncated answer is a lost connection, not a refusal, and the token is not sent."""
        async with listening(answer) as (url, heard):
            for client in (AgentClient(url, SECRET, patience=0.0), ConsoleClient(url, SECRET)):
                with pytest.raises(UnreachableError, match="lost"):
                    await client.link.open()
            with pytest.raises(GoneError, match="lost"):
                await asyncio.to_thread(prove, url, SECRET, time.monotonic() + 5.0)
            assert len(heard) == 3
            assert all(SECRET.encode() not in each for each in heard)

    async def test_unavailable_server_counts_as_unreachable(self) -> None:
        """A server that is temporarily unavailable counts as unreachable, not as a stranger."""
        async with listening(lambda _: page("503 Service Unavailable", "later")) as (url, _):
            with pytest.raises(UnreachableError, match="later"):
                await AgentClient(url, SECRET, patience=0.0).link.open()
            with pytest.raises(GoneError, match="later"):
                await asyncio.to_thread(prove, url, SECRET, time.monotonic() + 5.0)

    async def test_every_request_has_another_nonce(self) -> None:
        """Every proof request has another nonce, so that a recorded answer is useless."""
        texts = {ProofRequest(SECRET, "h:1").text for _ in range(50)}
        assert len(texts) == 50

    async def test_silent_server_ends_at_the_deadline(self) -> None:
        """A silent server ends the attempt at its deadline."""
        listener = await asyncio.start_server(lambda r, w: asyncio.sleep(60), "127.0.0.1", 0)
        async with listener:
            url = f"ws://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            with pytest.raises(HookError, match="does not answer"):
                await asyncio.to_thread(prove, url, SECRET, time.monotonic() + 0.2)

    async def test_real_server_proves_itself(self, tmp_path: Path) -> None:
        """A real server proves itself to every kind of client."""
        async with served(tmp_path) as server, server.agent_client() as agent, server.console():
            assert agent.link.welcome is not None
            await asyncio.to_thread(prove, server.url, server.agent, time.monotonic() + 5.0)


class TestServer:
    async def test_proof_equals_the_documented_one(self, tmp_path: Path) -> None:
        """The proof equals the documented one, and only for valid tokens."""
        async with served(tmp_path) as server:
            host, key = f"127.0.0.1:{server.address.port}", hashlib.sha256(server.agent.encode())
            made = hmac.new(key.digest(), f"interlock proof {host} {'0' * 64}".encode(), hashlib.sha256)
            assert await proof_answer(server, question(server.agent, host)) == (200, made.hexdigest())
            server.tokens.revoke("bot")
            assert (await proof_answer(server, question(server.agent, host)))[0] == 401
            with pytest.raises(GatewayError, match="does not know this token"):
                await server.agent_client().link.open()

    async def test_request_for_another_host_is_refused(self, tmp_path: Path) -> None:
        """A proof request for another host is refused, so that a stranger cannot relay it."""
        async with served(tmp_path) as server:
            port = server.address.port
            for host in ("127.0.0.1:1", f"localhost:{port}", f"[::1]:{port}", "example.com", ""):
                status, said = await proof_answer(server, question(server.agent, host))
                assert status == 421, said

    async def test_relay_on_another_local_address_gets_no_token(self, tmp_path: Path) -> None:
        """A relay on the same port of another local address gets no token."""
        async with served(tmp_path, address=Address("127.0.0.2", 0)) as server:
            heard = bytearray()

            async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                own_reader, own_writer = await asyncio.open_connection("127.0.0.2", server.address.port)
                asked_for = await reader.readuntil(b"\r\n\r\n")
                heard.extend(asked_for)
                own_writer.write(asked_for)
                writer.write(await own_reader.read())
                writer.close()
                own_writer.close()

            port = server.address.port
            async with await asyncio.start_server(pass_on, "127.0.0.1", port):
                for host in ("127.0.0.1", "localhost"):
                    client = AgentClient(f"ws://{host}:{port}", server.agent, patience=1.0)
                    with pytest.raises(NotAdmittedError, match="not sent"):
                        await client.link.open()
            assert heard.count(b"GET /proof") == 2
            assert server.agent.encode() not in heard

    @pytest.mark.parametrize("nonce", ["", "0" * 63, "0" * 65, "g" * 64, "A" * 64, "0" * 5000])
    async def test_invalid_nonce_is_refused(self, tmp_path: Path, nonce: str) -> None:
        """A proof request with an invalid nonce is refused."""
        async with served(tmp_path) as server:
            host = f"127.0.0.1:{server.address.port}"
            assert (await proof_answer(server, question(server.agent, host, nonce)))[0] == 400

    async def test_request_of_a_browser_page_is_refused(self, tmp_path: Path) -> None:
        """A proof request from a browser's page is refused."""
        async with served(tmp_path) as server:
            host = f"127.0.0.1:{server.address.port}"
            lines = question(server.agent, host) | {"Origin": f"http://{host}"}
            assert (await proof_answer(server, lines))[0] == 400

    async def test_unknown_token_names_count_as_wrong_tokens(self, tmp_path: Path) -> None:
        """Unknown token names count as wrong tokens, and a valid token is still accepted."""
        async with served(tmp_path, limits=Limits(failures=3)) as server:
            host = f"127.0.0.1:{server.address.port}"
            wrong = [(await proof_answer(server, question(f"wrong-{n}", host)))[0] for n in range(5)]
            assert wrong == [401, 401, 401, 429, 429]
            assert (await proof_answer(server, question(server.agent, host)))[0] == 200
