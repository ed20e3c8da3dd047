"""Raw bytes on a socket, for input that no library sends."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from ..served import Served

PATIENCE = 20.0
"""Seconds after which a server counts as unresponsive."""


class Stranger:
    """A TCP connection to a server, with access to its answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes; a closed connection is no error."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def head(self) -> str:
        """Return the answer's status line and headers, or an empty text without an answer."""
        async with asyncio.timeout(PATIENCE):
            try:
                return (await self.reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError):
                return ""

    async def closed_with(self) -> int | None:
        """Return the code of the server's closing frame, or `None` if it only ends the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                while True:
                    opcode, size = await self.reader.readexactly(2)
                    size &= 0x7F
                    if size == 126:
                        (size,) = struct.unpack("!H", await self.reader.readexactly(2))
                    payload = await self.reader.readexactly(size)
                    if opcode & 0x0F == 8:
                        return int(struct.unpack("!H", payload[:2])[0])
            except (asyncio.IncompleteReadError, ConnectionError):
                return None


@asynccontextmanager
async def stranger(served: Served) -> AsyncGenerator[Stranger, None]:
    """Yield a TCP connection on which nothing was sent."""
    reader, writer = await asyncio.open_connection(served.address.host, served.address.port)
    try:
        yield Stranger(reader, writer)
    finally:
        writer.transport.abort()


def upgrade(served: Served, *headers: str, path: str = "/agent", host: str | None = None) -> bytes:
    """Return a request for an upgrade to a WebSocket."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {served.address if host is None else host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: interlock.v1",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def bearer(secret: str) -> str:
    return f"Authorization: Bearer {secret}"


async def let_in(served: Served, peer: Stranger) -> None:
    """Upgrade a connection to an agent's WebSocket."""
    await peer.send(upgrade(served, bearer(served.agent)))
    assert " 101 " in await peer.head()


def framed(
    payload: bytes, *, opcode: int = 1, final: bool = True, masked: bool = True, bits: int = 0
) -> bytes:
    """Return a valid or invalid frame of the WebSocket protocol."""
    first = bytes([(0x80 if final else 0) | bits | opcode])
    flag = 0x80 if masked else 0
    size = len(payload)
    if size < 126:
        length = bytes([flag | size])
    elif size < 65536:
        length = bytes([flag | 126]) + struct.pack("!H", size)
    else:
        length = bytes([flag | 127]) + struct.pack("!Q", size)
    if not masked:
        return first + length + payload
    mask = os.urandom(4)
    repeated = mask * (size // 4 + 1)
    covered = bytes(a ^ b for a, b in zip(payload, repeated, strict=False))
    return first + length + mask + covered
