"""An HTTP listener cuts slow, excessive and oversized clients, and serves the others."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from interlock.app.hosting.certificate import Certificate
from interlock.app.hosting.http_connections import admit
from interlock.app.hosting.http_listener import listening
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.gateway.server.limits import Limits
from tests.engine.gateway.served import until
from tests.support.certificates import certified

from .aap_server import AapServer, aap_server

SOON = Limits(head=0.3, body=0.3, stalled=0.4)
"""Short limits, so that a test need not wait for long."""
LONG = 60.0
MUCH = 64 << 20


class Part:
    """A path that admits clients with a token, and others with a large and a late answer."""

    title = "a part"
    path = "/"

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self._answer), web.get("/much", self._much), web.get("/wait", self._wait)]

    def listens_at(self, address: Address) -> None:
        """Ignore the address."""

    async def _answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer good":
            return web.Response(status=401)
        admit(request)
        return web.Response(text="ok")

    async def _much(self, _: web.Request) -> web.Response:
        return web.Response(body=b"x" * MUCH)

    async def _wait(self, _: web.Request) -> web.Response:
        await asyncio.sleep(1.0)
        return web.Response(text="waited")


@asynccontextmanager
async def part(limits: Limits, certificate: Certificate | None = None) -> AsyncGenerator[Address]:
    """A listener with one part."""
    async with listening(Address(port=0), [Part()], certificate, limits) as address:
        yield address


async def connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection without any sent data."""
    return await asyncio.open_connection(address.host, address.port)


async def is_cut(reader: asyncio.StreamReader) -> bool:
    """Wait until the server has closed the connection."""
    async with asyncio.timeout(LONG):
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
    return True


async def status(reader: asyncio.StreamReader) -> bytes:
    """The first line of the answer."""
    async with asyncio.timeout(LONG):
        return await reader.readline()


async def ask(address: Address, token: str = "good", path: str = "/") -> int:
    """The status of a request over a new connection."""
    async with httpx.AsyncClient(trust_env=False, timeout=LONG) as client:
        answer = await client.get(f"http://{address}{path}", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


class TestSlowClients:
    async def test_idle_connection_is_cut(self) -> None:
        """A connection without a request is cut after the time for a head."""
        async with part(SOON) as address:
            reader, writer = await connect(address)
            assert await is_cut(reader)
            writer.close()

    @pytest.mark.slow
    async def test_slow_head_is_cut(self) -> None:
        """A connection that sends its head byte by byte is cut, too, while others are answered."""
        async with part(SOON) as address:
            reader, writer = await connect(address)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")

            async def trickle() -> None:
                while True:
                    writer.write(b"X-A: b\r\n")
                    await asyncio.sleep(0.02)

            going = asyncio.create_task(trickle())
            assert await ask(address) == 200
            assert await is_cut(reader)
            going.cancel()

    @pytest.mark.slow
    async def test_second_head_has_the_same_limit(self) -> None:
        """After an answer the same time limit applies to the next head, even if nothing is sent."""
        async with part(SOON) as address:
            for more in (b"", b"GET / HT"):
                reader, writer = await connect(address)
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + more)
                assert await status(reader) == b"HTTP/1.1 401 Unauthorized\r\n"
                assert await is_cut(reader)
                writer.close()

    @pytest.mark.slow
    async def test_client_that_does_not_read_is_cut(self) -> None:
        """A client that does not read its answer is cut."""
        async with part(SOON) as address:
            reader, writer = await connect(address)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(SOON.stalled * 2)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            size = 0
            with suppress(ConnectionError):
                while data := await reader.read(1 << 16):
                    size += len(data)
            assert size < MUCH
            writer.close()

    @pytest.mark.slow
    async def test_waiting_client_is_not_cut(self) -> None:
        """The answer to a complete request may take longer than a head."""
        async with part(SOON) as address:
            assert await ask(address, path="/wait") == 200

    @pytest.mark.slow
    async def test_tls_connection_without_a_request_is_cut(self, tmp_path: Path) -> None:
        """A connection without a handshake, or without a request after it, is cut, too."""
        certificate = Certificate(*certified(tmp_path))
        anywhere = Address(host="0.0.0.0", port=0)
        async with listening(anywhere, [Part()], certificate, SOON) as address:
            reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
            assert await is_cut(reader)
            writer.close()
            context = ssl.create_default_context(cafile=tmp_path / "cert.pem")
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", address.port, ssl=context, server_hostname="127.0.0.1"
            )
            assert await is_cut(reader)
            writer.close()


class TestManyClients:
    async def test_limit_for_one_address(self) -> None:
        """Beyond its limit an address's connections are cut, until earlier ones are authenticated."""
        limits = replace(Limits(), strangers_per_address=3)
        async with part(limits) as address:
            kept = [await connect(address) for _ in range(3)]
            reader, _ = await connect(address)
            assert await is_cut(reader)
            for reader, writer in kept:
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
                assert await status(reader) == b"HTTP/1.1 200 OK\r\n"
            assert await ask(address) == 200
            assert await ask(address, "bad") == 401
            for _, writer in kept:
                writer.close()

    async def test_wrong_token_still_counts_as_a_stranger(self) -> None:
        """A client with a wrong token still counts as a stranger."""
        async with part(replace(Limits(), strangers_per_address=1)) as address:
            reader, writer = await connect(address)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n\r\n")
            assert await status(reader) == b"HTTP/1.1 401 Unauthorized\r\n"
            other, _ = await connect(address)
            assert await is_cut(other)
            writer.close()

    async def test_limit_for_strangers(self) -> None:
        """Beyond the limit the oldest stranger is cut. Admitted connections stay."""
        async with part(replace(Limits(), strangers=2)) as address:
            known, writer = await connect(address)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
            assert await status(known) == b"HTTP/1.1 200 OK\r\n"
            first, _ = await connect(address)
            others = [await connect(address) for _ in range(2)]
            assert await is_cut(first)
            for reader, other in [(known, writer), *others]:
                other.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
                async with asyncio.timeout(LONG):
                    await reader.readuntil(b"HTTP/1.1 200 OK\r\n")
                other.close()

    async def test_limit_in_total(self) -> None:
        """The total number of connections is limited, including admitted ones, until one closes."""
        async with part(replace(Limits(), connections=1)) as address:
            reader, writer = await connect(address)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
            assert await status(reader) == b"HTTP/1.1 200 OK\r\n"
            other, _ = await connect(address)
            assert await is_cut(other)
            writer.close()
            await writer.wait_closed()

            async def found() -> bool:
                with suppress(httpx.TransportError):
                    return await ask(address) == 200
                return False

            assert await until(found)


class TestBodies:
    @pytest.fixture
    async def server(self, tmp_path: Path) -> AsyncGenerator[AapServer]:
        async with aap_server(tmp_path, limits=replace(Limits(), body=0.3, frame=4096)) as server:
            yield server

    def _head(self, server: AapServer, size: int) -> bytes:
        return (
            f"POST /v1/requests HTTP/1.1\r\nHost: {server.address}\r\n"
            f"Authorization: Bearer {server.served.agent}\r\nContent-Length: {size}\r\n\r\n"
        ).encode()

    @pytest.mark.slow
    async def test_missing_body_is_refused_in_time(self, server: AapServer) -> None:
        """A body that does not arrive in time is refused with an error of the protocol."""
        reader, writer = await connect(server.address)
        writer.write(self._head(server, 1000) + b"{")
        assert await status(reader) == b"HTTP/1.1 408 Request Timeout\r\n"
        assert await is_cut(reader)

    @pytest.mark.slow
    async def test_oversized_body_is_refused(self, server: AapServer) -> None:
        """A body that is too large is refused without waiting for the rest."""
        reader, writer = await connect(server.address)
        writer.write(self._head(server, 1 << 30) + b"x" * 8000)
        assert await status(reader) == b"HTTP/1.1 413 Request Entity Too Large\r\n"
        assert await is_cut(reader)
        writer.close()

    @pytest.mark.slow
    async def test_body_without_a_valid_token_is_not_awaited(self, server: AapServer) -> None:
        """Without a valid token the server does not wait for a body."""
        reader, writer = await connect(server.address)
        head = self._head(server, 1000).replace(server.served.agent.encode(), b"ilk_x")
        writer.write(head)
        assert await status(reader) == b"HTTP/1.1 401 Unauthorized\r\n"
        assert await is_cut(reader)
        writer.close()
