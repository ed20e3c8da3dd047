"""Bytes on a socket, for what no library would send."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from ..served import Served

PATIENCE = 20.0
"""Seconds after which a server counts as hanging."""


class Stranger:
    """A TCP connection to a server, and what came back on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes; that nobody takes them any more is no error here."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def head(self) -> str:
        """The answer's status line and headers; empty when there was none."""
        async with asyncio.timeout(PATIENCE):
            try:
                return (await self.reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError):
                return ""

    async def closed_with(self) -> int | None:
        """The code of the closing frame with which the server ends; `None` when it only hangs up."""
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
    """A TCP connection that has said nothing yet."""
    reader, writer = await asyncio.open_connection(served.address.host, served.address.port)
    try:
        yield Stranger(reader, writer)
    finally:
        writer.transport.abort()


def upgrade(served: Served, *headers: str, path: str = "/agent", host: str | None = None) -> bytes:
    """A request to become a WebSocket."""
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
    """Make an agent's WebSocket of a connection, by hand."""
    await peer.send(upgrade(served, bearer(served.agent)))
    assert " 101 " in await peer.head()


def framed(
    payload: bytes, *, opcode: int = 1, final: bool = True, masked: bool = True, bits: int = 0
) -> bytes:
    """A frame of the WebSocket protocol, right or wrong."""
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
