"""The journal: durable decisions, beside raw sqlite3 with the same group commit on the same disk."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median

from interlock.engine.history.decided import INSERT_DECISION, decisions_of
from interlock.engine.history.events import (
    CallDecided,
    CallRecord,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
    StepEnded,
)
from interlock.engine.history.fold import fold
from interlock.engine.history.journal import Journal
from interlock.engine.history.queries import open_reader
from interlock.engine.history.replay import Replay
from interlock.engine.history.rows import INSERT_EVENT, LINKED_COLUMNS, SESSION_COLUMNS, UPSERT_SESSION
from interlock.engine.history.verify import verify_journal
from tests.engine.history.recording import NOON, opening

CALLERS = 100
ROUNDS = 60
TURNS = 7
ALONE = 400
CALLS = 20_000
JUMPS = 40

DECIDED = CallDecided(
    call_id="call-1",
    tool="bash",
    input={"command": "git push --force origin main", "timeout": 30},
    names=("bash", "push"),
    outcome="allow",
    mode="enforce",
    net="require-test-before-push",
)


def measure() -> Iterator[tuple[str, float, str]]:
    """Rates are medians of turns; "raw" inserts ready rows of the same columns under the same indexes."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        directory = Path(folder)
        ours: list[float] = []
        raw: list[float] = []
        bare: list[float] = []
        for turn in range(TURNS):
            ours.append(asyncio.run(_ours(directory / f"ours{turn}.db")))
            raw.append(asyncio.run(_raw(directory / f"raw{turn}.db", whole=True)))
            bare.append(asyncio.run(_raw(directory / f"bare{turn}.db", whole=False)))
        yield f"durable decisions, {CALLERS} callers", median(ours), "1/s"
        yield "the same rows with raw sqlite3", median(raw), "1/s"
        ratio = median(a / b for a, b in zip(ours, raw, strict=True))
        yield "ours / raw", ratio, "ratio (goal ≥ 0.8)"
        yield "the events alone with raw sqlite3", median(bare), "1/s"
        alone = sorted(asyncio.run(_alone(directory / "alone.db")))
        yield "one durable append, median", alone[len(alone) // 2] * 1000, "ms"
        yield "one durable append, p99", alone[len(alone) * 99 // 100] * 1000, "ms"
        yield from _reading(directory / "long.db")


def _reading(path: Path) -> Iterator[tuple[str, float, str]]:
    events = _record(path)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        begin = time.perf_counter()
        read = list(open_reader(path).events("long"))
        yield f"{events:,} events read", time.perf_counter() - begin, "s"
        replay = Replay(read)
        yield "read and ready to replay", time.perf_counter() - begin, "s (goal ≤ 1)"
        jumps: list[float] = []
        for jump in range(JUMPS):
            begin = time.perf_counter()
            replay.goto(1 + jump * 7919 * 13 % events)
            jumps.append(time.perf_counter() - begin)
        yield "slowest of 40 jumps", max(jumps) * 1000, "ms (goal ≤ 100)"
        begin = time.perf_counter()
        fold(read)
        yield "plain fold", events / (time.perf_counter() - begin), "events/s"
        begin = time.perf_counter()
        list(verify_journal(path))
        yield "chain verified", events / (time.perf_counter() - begin), "events/s"
    finally:
        gc.enable()


def _record(path: Path) -> int:
    with Journal.open(path) as journal:
        journal.write("long", opening())
        for start in range(0, CALLS, 1000):
            journal.write("long", *(body for n in range(start, start + 1000) for body in _call(n)))
    return 1 + 5 * CALLS


def _call(number: int) -> Iterator[EventBody]:
    call, command = f"c{number}", {"command": f"ls {number}"}
    yield MessageAdded(
        role="assistant", text="next", calls=(CallRecord(call_id=call, tool="bash", input=dict(command)),)
    )
    yield DECIDED.model_copy(update={"call_id": call, "input": command})
    yield CallResult(call_id=call, tool="bash", output="one line of output", is_error=False, seconds=0.1)
    yield MessageAdded(role="tool", call_id=call, tool="bash")
    yield StepEnded(finish_reason="tool-calls", input_tokens=900, output_tokens=40, cost=0.002)


async def _callers(append: Callable[[int], Awaitable[object]]) -> float:
    async def caller(number: int) -> None:
        for _ in range(ROUNDS):
            await append(number)

    begin = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    return CALLERS * ROUNDS / (time.perf_counter() - begin)


async def _ours(path: Path) -> float:
    journal = _opened(path)
    rate = await _callers(lambda number: journal.append(f"s{number}", DECIDED))
    await asyncio.to_thread(journal.close)
    return rate


async def _alone(path: Path) -> list[float]:
    journal = Journal.open(path)
    journal.write("s", opening())
    times: list[float] = []
    for _ in range(ALONE):
        begin = time.perf_counter()
        await journal.append("s", DECIDED)
        times.append(time.perf_counter() - begin)
    await asyncio.to_thread(journal.close)
    return times


async def _raw(path: Path, *, whole: bool) -> float:
    """A thread that commits whatever has been handed over since its last commit, from ready rows.

    As `whole` the same rows as ours into all tables, else the events alone.
    """
    _opened(path).close()
    loop = asyncio.get_running_loop()
    arrived = threading.Condition()
    queue: list[tuple[int, asyncio.Future[None]]] = []
    closing = False

    def write() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        events = [list(_row_of(connection, "event", number)) for number in range(CALLERS)]
        lines = [list(_row_of(connection, "session", number)) for number in range(CALLERS)]
        decision = decisions_of(
            [
                JournalEvent(cursor=1, session="s0", seq=1, at=NOON, body=opening()),
                JournalEvent(cursor=2, session="s0", seq=2, at=NOON, body=DECIDED),
            ]
        )[0]
        decisions = [list(decision._replace(session=f"s{number}")) for number in range(CALLERS)]
        for row in events:
            row[4:] = ["call.decided", DECIDED.model_dump_json(), bytes(16), None, bytes(32)]
        cursor = CALLERS
        while True:
            with arrived:
                while not queue and not closing:
                    arrived.wait()
                batch, queue[:] = queue[:], []
            if not batch:
                break
            numbers = [number for number, _ in batch]
            for number in numbers:
                cursor += 1
                events[number][0] = decisions[number][0] = cursor
                events[number][2] += 1
                decisions[number][2] += 1
                lines[number][7] += 1
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT_EVENT, [events[number] for number in numbers])
            if whole:
                connection.executemany(UPSERT_SESSION, [lines[number] for number in numbers])
                connection.executemany(INSERT_DECISION, [decisions[number] for number in numbers])
            connection.execute("COMMIT")
            loop.call_soon_threadsafe(_release, [future for _, future in batch])
        connection.close()

    thread = threading.Thread(target=write)
    thread.start()

    def append(number: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = loop.create_future()
        with arrived:
            queue.append((number, future))
            arrived.notify()
        return future

    rate = await _callers(append)
    with arrived:
        closing = True
        arrived.notify()
    await asyncio.to_thread(thread.join)
    return rate


def _opened(path: Path) -> Journal:
    journal = Journal.open(path)
    for number in range(CALLERS):
        journal.write(f"s{number}", opening())
    return journal


def _row_of(connection: sqlite3.Connection, table: str, number: int) -> tuple[object, ...]:
    columns, key = (LINKED_COLUMNS, "session") if table == "event" else (SESSION_COLUMNS, "id")
    query = f"SELECT {columns} FROM {table} WHERE {key} = ?"
    return connection.execute(query, (f"s{number}",)).fetchone()


def _release(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)
