"""Attacks by clients without valid access. Each class is one attack."""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from interlock.engine.gateway import NotAdmittedError
from interlock.engine.gateway.protocol.agent_methods import HELLO, Hello
from interlock.engine.gateway.protocol.framing import request_frame
from interlock.engine.gateway.server import server
from interlock.engine.gateway.server.admission import SUBPROTOCOL
from interlock.engine.gateway.server.limits import Limits
from tests.support.certificates import certified

from ..served import Served, raw, served, until
from .stranger import PATIENCE, bearer, framed, let_in, stranger, upgrade


async def status(server: Served, request: bytes) -> int:
    """Return the status of the server's answer, or 0 if it only ends the connection."""
    async with stranger(server) as peer:
        await peer.send(request)
        head = await peer.head()
        return int(head.split()[1]) if head else 0


async def check_still_serves(server: Served) -> None:
    """Check that an agent's calls are still judged."""
    async with asyncio.timeout(PATIENCE), server.agent_client() as client, client.session("bot") as gate:
        assert (await gate.call("rm", {})).outcome == "block"
        assert (await gate.call("ls", {})).outcome == "allow"


class TestCrossSiteWebSocket:
    async def test_page_of_other_origin_is_refused(self, tmp_path: Path) -> None:
        """A browser's page is refused in spite of a valid token."""
        async with served(tmp_path) as server:
            for origin in ("https://evil.example", "null", f"http://{server.address}", "file://"):
                headers = bearer(server.ada), f"Origin: {origin}", f"Cookie: token={server.ada}"
                assert await status(server, upgrade(server, *headers, path="/console")) == 403
            offered = f"Sec-WebSocket-Protocol: bearer.{server.ada}"
            origin = "Origin: https://evil.example"
            assert await status(server, upgrade(server, offered, origin, path="/console")) == 403

    async def test_allowed_origin_still_needs_a_token(self, tmp_path: Path) -> None:
        """Only named origins with a token are accepted, and the answer does not repeat the token."""
        async with served(tmp_path, origins=["https://ops.example"]) as server:
            origin = "Origin: https://ops.example"
            assert await status(server, upgrade(server, origin, path="/console")) == 401
            async with stranger(server) as peer:
                offered = f"Sec-WebSocket-Protocol: bearer.{server.ada}"
                await peer.send(upgrade(server, origin, offered, path="/console"))
                head = await peer.head()
                assert " 101 " in head
                assert "Sec-WebSocket-Protocol: interlock.v1\r\n" in head
                assert server.ada not in head

    async def test_no_answer_is_readable_cross_origin(self, tmp_path: Path) -> None:
        """No answer allows another site to read it."""
        async with served(tmp_path) as server, stranger(server) as peer:
            await peer.send(upgrade(server, "Origin: https://evil.example"))
            assert "access-control" not in (await peer.head()).lower()


class TestDnsRebinding:
    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:{port}", "localhost", "", "127.0.0.1.evil.example:{port}"]
    )
    async def test_foreign_host_name_is_refused(self, tmp_path: Path, host: str) -> None:
        """A request with a foreign host name, as after DNS rebinding, is refused."""
        async with served(tmp_path) as server:
            host = host.format(port=server.address.port)
            request = upgrade(server, bearer(server.agent), host=host)
            assert await status(server, request) == 421

    async def test_configured_host_name_is_accepted(self, tmp_path: Path) -> None:
        """A host name that the operator configured is accepted."""
        async with served(tmp_path, hosts=["Gate.example:8737"]) as server:
            request = upgrade(server, bearer(server.agent), host="gate.EXAMPLE:8737")
            assert await status(server, request) == 101


class TestTokenGuessing:
    async def test_refused_even_on_loopback(self, tmp_path: Path) -> None:
        """A wrong token is refused, also on loopback and as a query parameter."""
        async with served(tmp_path) as server:
            for path in ("/agent", "/console"):
                assert await status(server, upgrade(server, path=path)) == 401
                for secret in ("x", server.agent[:-1], server.agent + "A", "ä", "\udcff" * 3):
                    request = upgrade(server, bearer(secret), path=path)
                    assert await status(server, request) in (400, 401)
            assert await status(server, upgrade(server, bearer(server.agent), path="/console")) == 403
            assert await status(server, upgrade(server, bearer(server.ada), path="/agent")) == 403
            assert await status(server, upgrade(server, path=f"/agent?token={server.agent}")) == 401

    async def test_repeated_wrong_tokens_must_wait(self, tmp_path: Path) -> None:
        """Repeated wrong tokens must wait; a valid token is accepted at the same time."""
        async with served(tmp_path, limits=Limits(failures=3)) as server:
            said = [await status(server, upgrade(server, bearer(f"guess-{n}"))) for n in range(6)]
            assert said == [401, 401, 401, 429, 429, 429]
            await check_still_serves(server)

    async def test_no_secret_in_any_log(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """No log contains a token, whether right, wrong or in a malformed header."""
        caplog.set_level(logging.DEBUG)
        for name in ("websockets", "interlock"):
            caplog.set_level(logging.DEBUG, logger=name)
        async with served(tmp_path) as server:
            wrong = "ilk_agent_" + "w" * 43
            await status(server, upgrade(server, bearer(wrong)))
            await status(server, upgrade(server, f"Authorization Bearer {wrong}"))
            await status(server, upgrade(server, f"Authorization: Bearer {wrong}\x00"))
            await status(server, b"GET /agent?token=%s HTTP/1.0\r\n\r\n" % wrong.encode())
            await check_still_serves(server)
            async with server.console() as console:
                await console.sessions()
            with pytest.raises(NotAdmittedError) as refused:
                await server.agent_client(wrong).link.open()
            assert wrong not in str(refused.value)
            for secret in (wrong, server.agent, server.ada):
                assert secret not in caplog.text
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


class TestBrokenHandshakes:
    async def test_broken_upgrade_is_refused(self, tmp_path: Path) -> None:
        """A broken upgrade request is refused, and the server continues."""
        async with served(tmp_path) as server:
            good = upgrade(server, bearer(server.agent))
            broken = [
                good.replace(b"Upgrade: websocket\r\n", b""),
                good.replace(b"Connection: Upgrade\r\n", b""),
                good.replace(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""),
                good.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"c2hvcnQ="),
                good.replace(b"Version: 13", b"Version: 8"),
                good.replace(b"Sec-WebSocket-Protocol: interlock.v1\r\n", b""),
                good.replace(b"interlock.v1", b"interlock.v9"),
                good.replace(b"GET", b"POST"),
                good.replace(b"HTTP/1.1", b"HTTP/0.9"),
                good.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 20_000 + b"\r\n\r\n"),
                good.replace(b"\r\n\r\n", b"\r\n" + b"X: y\r\n" * 200 + b"\r\n"),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100 + b"\r\n\r\n",
                b"\r\n\r\n\r\n\r\n",
                b"x" * 100_000,
            ]
            for request in broken:
                assert await status(server, request) not in (101, 200)
            await check_still_serves(server)

    async def test_other_paths_do_not_exist(self, tmp_path: Path) -> None:
        """Only `/agent` and `/console` exist."""
        async with served(tmp_path) as server:
            for path in ("/", "/agent/..", "//agent", "/console/x", "/%61gent", "/index.html"):
                assert await status(server, upgrade(server, bearer(server.agent), path=path)) == 404

    async def test_connection_without_greeting_is_closed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A connection that sends no greeting, or something else first, is closed."""
        monkeypatch.setattr(server, "GREETING", 0.2)
        async with served(tmp_path) as gate:
            async with stranger(gate) as peer:
                await let_in(gate, peer)
                assert await peer.closed_with() == 1008
            for first in (b'{"jsonrpc":"2.0","id":1,"method":"sessions.list"}', b"{}", b"\xff" * 4):
                async with stranger(gate) as peer:
                    await let_in(gate, peer)
                    await peer.send(framed(first))
                    assert await peer.closed_with() in (1002, 1007)
            await until(lambda: asyncio.sleep(0, not gate.gateway._connections))  # type: ignore[reportPrivateUsage]

    async def test_connection_without_tls_is_closed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A connection that does not start TLS is closed."""
        monkeypatch.setattr(server, "GREETING", 0.05)
        certificate, key = certified(tmp_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        async with served(tmp_path, tls=context) as gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", gate.address.port)
            async with asyncio.timeout(PATIENCE):
                assert await reader.read() == b""
            writer.close()

    async def test_no_common_version(self, tmp_path: Path) -> None:
        """A client of another version gets the server's version, and the connection is closed."""
        async with served(tmp_path) as server:
            headers = {"Authorization": f"Bearer {server.agent}"}
            async with connect(
                server.url + "/agent", additional_headers=headers, subprotocols=[SUBPROTOCOL]
            ) as socket:
                await socket.send(request_frame(HELLO, Hello(versions=(99,)), 0), text=True)
                assert "version 1" in str(await socket.recv())
                with pytest.raises(ConnectionClosed):
                    await socket.recv()

    async def test_silent_connections_do_not_keep_others_out(self, tmp_path: Path) -> None:
        """Many silent connections do not keep out a client with a token."""
        async with served(tmp_path, limits=Limits(strangers=8)) as server:
            silent = [await asyncio.open_connection("127.0.0.1", server.address.port) for _ in range(64)]
            for _, writer in silent:
                writer.write(b"GET /agent HTTP/1.1\r\nHost:")
            await check_still_serves(server)
            peers = server.gateway._peers  # type: ignore[reportPrivateUsage]
            await until(lambda: asyncio.sleep(0, len(peers.strangers) <= 8))
            for _, writer in silent:
                writer.transport.abort()
            await until(lambda: asyncio.sleep(0, not peers.strangers and not peers.inside))


class TestOversizedFrames:
    async def test_too_long_message_ends_its_connection(self, tmp_path: Path) -> None:
        """A message that is too long ends only its own connection."""
        async with served(tmp_path) as server, server.agent_client() as other:
            gate = await other.open("bot")
            async with raw(server, server.agent) as socket:
                await socket.send("x" * (server.gateway.limits.frame + 1))
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
            assert (await gate.call("ls", {})).outcome == "allow"

    async def test_limit_applies_to_fragmented_messages(self, tmp_path: Path) -> None:
        """The limit applies to the sum of a message's frames."""
        async with served(tmp_path) as server, stranger(server) as peer:
            await let_in(server, peer)
            await peer.send(framed(b"x" * 65_000, final=False))
            for _ in range(20):
                await peer.send(framed(b"x" * 65_000, opcode=0, final=False))
            assert await peer.closed_with() in (1009, None)
            await check_still_serves(server)

    async def test_huge_claimed_length_is_refused(self, tmp_path: Path) -> None:
        """A frame with a huge claimed length is refused at once."""
        async with served(tmp_path) as server, stranger(server) as peer:
            await let_in(server, peer)
            await peer.send(bytes([0x81, 0xFF]) + struct.pack("!Q", 2**62) + b"\0" * 4)
            assert await peer.closed_with() == 1009

    async def test_largest_accepted_call_is_judged(self, tmp_path: Path) -> None:
        """The largest accepted call is judged."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            text = "x" * (server.gateway.limits.frame - 500)
            answer = await gate.call("write", {"text": text})
            assert answer.input == {"text": text}


class TestMalformedFrames:
    @pytest.mark.parametrize(
        ("frame", "code"),
        [
            (framed(b"{}", masked=False), 1002),
            (framed(b"{}", bits=0x40), 1002),
            (framed(b"{}", opcode=3), 1002),
            (framed(b"{}", opcode=11), 1002),
            (framed(b"{}", opcode=0), 1002),
            (framed(b"x" * 126, opcode=9), 1002),
            (framed(b"x", opcode=9, final=False), 1002),
            (framed(b"x", opcode=8), 1002),
            (framed(struct.pack("!H", 1005), opcode=8), 1002),
            (framed(b"{", final=False) + framed(b"{}"), 1002),
        ],
        ids=[
            "not-masked",
            "reserved-bit",
            "unknown-opcode",
            "unknown-control",
            "continues-nothing",
            "long-ping",
            "ping-in-parts",
            "short-close",
            "forbidden-close",
            "text-within-text",
        ],
    )
    async def test_invalid_frame_ends_its_connection(
        self, tmp_path: Path, frame: bytes, code: int
    ) -> None:
        """An invalid frame ends its connection with the matching code."""
        async with served(tmp_path) as server, stranger(server) as peer:
            await let_in(server, peer)
            await peer.send(frame)
            assert await peer.closed_with() == code
            await check_still_serves(server)

    async def test_non_utf8_text_ends_its_connection(self, tmp_path: Path) -> None:
        """A text that is not UTF-8 ends its connection."""
        async with served(tmp_path) as server, raw(server, server.agent) as socket:
            await socket.send(b"\xff\xfe{}", text=True)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1007

    async def test_text_that_is_no_request_gets_an_error(self, tmp_path: Path) -> None:
        """A text that is no request gets an error, and the connection stays open."""
        async with served(tmp_path) as server, raw(server, server.agent) as socket:
            sent: list[str | bytes] = [
                "",
                "null",
                "[]",
                '[{"jsonrpc":"2.0","id":1,"method":"session.open"}]',
                '{"jsonrpc":"2.0","id":true,"method":"session.open"}',
                '{"jsonrpc":"2.0","id":1e999,"method":"session.open"}',
                '{"jsonrpc":"2.0","id":%s,"method":"session.open"}' % ("9" * 5000),
                '{"jsonrpc":"2.0","method":"session.open","params":{}}',
                '{"jsonrpc":"2.0","id":1,"method":"session.open","params":{"agent":"\\ud800"}}',
                '{"jsonrpc":"2.0","id":1,"method":"__init__"}',
                '{"jsonrpc":"2.0","id":1,"method":"session.open","params":{"agent":1}}',
                '{"jsonrpc":"2.0","id":1,"method":"session.open","params":{"agent":"a","by":"ada"}}',
                '{"jsonrpc":"2.0","id":1,"method":"tool.call","params":'
                + '{"a":' * 500
                + "1"
                + "}" * 501,
                "[" * 500_000,
                b"\x00\x01",
            ]
            for each in sent:
                await socket.send(each)
                async with asyncio.timeout(PATIENCE):
                    assert '"error"' in str(await socket.recv())
            assert await server.hub.sessions() == []
            await check_still_serves(server)

    async def test_partial_frame_connection_is_removed(self, tmp_path: Path) -> None:
        """A connection that ends in the middle of a frame is removed."""
        async with served(tmp_path) as server:
            async with stranger(server) as peer:
                await let_in(server, peer)
                await peer.send(framed(b"x" * 1000)[:500])
            await until(lambda: asyncio.sleep(0, not server.gateway._connections))  # type: ignore[reportPrivateUsage]


class TestTooManyConnections:
    async def test_connections_of_a_token_are_limited(self, tmp_path: Path) -> None:
        """The connections of each token are limited, and a closed one frees room."""
        async with served(tmp_path, limits=Limits(connections_per_token=2)) as server:
            async with raw(server, server.agent), raw(server, server.agent):
                with pytest.raises(InvalidStatus) as refused:
                    async with raw(server, server.agent):
                        pass
                assert refused.value.response.status_code == 503
                async with raw(server, server.other):
                    pass
            await until(lambda: asyncio.sleep(0, not server.gateway._connections))  # type: ignore[reportPrivateUsage]
            await check_still_serves(server)

    async def test_ungreeted_connections_count(self, tmp_path: Path) -> None:
        """A connection that has not greeted yet counts towards the limit."""
        async with (
            served(tmp_path, limits=Limits(connections_per_token=1)) as server,
            stranger(server) as peer,
        ):
            await let_in(server, peer)
            assert await status(server, upgrade(server, bearer(server.agent))) == 503
