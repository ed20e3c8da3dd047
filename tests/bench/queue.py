"""Cost of a long queue at a server: one more request, and a console that connects."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

from websockets.asyncio.client import ClientConnection

from interlock.app.console.app import InterlockConsole
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.lists.sessions import WaitingList
from interlock.engine.gateway.client.console import ConsoleClient

from .gateway_load import Client, Server, clients, console, server

SESSIONS = 100
SHORT, LONG = 10, 10_000
"""Number of waiting requests when a console starts."""
COUNTED = 100, 10_000
"""Number of waiting requests at which the cost of one more is measured."""
STEP = 100
"""Number of requests made at once; the cost is measured for the last group."""
LONGEST = 120.0
"""Seconds after which a queue that does not fill is abandoned."""


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure one growing queue: first paint at its beginning and its end, processor time in between."""
    found = asyncio.run(_measured())
    for waiting in (SHORT, LONG):
        yield f"connected console, {waiting:,} requests, paint", found[f"paint {waiting}"] * 1000, "ms"
        yield f"connected console, {waiting:,} requests, all", found[f"all {waiting}"] * 1000, "ms"
    for waiting in COUNTED:
        yield f"one more request at {waiting:,}", found[f"cost {waiting}"] * 1e6, "µs (server)"
    yield "one more at many / at few", found[f"cost {COUNTED[1]}"] / found[f"cost {COUNTED[0]}"], "ratio"


async def _measured() -> dict[str, float]:
    found: dict[str, float] = {}
    with server("gateway_server", "unsynced") as gate:
        async with (
            asyncio.timeout(LONGEST),
            clients(gate, SESSIONS) as agents,
            console(gate.port, gate.operator) as heard,
        ):
            waiting = 0
            for goal in sorted({SHORT, *COUNTED, LONG}):
                while waiting < goal:
                    step = min(STEP, goal - waiting)
                    before = gate.worked()
                    await _ask(agents, waiting, step)
                    await _heard(heard, step)
                    found[f"cost {waiting + step}"] = (gate.worked() - before) / step
                    waiting += step
                if goal in (SHORT, LONG):
                    paints = [await _paint(gate, goal) for _ in range(3)]
                    found[f"paint {goal}"], found[f"all {goal}"] = map(min, zip(*paints, strict=True))
    return found


async def _ask(agents: list[Client], first: int, number: int) -> None:
    """Make calls that wait for an operator, rotating through the sessions."""
    for call in range(first, first + number):
        agent = agents[call % len(agents)]
        params = {
            "session": agent.session,
            "call": f"c{call}",
            "tool": "deploy",
            "input": {"number": call},
        }
        frame = {"jsonrpc": "2.0", "id": f"deploy-{call}", "method": "tool.call", "params": params}
        await agent.socket.send(json.dumps(frame))


async def _heard(socket: ClientConnection, number: int) -> None:
    """Wait until a console was notified of this many requests."""
    while number:
        number -= '"approval.requested"' in await socket.recv(decode=True)


async def _paint(gate: Server, waiting: int) -> tuple[float, float]:
    """Return seconds until a connecting console shows requests, and until it has all waiting ones."""
    begun = time.perf_counter()
    async with ConsoleClient(gate.url, gate.operator) as hub:
        app = InterlockConsole(hub, operator="ada")
        async with app.run_test(size=(120, 40)) as pilot:
            live = app.screen_stack[0]
            assert isinstance(live, LiveScreen)
            while not live.query_one(WaitingList).blocks:
                await pilot.pause(0.005)
            painted = time.perf_counter() - begun
            while len(await hub.approvals()) < waiting:
                await pilot.pause(0.005)
            return painted, time.perf_counter() - begun
