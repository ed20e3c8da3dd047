"""Receivers of streams on loopback: syslog over UDP, TCP and TLS, and a web server for posts."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from interlock.app.hosting.audit import streams
from interlock.app.hosting.audit.streams import AuditStream
from interlock.app.hosting.audit.target import Target
from interlock.engine.history.audit.stream import LineFormat, RecordStream
from interlock.engine.history.audit.stream_check import StreamCheck, check_stream
from interlock.engine.history.audit.stream_positions import FilePositions
from interlock.engine.history.journal.reader import open_reader

MESSAGE = re.compile(rb"<(\d+)>1 (\S+) (\S+) interlock (\d+) (\S+) - (\{.*\})", re.DOTALL)


async def until(found: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    for _ in range(2000):
        if found():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def checked(messages: list[bytes]) -> StreamCheck:
    """The check of the received messages."""
    return check_stream([("received", messages)])


@dataclass
class Syslog:
    """The received messages, over TCP in frames; `cut` ends all connections."""

    messages: list[bytes] = field(default_factory=list[bytes])
    port: int = 0
    connections: int = 0
    reads: bool = True
    _cut: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while self.reads:
                size = int(await reader.readuntil(b" "))
                self.messages.append(await reader.readexactly(size))
            await self._cut.wait()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def cut(self) -> None:
        self._cut.set()
        for writer in list(self._writers):
            writer.transport.abort()


@asynccontextmanager
async def tcp(syslog: Syslog, context: ssl.SSLContext | None = None) -> AsyncGenerator[Syslog]:
    """Listen during the block, at the same port as before, if any."""
    server = await asyncio.start_server(syslog.serve, "127.0.0.1", syslog.port, ssl=context)
    syslog.port = server.sockets[0].getsockname()[1]
    try:
        yield syslog
    finally:
        server.close()
        syslog.cut()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, messages: list[bytes]) -> None:
        self._messages = messages

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._messages.append(data)


@asynccontextmanager
async def datagrams(where: Path | None = None) -> AsyncGenerator[Syslog]:
    """Receive datagrams during the block, over UDP or a local socket at a path."""
    syslog = Syslog()
    made = socket.socket(socket.AF_INET if where is None else socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    made.bind(("127.0.0.1", 0) if where is None else str(where))
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(syslog.messages), sock=made)
    syslog.port = 0 if where is not None else made.getsockname()[1]
    try:
        yield syslog
    finally:
        transport.close()


@dataclass
class Posts:
    """A web server for posts; `failures` are its first answers, as statuses with headers."""

    failures: list[tuple[int, dict[str, str]]] = field(default_factory=list[tuple[int, dict[str, str]]])
    largest: int = 1 << 30
    taken: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    port: int = 0
    asked: int = 0

    @property
    def lines(self) -> list[bytes]:
        return [line for _, body in self.taken for line in body.splitlines(keepends=True)]

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        body = await request.read()
        if self.failures:
            status, headers = self.failures.pop(0)
            return web.Response(status=status, headers=headers)
        if len(body) > self.largest:
            return web.Response(status=413)
        self.taken.append((dict(request.headers), body))
        return web.Response(status=204)


@asynccontextmanager
async def posts(receiver: Posts, context: ssl.SSLContext | None = None) -> AsyncGenerator[Posts]:
    """Answer during the block, at the same port as before, if any."""
    application = web.Application(client_max_size=1 << 30)
    application.router.add_post("/in", receiver.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", receiver.port, ssl_context=context, reuse_address=True)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


@dataclass
class Sending:
    """A running stream and the messages for its owner."""

    stream: AuditStream
    heard: list[str]


@asynccontextmanager
async def sending(
    journal: Path, target: Target, form: LineFormat | None = None, name: str = "s"
) -> AsyncGenerator[Sending]:
    """Send a journal's record during the block, and the rest at its end, without long pauses."""
    heard: list[str] = []
    source = RecordStream(open_reader(journal), FilePositions(journal, name), "start")
    stream = AuditStream(
        "the receiver", source, target, form or LineFormat("events", None), heard.append, pause=0.01
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streams, "EVERY", 0.01)
        patched.setattr(streams, "WATCHED_EVERY", 0.01)
        task = asyncio.get_running_loop().create_task(stream.run())
        try:
            yield Sending(stream, heard)
        finally:
            stream.end()
            async with asyncio.timeout(20):
                await task
