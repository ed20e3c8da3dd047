"""The gate over WebSocket: round trips compared with a bare echo, a console's latency, and memory.

Servers, including the echo, and clients have a process each, and the frames are the same. A gate whose
journal writes nothing shows the cost of the gate alone; the durable one is the product. A server that
only parses, decides and answers shows the minimum cost of a gate.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, suppress
from importlib.util import find_spec
from statistics import median, quantiles
from typing import TypeVar

from interlock.engine.gateway.client.agent import AgentClient, AgentSession

from .gateway_load import Client, Server, clients, console, rate, server
from .gateway_server import run
from .terminal import Terminal

CLIENTS: Mapping[int, int] = {1: 100, 10: 400, 100: 1_000, 1_000: 1_000}
"""Number of clients, and the number of round trips that they make together in one turn."""
TURNS = 3
AGENTS = 1_000
CONSOLES = 10
CONSOLE_CALLS = 1_000
STALLED_CALLS = 5_500
"""Calls of two events each: more than a server queues for a slow console."""
PAINTS = 12
AWAKE = 0.6
LEAST = {"echo": "bare echo", "least": "the same with nothing but parse, decide and answer"}
JOURNALS = {
    "unwritten": "without a journal's writes",
    "unsynced": "not waiting for the disk",
    "durable": "durable",
}
BETWEEN = {"least", "unsynced"}
"""Servers that break down the remaining time.

Not measured with a thousand clients, which mostly spend the time on connecting.
"""

Line = tuple[str, float, str]
T = TypeVar("T")


def measure() -> Iterator[Line]:
    """Measure rates, consoles, memory, and the time until an operator sees a request."""
    with ExitStack() as processes:
        servers = _servers(processes, "asyncio")
        for number, trips in CLIENTS.items():
            asked = [name for name in servers if number < AGENTS or name not in BETWEEN]
            yield from _finished(_rates({name: servers[name] for name in asked}, number, trips))
    if find_spec("uvloop") is None:
        yield "the same on uvloop", float("nan"), "not installed: pip install 'interlock[fast]'"
    else:
        with ExitStack() as processes:
            servers = _servers(processes, "uvloop")
            yield from _finished(_rates(servers, 100, CLIENTS[100], ", uvloop"), "uvloop")
    yield from _finished(_consoles())
    yield from _finished(_stalled())
    yield from _finished(_memory())
    yield from _painted()


def _finished(work: Coroutine[None, None, T], loop: str = "asyncio") -> T:
    """Run a measurement with the clients on this loop, and return its result."""
    found: list[T] = []

    async def finish() -> None:
        found.append(await work)

    run(finish(), loop)
    return found[0]


def _servers(processes: ExitStack, loop: str) -> dict[str, Server]:
    """Start one server of each kind; they run until `processes` are ended."""
    found = {name: processes.enter_context(server(f"{name}_server", loop=loop)) for name in LEAST}
    for journal in JOURNALS:
        found[journal] = processes.enter_context(server("gateway_server", journal, loop=loop))
    return found


async def _rates(servers: Mapping[str, Server], number: int, trips: int, more: str = "") -> list[Line]:
    """Measure calls that are allowed at once, alternating with the same number of echoes."""
    seen: dict[str, list[float]] = {}
    worked: dict[str, float] = {}
    async with AsyncExitStack() as connected:
        every = {
            name: await connected.enter_async_context(clients(to, number)) for name, to in servers.items()
        }
        for _ in range(TURNS):
            for name, asking in every.items():
                before = servers[name].worked()
                seen.setdefault(name, []).append(await rate(asking, trips))
                worked[name] = worked.get(name, 0.0) + servers[name].worked() - before
    who = f"{number:,} {'client' if number == 1 else 'clients'}{more}"
    echo = median(seen["echo"])
    lines = [(f"bare echo, {who}", echo, "round trips per s")]
    if "least" in seen:
        least = median(seen["least"])
        lines += [
            (f"{LEAST['least']}, {who}", least, "round trips per s"),
            ("of the echo", least / echo, "ratio"),
        ]
    for journal in (each for each in JOURNALS if each in seen):
        found = median(seen[journal])
        goal = " (goal ≥ 0.5)" if journal == "unwritten" else ""
        lines += [
            (f"gate, {who}, {JOURNALS[journal]}", found, "round trips per s"),
            ("of the echo", found / echo, f"ratio{goal}"),
        ]
    asked = max(1, trips // number) * number * TURNS
    for name, seconds in worked.items():
        words = LEAST[name] if name in LEAST else f"gate, {JOURNALS[name]}"
        lines.append(
            (f"server's processor time, {who}, {words}", seconds / asked * 1e6, "µs a round trip")
        )
    return lines


async def _consoles() -> list[Line]:
    """Measure the cost of consoles that receive all events: a server with them and one without."""
    rates: dict[str, list[float]] = {"alone": [], "watched": []}
    worked = dict.fromkeys(rates, 0.0)
    with ExitStack() as processes:
        to = {name: processes.enter_context(server("gateway_server", "durable")) for name in rates}
        watched = to["watched"]
        watching = server("gateway_consoles", str(watched.port), watched.operator, str(CONSOLES))
        processes.enter_context(watching)
        async with clients(to["alone"], 100) as alone, clients(watched, 100) as beside:
            for _ in range(TURNS):
                for name, every in (("alone", alone), ("watched", beside)):
                    before = to[name].worked()
                    rates[name].append(await rate(every, CONSOLE_CALLS))
                    worked[name] += to[name].worked() - before
    found = median(rates["watched"])
    each = {name: seconds / (TURNS * CONSOLE_CALLS) * 1e6 for name, seconds in worked.items()}
    return [
        (f"durable gate, 100 clients, {CONSOLES} consoles", found, "round trips per s"),
        ("of the same without consoles", found / median(rates["alone"]), "ratio"),
        (f"server's processor time with {CONSOLES} consoles", each["watched"], "µs a round trip"),
        ("the same without consoles", each["alone"], "µs a round trip"),
    ]


async def _stalled() -> list[Line]:
    """Measure the cost of a console that reads nothing: for the agents, and in the server's memory."""
    with server("gateway_server", "unsynced") as to:
        async with clients(to, 100) as every:
            await rate(every, 1_000)
            before = to.memory()
            alone = await rate(every, STALLED_CALLS)
            between = to.memory()
            async with console(to.port, to.operator):
                stalled = await rate(every, STALLED_CALLS)
                after = to.memory()
    added = (after - between) - (between - before)
    return [
        ("gate with a console that stalls / without", stalled / alone, "ratio"),
        (f"memory it adds in {STALLED_CALLS:,} calls", added / 1e6, "MB"),
    ]


async def _memory() -> list[Line]:
    """Measure a server's memory for idle agents, and for agents that wait for an operator."""
    with server("echo_server") as echo:
        async with clients(echo, 50):
            before = echo.memory()
            async with clients(echo, AGENTS):
                bare = echo.memory() - before
    with server("gateway_server", "durable") as to:
        async with clients(to, 50) as first:
            await rate(first, 500)
            before = to.memory()
            async with clients(to, AGENTS) as agents:
                idle = to.memory() - before
                asked = await _all_wait(to, agents)
                waiting = to.memory() - before - idle
                asked.cancel()
                with suppress(asyncio.CancelledError):
                    await asked
    return [
        ("memory per bare connection", bare / AGENTS / 1024, "KiB"),
        ("memory per connected agent with a session", idle / AGENTS / 1024, "KiB"),
        (f"memory for {AGENTS:,} agents that wait for approval", waiting / 1e6, "MB (goal < 60)"),
        ("the same with their connections and sessions", (idle + waiting) / 1e6, "MB"),
    ]


async def _all_wait(to: Server, agents: list[Client]) -> asyncio.Future[list[str]]:
    """Make every agent wait for an operator; return once a console was notified of all of them."""
    async with console(to.port, to.operator) as told:
        asked = asyncio.gather(*(agent.call("deploy") for agent in agents))
        left = len(agents)
        while left:
            left -= '"approval.requested"' in await told.recv(decode=True)
    return asked


def _painted() -> Iterator[Line]:
    """Measure from an agent's call to the dialog in a console on a real terminal.

    Both are connected to a server.
    """
    took: list[float] = []
    with server("gateway_server", "durable") as to, _Agent(to) as agent:
        os.environ["INTERLOCK_TOKEN"] = to.operator
        command = [sys.executable, "-m", "interlock.app.cli", "console", "--connect", to.url]
        with Terminal(command) as terminal:
            del os.environ["INTERLOCK_TOKEN"]
            terminal.wait_for("bench")
            time.sleep(1.0)
            for number in range(PAINTS):
                begun = agent.ask(f"ticket-{number:04d}")
                # It is quoted in the dialog; the queue and the transcript show it unquoted.
                took.append(terminal.wait_for(f'"ticket-{number:04d}"') - begun)
                time.sleep(AWAKE)
                terminal.send("a")
                agent.wait()
    cuts = quantiles([each * 1000 for each in took], n=100, method="inclusive")
    yield "agent's call → dialog painted over the wire, p50", cuts[49], "ms"
    yield "agent's call → dialog painted over the wire, p99", cuts[98], "ms"


class _Agent:
    """An agent in a separate thread, because reading a terminal blocks."""

    def __init__(self, to: Server) -> None:
        self._client = AgentClient(to.url, to.agent)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._session: AgentSession | None = None
        self._asked = threading.Event()

    def __enter__(self) -> _Agent:
        self._thread.start()
        self._session = self._run(self._client.open("bench"))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def ask(self, ticket: str) -> float:
        """Make a call that waits for an operator; return the monotonic time of the call."""
        session = self._session
        assert session is not None
        begun = time.monotonic()
        self._call = asyncio.run_coroutine_threadsafe(
            session.call("deploy", {"ticket": ticket}), self._loop
        )
        return begun

    def wait(self) -> None:
        """Wait until the call is allowed."""
        assert self._call.result(30).outcome == "allow"
