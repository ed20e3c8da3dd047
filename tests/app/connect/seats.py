"""Consoles connected to a server on loopback, and a network between them that can be slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from textual.pilot import Pilot

from interlock.app.config.rules_compiler import LANGUAGE
from interlock.app.console.app import InterlockConsole
from interlock.app.hosting.server import HubStarter
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.sources.read_only import read_only
from interlock.app.terminal.key_rights import Permission
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.hub.api import AgentStarter, HubApi
from interlock.engine.hub.hub import Hub

from ...engine.gateway.served import Served
from ...engine.gateway.served import served as plainly_served


@asynccontextmanager
async def served(
    directory: Path, *, server_rules: Sequence[str] = (), **options: object
) -> AsyncGenerator[Served, None]:
    """A server that also reads rules and starts agents for consoles, as `interlock serve` does.

    `server_rules` are files that apply to every agent started there.
    """
    later = Later(server_rules)
    async with plainly_served(directory, starter=later, **options) as server:  # type: ignore[arg-type]
        server.hub.language = LANGUAGE
        later.hub = server.hub
        yield server


class Later:
    """Starts agents on a hub that is created later, under the server's rules."""

    hub: Hub

    def __init__(self, rules: Sequence[str]) -> None:
        self._rules = rules

    @cached_property
    def _starter(self) -> HubStarter:
        return HubStarter(self.hub, self._rules)

    def __getattr__(self, name: str) -> object:
        return getattr(self._starter, name)


class Seat:
    """An operator at a console."""

    def __init__(self, hub: HubApi, operator: str, permission: Permission | None = None) -> None:
        self.hub = hub
        self.operator = operator
        self.seconds = 0.0
        self.app = InterlockConsole(
            hub, operator=operator, permission=permission, quiet=0, monotonic=lambda: self.seconds
        )
        self.pilot: Pilot[None]

    @property
    def starter(self) -> AgentStarter:
        """The hub as an agent starter."""
        assert isinstance(self.hub, AgentStarter)
        return self.hub

    async def until(self, holds: Callable[[], object], look: float = 0.01) -> None:
        """Wait until `holds` returns something true; check every `look` seconds."""
        for _ in range(round(20 / look)):
            if holds():
                return
            await asyncio.sleep(look)
        raise AssertionError(f"it did not happen for {self.operator}:\n{self.painted()}")

    async def shows(self, *texts: str) -> str:
        # Painting a whole screen takes time that the awaited side needs.
        await self.until(lambda: all(text in self.painted() for text in texts), 0.05)
        return self.painted()

    async def at(self, screen: type) -> None:
        await self.until(lambda: isinstance(self.app.screen, screen))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self.pilot.press(*text)

    async def dialog(self) -> ApprovalScreen:
        """Wait for the request's dialog until its keys are active, and return it."""
        await self.at(ApprovalScreen)
        screen = self.app.screen
        assert isinstance(screen, ApprovalScreen)
        await self.until(lambda: screen._shown_at is not None)
        self.seconds += 1.0
        await self.until(lambda: screen.sleeps_for() == 0)
        return screen

    def painted(self) -> str:
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())


@asynccontextmanager
async def seated(
    hub: HubApi, operator: str, size: tuple[int, int] = (120, 40), permission: Permission | None = None
) -> AsyncGenerator[Seat, None]:
    """An operator at a console on `hub`."""
    seat = Seat(hub, operator, permission)
    async with seat.app.run_test(size=size, notifications=True) as pilot:
        seat.pilot = pilot
        yield seat


@asynccontextmanager
async def attached(
    server: Served,
    token: str | None = None,
    *,
    url: str | None = None,
    size: tuple[int, int] = (120, 40),
    only_reading: bool = False,
) -> AsyncGenerator[Seat, None]:
    """An operator at a connected console, connected as `hosting.attach` does."""
    client = ConsoleClient(url or server.url, token or server.ada, read_only=only_reading)
    try:
        operator = await client.open()
        hub = read_only(client) if client.rights == "look" else client
        permission = Permission(client.rights, None if only_reading else operator)
        async with seated(hub, operator, size, permission) as seat:
            app = seat.app
            client.connected = lambda _: app.post_message(app.ConnectionMoved(client.trouble))
            yield seat
    finally:
        await client.close()


class Between:
    """A network between consoles and a server: it delays the server's data and keeps a copy."""

    def __init__(self, port: int) -> None:
        self.late = 0.0
        self.sent = bytearray()
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, back]
        self._start(self._carry(reader, back, keep=False))
        self._start(self._carry(there, writer, keep=True))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, keep: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if keep:
                    self.sent += data
                    await asyncio.sleep(self.late)
                writer.write(data)
                await writer.drain()
        writer.close()

    def cut(self) -> None:
        """Cut all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers = []


@asynccontextmanager
async def between(server: Served) -> AsyncGenerator[tuple[Between, str], None]:
    """A network in front of a server, and its URL for consoles."""
    network = Between(server.address.port)
    near = await asyncio.start_server(network._meet, "127.0.0.1", 0)
    port = near.sockets[0].getsockname()[1]
    guard = server.gateway._guard
    server.gateway._guard = replace(guard, hosts=guard.hosts | {f"127.0.0.1:{port}"})
    try:
        yield network, f"ws://127.0.0.1:{port}"
    finally:
        near.close()
        network.cut()
        for task in list(network._tasks):
            task.cancel()
