"""Durable decisions of several servers in one PostgreSQL, compared with the bare statement and SQLite.

`python -m tests.bench.cluster ours|raw|grouped|sqlite LOCATION` is one server: it prints `ready`, waits
for a line, and prints the number of decisions written and the time taken.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.postgres.append import APPEND, arrays
from interlock.engine.history.postgres.connection import connect
from interlock.engine.history.postgres.servers.lease import ServerLease

from ..engine.history.support.recording import opening
from ..support.postgres import PostgresServer, programs
from .journal import CALLERS, GroupCommit, _decision, _ready

ROUNDS = 60
TURNS = 3
SERVERS = (1, 2, 3)
WAYS = ("ours", "raw", "grouped")


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure rates as medians of turns; all ways alternate.

    "raw" executes the journal's own statement with prepared rows, as many at a time as there are callers,
    on as many connections as there are servers: the difference is the cost of everything else in the
    journal. "grouped" does so for callers that each wait for their own row, like those of a server: the
    difference is the cost of the journal's checks and bookkeeping. The database and the servers share
    this machine's processors.
    """
    if programs() is None:
        print("cluster: needs PostgreSQL's server: apt install postgresql", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(dir=".") as folder:
        directory = Path(folder).resolve()
        directory.chmod(0o755)
        (directory / "pg").mkdir()
        database = PostgresServer(directory / "pg", durable=True)
        database.make()
        database.start(shared_buffers="256MB", autovacuum="on")
        rates: dict[tuple[str, int], list[float]] = {}
        try:
            for turn in range(TURNS):
                rates.setdefault(("sqlite", 1), []).append(_run("sqlite", [directory / f"{turn}.db"]))
                for servers in SERVERS:
                    for way in WAYS:
                        place = PostgresLocation(database.url, f"{way}_{servers}_{turn}")
                        rate = _run(way, [f"{place}"] * servers)
                        rates.setdefault((way, servers), []).append(rate)
        finally:
            database.stop()
        yield f"durable decisions, SQLite, {CALLERS} callers", median(rates["sqlite", 1]), "1/s"
        for servers in SERVERS:
            ours, raw, grouped = (rates[way, servers] for way in WAYS)
            yield f"PostgreSQL, {servers} × {CALLERS} callers", median(ours), "1/s"
            yield "the statement alone, rows ready", median(raw), "1/s"
            yield "the same with as many callers", median(grouped), "1/s"
            yield "ours / the statement", _ratio(ours, raw), "ratio (goal ≥ 0.8)"
            yield "ours / the statement with callers", _ratio(ours, grouped), "ratio"
        yield "two servers / one", _ratio(rates["ours", 2], rates["ours", 1]), "ratio (goal ≥ 1.3)"
        yield "three servers / one", _ratio(rates["ours", 3], rates["ours", 1]), "ratio"
        yield "one server / SQLite", _ratio(rates["ours", 1], rates["sqlite", 1]), "ratio"
        yield "processors", float(os.cpu_count() or 1), ""


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def _run(way: str, places: Sequence[object]) -> float:
    """Return the decisions per second that servers write together."""
    command = [sys.executable, "-m", "tests.bench.cluster", way]
    running = [
        subprocess.Popen(
            [*command, str(place), str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number, place in enumerate(places)
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    total, longest = 0, 0.0
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in running:
        said, _ = each.communicate()
        count, seconds = said.split()
        total += int(count)
        longest = max(longest, float(seconds))
    return total / longest


def _serve(way: str, place: str, number: int) -> None:
    match way:
        case "raw":
            _raw(place, number)
        case "grouped":
            asyncio.run(_grouped(place, number))
        case _:
            asyncio.run(_ours(place, number))


def _begin() -> float:
    print("ready", flush=True)
    sys.stdin.readline()
    return time.perf_counter()


async def _ours(place: str, number: int) -> None:
    journal = Journal.open(place)
    names = [f"s{number}-{each}" for each in range(CALLERS)]
    await asyncio.gather(*(journal.append(each, opening()) for each in names))
    bodies = [[_decision(each, turn) for turn in range(ROUNDS)] for each in range(CALLERS)]

    async def call(each: int) -> None:
        for body in bodies[each]:
            await journal.append(names[each], body)

    begun = _begin()
    await asyncio.gather(*(call(each) for each in range(CALLERS)))
    print(CALLERS * ROUNDS, time.perf_counter() - begun)
    await asyncio.to_thread(journal.close)


class _Statement:
    """The journal's own statement with prepared rows, for the sessions of one server."""

    def __init__(self, place: str, number: int) -> None:
        location = PostgresLocation.of(place)
        self.names = [f"s{number}-{each}" for each in range(CALLERS)]
        with Journal.open(location) as journal:
            for each in self.names:
                journal.write(each, opening())
        self.lease = ServerLease.take(location)
        self._connection = connection = connect(location)
        connection.execute(
            "UPDATE owner SET server = ? WHERE session LIKE ?", (self.lease.id, f"s{number}-%")
        )
        self._last = self.lease.last_number(connection)
        self._owned = {
            session: (epoch, seq, head)
            for session, epoch, seq, head in connection.execute(
                "SELECT session, epoch, seq, hash FROM owner WHERE server = ?", (self.lease.id,)
            )
        }
        self._lines = {
            row[0]: list(row)
            for row in connection.execute(
                "SELECT id, agent, model, mode, status, opened, updated, events, calls, blocked, "
                "waiting, error, kind, parent, parent_seq, source, imported FROM session WHERE id LIKE ?",
                (f"s{number}-%",),
            )
        }
        self._ready = [[_ready(each, turn) for each in range(CALLERS)] for turn in range(ROUNDS)]

    def append(self, batch: Sequence[tuple[int, int]]) -> None:
        """Write the decisions of some callers, each with the number of its turn."""
        before = self._last
        moves: list[Any] = []
        events: list[Any] = []
        decisions: list[Any] = []
        for caller, turn in batch:
            session, (event, decision) = self.names[caller], self._ready[turn][caller]
            self._last += 1
            epoch, seq, head = self._owned[session]
            event[0] = decision[0] = self.lease.base() + self._last
            event[1] = decision[1] = session
            moves.append((session, epoch, seq, head, seq + 1, event[-1]))
            self._owned[session] = epoch, seq + 1, event[-1]
            self._lines[session][7] += 1
            events.append(event)
            decisions.append(decision)
        lines = [self._lines[self.names[caller]] for caller, _ in batch]
        values = arrays(m=moves, s=lines, e=events, d=decisions, r=[], g=[], u=[], x=[])
        own = {"server": self.lease.id, "lane": self.lease.lane, "before": before, "last": self._last}
        found = self._connection.execute_named(APPEND, {**own, **values}).fetchall()
        assert len(found) == len(batch) + 1


def _raw(place: str, number: int) -> None:
    """Write for all callers at once, turn by turn."""
    statement = _Statement(place, number)
    begun = _begin()
    for turn in range(ROUNDS):
        statement.append([(each, turn) for each in range(CALLERS)])
    print(CALLERS * ROUNDS, time.perf_counter() - begun)
    statement.lease.release()


async def _grouped(place: str, number: int) -> None:
    """Write for callers that each wait for their own row; a thread groups what they hand over."""
    statement = _Statement(place, number)
    commits = GroupCommit(statement.append)

    async def call(caller: int) -> None:
        for turn in range(ROUNDS):
            await commits.append(caller, turn)

    begun = _begin()
    await asyncio.gather(*(call(each) for each in range(CALLERS)))
    print(CALLERS * ROUNDS, time.perf_counter() - begun)
    await commits.close()
    statement.lease.release()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
