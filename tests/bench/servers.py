"""Several servers of one PostgreSQL: answers across servers, a killed server, memory, round trips."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import TypeAlias

from interlock.engine.gateway.client.agent import AgentClient, AgentSession
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.cluster.forwarding_hub import EVERY
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import CallDecided, EventBody, MessageAdded
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.history.postgres.connection import connect
from interlock.engine.history.postgres.servers.lease import LEASE_SECONDS

from ..engine.history.support.recording import opening
from ..support.postgres import PostgresServer, programs
from .gateway_load import Server, allow_files, clients, rate, server
from .journal import _decision

SERVERS = 3
AGENTS = 300
"""Number of agents at each server."""
ANSWERS = 100
AT_ONCE = 100
"""Number of agents whose round trips are counted, and of the journal's callers for comparison."""
TRIPS = 1_000
TURNS = 3

Line = tuple[str, float, str]


def measure() -> Iterator[Line]:
    """Measure all parts; the database, the servers and the agents share this machine's processors."""
    if programs() is None:
        print("servers: needs PostgreSQL's server: apt install postgresql", file=sys.stderr)
        return
    with _database() as database:
        yield from asyncio.run(_answers(PostgresLocation(database.url, "answers")))
        trips = [PostgresLocation(database.url, each) for each in ("trips", "alone")]
        yield from asyncio.run(_round_trips(*trips))
        yield from asyncio.run(_beside(PostgresLocation(database.url, "beside")))
        yield from asyncio.run(_many(PostgresLocation(database.url, "many")))
    yield "processors", float(os.cpu_count() or 1), ""


@contextmanager
def _database() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        directory = Path(folder).resolve()
        directory.chmod(0o755)
        (directory / "pg").mkdir()
        database = PostgresServer(directory / "pg", durable=True)
        database.make()
        database.start(shared_buffers="256MB", autovacuum="on")
        try:
            yield database
        finally:
            database.stop()


def _servers(stack: ExitStack, place: PostgresLocation, number: int, *secrets: str) -> list[Server]:
    """Start servers one after the other: the first creates the tables."""
    made = (server("gateway_server", str(place), *secrets) for _ in range(number))
    return [stack.enter_context(each) for each in made]


async def _answers(place: PostgresLocation) -> list[Line]:
    """Measure from the operator's answer at one server to the agent's at another."""
    took: dict[str, list[float]] = {"the same server": [], "another server": []}
    with ExitStack() as processes:
        one, two = _servers(processes, place, 2)
        async with (
            AgentClient(one.url, one.agent) as agent,
            ConsoleClient(one.url, one.operator) as here,
            ConsoleClient(two.url, two.operator) as there,
        ):
            gate = await agent.open("bench")
            for number in range(2 * ANSWERS):
                console = (here, there)[number % 2]
                called = asyncio.create_task(gate.call("deploy", {"number": number}))
                request = await _request(console, number)
                begun = time.perf_counter()
                decided = asyncio.create_task(
                    console.decide(request.id, approved=True, digest=request.digest)
                )
                assert (await called).outcome == "allow"
                took[list(took)[number % 2]].append(time.perf_counter() - begun)
                assert (await decided).ok
    lines: list[Line] = []
    for where, seconds in took.items():
        cuts = quantiles(seconds, n=20)
        goals = (" (goal ≤ 25)", " (goal ≤ 60)") if where == "another server" else ("", "")
        lines += [
            (f"answer at {where} → call released, p50", cuts[9] * 1000, f"ms{goals[0]}"),
            (f"answer at {where} → call released, p95", cuts[18] * 1000, f"ms{goals[1]}"),
        ]
    return lines


async def _request(console: ConsoleClient, number: int) -> ApprovalState:
    """Return the request of the call with this number, once the console has it."""
    async with asyncio.timeout(60):
        while True:
            for request in await console.approvals():
                if request.input == {"number": number}:
                    return request
            await asyncio.sleep(0.002)


async def _round_trips(place: PostgresLocation, alone: PostgresLocation) -> list[Line]:
    """Measure agents' calls at one server, alternating with a journal alone; and calls of a shared limit.

    That journal has its own tables: the server would read what another one records in its own. It writes
    decisions, and then the same events as the agents' calls, a proposal and a decision for each.
    """
    seen: dict[str, list[float]] = {"journal": [], "agents": [], "same": [], "counted": []}
    worked = {"agents": 0.0, "counted": 0.0}
    with ExitStack() as processes:
        (to,) = _servers(processes, place, 1)
        journal = await asyncio.to_thread(Journal.open, alone)
        try:
            names = [f"alone-{each}" for each in range(AT_ONCE)]
            await asyncio.gather(*(journal.append(each, opening()) for each in names))
            async with clients(to, AT_ONCE) as agents:
                for turn in range(TURNS):
                    seen["journal"].append(await _taken(journal, names, _decisions(turn)))
                    for name, tool in (("agents", "work"), ("counted", "order")):
                        before = to.worked()
                        seen[name].append(await rate(agents, TRIPS, tool=tool))
                        worked[name] += to.worked() - before
                        if name == "agents":
                            same = [_last_calls(place, each.session) for each in agents]
                            seen["same"].append(await _taken(journal, names, same))
        finally:
            await asyncio.to_thread(journal.close)
    ratios = [a / b for a, b in zip(seen["agents"], seen["journal"], strict=True)]
    same = [a / b for a, b in zip(seen["agents"], seen["same"], strict=True)]
    counted = [a / b for a, b in zip(seen["counted"], seen["agents"], strict=True)]
    cost = {name: seconds / (TURNS * TRIPS) * 1e6 for name, seconds in worked.items()}
    return [
        (f"the journal alone, {AT_ONCE} callers", median(seen["journal"]), "decisions per s"),
        (f"one server, {AT_ONCE} agents", median(seen["agents"]), "round trips per s"),
        ("of the journal alone", median(ratios), "ratio (goal ≥ 0.4)"),
        ("the journal alone with the events of these calls", median(seen["same"]), "calls per s"),
        ("round trips of that", median(same), "ratio"),
        ("the server's processor time", cost["agents"], "µs a round trip"),
        ("the same where a limit counts over all servers", median(seen["counted"]), "round trips per s"),
        ("of those without", median(counted), "ratio"),
        ("the server's processor time", cost["counted"], "µs a round trip"),
    ]


_Batches: TypeAlias = Sequence[Sequence[Sequence[EventBody]]]
"""Batches of each caller, in the order in which it hands them over."""


def _decisions(turn: int) -> _Batches:
    rounds = TRIPS // AT_ONCE
    return [[[_decision(each, turn * rounds + n)] for n in range(rounds)] for each in range(AT_ONCE)]


def _last_calls(place: PostgresLocation, session: str | None) -> Sequence[Sequence[EventBody]]:
    """Return the events of a turn's calls: for each the call as the agent made it, and its decision."""
    assert session is not None
    bodies = [event.body for event in open_reader(place).events(session)][-2 * TRIPS // AT_ONCE :]
    calls = list(zip(bodies[::2], bodies[1::2], strict=True))
    assert all(isinstance(a, MessageAdded) and isinstance(b, CallDecided) for a, b in calls)
    return calls


async def _taken(journal: Journal, names: list[str], batches: _Batches) -> float:
    """Return the batches per second that a server's journal accepts from that many callers."""

    async def call(name: str, own: Sequence[Sequence[EventBody]]) -> None:
        for each in own:
            await journal.append(name, *each)

    begun = time.perf_counter()
    await asyncio.gather(*(call(*each) for each in zip(names, batches, strict=True)))
    return sum(map(len, batches)) / (time.perf_counter() - begun)


async def _beside(place: PostgresLocation) -> list[Line]:
    """Measure the cost of agents waiting at one server: for it, for another, and for the database."""
    with ExitStack() as processes:
        secrets = processes.enter_context(tempfile.TemporaryDirectory())
        one, other = _servers(processes, place, 2, secrets)
        idle = await _transactions(place)
        before = one.memory(), other.memory()
        async with _waiting([one, other]):
            await _until(place, _WAITING, AGENTS)
            await asyncio.sleep(2 * EVERY)
            own, foreign = (b - a for a, b in zip(before, (one.memory(), other.memory()), strict=True))
            full = await _transactions(place)
    return [
        (f"memory for an agent that waits, of {AGENTS}", own / AGENTS / 1000, "kB"),
        ("the same at another server, which shows it", foreign / AGENTS / 1000, "kB"),
        ("transactions of a server without agents", idle / 2, "1/s"),
        (f"the same while {AGENTS} agents wait", full / 2, "1/s"),
    ]


async def _transactions(place: PostgresLocation) -> float:
    """Return the transactions per second in the database, including the one that queries their number."""
    asked = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    await asyncio.sleep(2)
    first, begun = _count(place, asked), time.perf_counter()
    await asyncio.sleep(8)
    return (_count(place, asked) - first - 1) / (time.perf_counter() - begun)


async def _many(place: PostgresLocation) -> list[Line]:
    """Measure agents waiting at each of the servers: memory, and the consequences of a killed server."""
    with ExitStack() as processes:
        # An agent's token is valid at every server, and its client has the address of each.
        secrets = processes.enter_context(tempfile.TemporaryDirectory())
        every = _servers(processes, place, SERVERS, secrets)
        before = [each.memory() for each in every]
        async with AsyncExitStack() as connected:
            for first in range(SERVERS):
                order = every[first:] + every[:first]
                await connected.enter_async_context(_waiting(order))
            await _until(place, _WAITING, SERVERS * AGENTS)
            after = [each.memory() for each in every]
            victim = _id_of(place, every[0])
            assert _count(place, _OWNED, victim) == AGENTS
            begun = time.perf_counter()
            every[0].process.send_signal(signal.SIGKILL)
            await _until(place, _OWNED, 0, victim)
            taken = time.perf_counter() - begun
            await _until(place, _WAITING, SERVERS * AGENTS)
            again = time.perf_counter() - begun
    goal = f"s (goal ≤ 10 + lease of {LEASE_SECONDS:g})"
    more = max(a - b for a, b in zip(after, before, strict=True))
    return [
        (f"memory of a server, {SERVERS} × {AGENTS} agents wait", max(after) / 1e6, "MB (goal ≤ 100)"),
        ("more than without agents", more / 1e6, "MB"),
        (f"a server is killed → nothing of its {AGENTS} sessions is its own", taken, goal),
        ("and all of their agents wait at other servers", again, "s"),
    ]


_OWNED = (
    "SELECT count(*) FROM owner JOIN session ON session.id = owner.session "
    "WHERE server = ? AND status <> 'done'"
)
_WAITING = "SELECT count(*) FROM session WHERE waiting > 0 AND status <> 'done'"


@asynccontextmanager
async def _waiting(to: list[Server]) -> AsyncGenerator[None]:
    """Run agents at the first of some servers that each wait for an operator and continue at the next."""
    url = ",".join(each.url for each in to)
    async with AsyncExitStack() as stack:
        room = asyncio.Semaphore(AT_ONCE)

        async def one() -> AgentSession:
            async with room:
                return await (await stack.enter_async_context(AgentClient(url, to[0].agent))).open(
                    "bench"
                )

        allow_files()
        agents = await asyncio.gather(*(one() for _ in range(AGENTS)))
        asked = [asyncio.create_task(agent.call("deploy", {"number": 1})) for agent in agents]
        try:
            yield
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


def _id_of(place: PostgresLocation, to: Server) -> str:
    statement = "SELECT id FROM server WHERE name LIKE ? AND ended IS NULL"
    connection = connect(place)
    try:
        ((found,),) = connection.execute(statement, (f"%process {to.process.pid} %",)).fetchall()
    finally:
        connection.close()
    return str(found)


def _count(place: PostgresLocation, statement: str, *values: object) -> int:
    connection = connect(place)
    try:
        ((found,),) = connection.execute(statement, values).fetchall()
    finally:
        connection.close()
    return int(found)


async def _until(place: PostgresLocation, statement: str, number: int, *values: object) -> None:
    async with asyncio.timeout(120):
        while await asyncio.to_thread(_count, place, statement, *values) != number:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
