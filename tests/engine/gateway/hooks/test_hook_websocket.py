"""The small WebSocket client of hooks, against servers that follow the standard and others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve, unix_serve
from websockets.typing import Subprotocol

from interlock.engine.gateway.hooks.websocket import HookError, HookSocket, LateError, NoServerError

Serving = Callable[[ServerConnection], Awaitable[None]]


async def echo(peer: ServerConnection) -> None:
    async for message in peer:
        await peer.send(message)


@asynccontextmanager
async def listening(serving: Serving) -> AsyncGenerator[str, None]:
    async with serve(
        serving,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol("interlock.v1")],
        compression=None,
        max_size=None,
    ) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def near_deadline(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def exchange(url: str, *texts: str, patience: float = 10.0) -> list[str]:
    """Send each text and return the answers."""
    connection = HookSocket(url, "token", near_deadline())
    answers: list[str] = []
    try:
        for text in texts:
            connection.send(text, near_deadline())
            answers.append(connection.receive(near_deadline(patience)))
    finally:
        connection.close()
    return answers


class TestFrames:
    @pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1 << 20])
    async def test_every_frame_length_is_read(self, size: int) -> None:
        """Texts of every class of frame length arrive unchanged."""
        text = "é" * (size // 2) + "x" * (size % 2)
        async with listening(echo) as url:
            assert await asyncio.to_thread(exchange, url, text) == [text]

    async def test_fragments_are_joined_and_pings_answered(self) -> None:
        """A text in several frames is joined, and pings between the frames are answered."""

        async def serving(peer: ServerConnection) -> None:
            await peer.recv()
            pong = await peer.ping()

            async def parts() -> AsyncGenerator[str, None]:
                yield "one, "
                await pong
                yield "two, "
                yield "three"

            # The connection reads the pong itself while it sends.
            await peer.send(parts())
            await peer.wait_closed()

        async with listening(serving) as url:
            connection = await asyncio.to_thread(HookSocket, url, "token", near_deadline())
            connection.send("go", near_deadline())
            assert await asyncio.to_thread(connection.receive, near_deadline()) == "one, two, three"
            connection.close()

    async def test_unix_socket(self, tmp_path: Path) -> None:
        """The client connects to a server at a Unix socket."""
        path = tmp_path / "s"
        async with unix_serve(echo, str(path), subprotocols=[Subprotocol("interlock.v1")]):
            assert await asyncio.to_thread(exchange, f"unix:{path}", "hi") == ["hi"]

    async def test_binary_message_is_an_error(self) -> None:
        """A binary message raises an error."""

        async def serving(peer: ServerConnection) -> None:
            await peer.recv()
            await peer.send(b"\x00")
            await peer.wait_closed()

        async with listening(serving) as url:
            with pytest.raises(HookError, match="something other than text"):
                await asyncio.to_thread(exchange, url, "hi")

    async def test_close_reason_is_in_the_error(self) -> None:
        """The error contains the server's reason for closing the connection."""

        async def serving(peer: ServerConnection) -> None:
            await peer.recv()
            await peer.close(1008, "the token is no longer valid")

        async with listening(serving) as url:
            with pytest.raises(HookError, match="no longer valid"):
                await asyncio.to_thread(exchange, url, "hi")

    async def test_silent_server_ends_at_the_deadline(self) -> None:
        """A silent server raises an error at the deadline."""

        async def serving(peer: ServerConnection) -> None:
            await peer.wait_closed()

        async with listening(serving) as url:
            with pytest.raises(LateError):
                await asyncio.to_thread(exchange, url, "hi", patience=0.05)

    async def test_single_bytes_do_not_extend_the_deadline(self) -> None:
        """A server that sends single bytes does not extend the deadline."""

        async def serve_slowly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    writer.write(b"H")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            except ConnectionError:
                writer.close()

        server = await asyncio.start_server(serve_slowly, "127.0.0.1", 0)
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            with pytest.raises(LateError):
                await asyncio.to_thread(HookSocket, url, "token", near_deadline(0.2))
        finally:
            server.close()

    async def test_missing_server_differs_from_silent_one(self, tmp_path: Path) -> None:
        """A missing server raises another error than a silent one."""
        for url in ("ws://127.0.0.1:9", f"unix:{tmp_path}/none"):
            with pytest.raises(NoServerError):
                await asyncio.to_thread(HookSocket, url, "token", near_deadline())

    @pytest.mark.parametrize("token", ["a\r\nX: y", "ä", "\x00"])
    async def test_invalid_token_is_not_sent(self, token: str) -> None:
        """A token with characters that a header cannot hold is not sent."""
        async with listening(echo) as url:
            with pytest.raises(HookError, match="token"):
                await asyncio.to_thread(HookSocket, url, token, near_deadline())
