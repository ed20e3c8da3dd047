"""The journal: durable decisions, beside raw sqlite3 with the same group commit on the same disk."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from interlock.engine.history.decided import INSERT_DECISION, decisions_of
from interlock.engine.history.events import (
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
    StepEnded,
)
from interlock.engine.history.fold import fold
from interlock.engine.history.journal import Journal
from interlock.engine.history.parts import CallRecord
from interlock.engine.history.queries import open_reader
from interlock.engine.history.replay import Replay
from interlock.engine.history.rows import (
    INSERT_EVENT,
    LINKED_COLUMNS,
    SELECT_SESSION,
    SESSION_COLUMNS,
    UPSERT_SESSION,
)
from interlock.engine.history.verify import verify_journal
from interlock.engine.history.writer import connect_writing
from tests.engine.history.recording import NOON, opening

CALLERS = 100
ROUNDS = 60
TURNS = 7
ALONE = 400
CALLS = 20_000
JUMPS = 40

CURSOR, AT = (LINKED_COLUMNS.split(", ").index(name) for name in ("cursor", "at"))
UPDATED, EVENTS, DECISIONS = (
    SESSION_COLUMNS.split(", ").index(name) for name in ("updated", "events", "calls")
)

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
    """Rates are medians of turns.

    "raw" inserts rows that were ready before, with the same statements, on a connection with the same
    settings; only numbers and times are filled in when they are written. So all that the journal does
    besides SQLite's work is what its events cost more.
    """
    with tempfile.TemporaryDirectory(dir=".") as folder:
        directory = Path(folder).resolve()
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
        own = median(1 / a - 1 / b for a, b in zip(ours, raw, strict=True))
        yield "the journal's own part of an event", own * 1e6, "µs"
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
        yield "all of them read, and ready to replay at once", time.perf_counter() - begin, "s"
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


async def _callers(append: Callable[[int, int], Awaitable[object]]) -> float:
    async def caller(number: int) -> None:
        for turn in range(ROUNDS):
            await append(number, turn)

    gc.collect()
    gc.freeze()  # what was made ready before is nothing that either has to look through
    begin = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    seconds = time.perf_counter() - begin
    gc.unfreeze()
    return CALLERS * ROUNDS / seconds


def _decision(number: int, turn: int) -> CallDecided:
    return DECIDED.model_copy(update={"call_id": f"call-{number}-{turn}"})


async def _ours(path: Path) -> float:
    journal = _opened(path)
    bodies = [[_decision(number, turn) for turn in range(ROUNDS)] for number in range(CALLERS)]
    rate = await _callers(lambda number, turn: journal.append(f"s{number}", bodies[number][turn]))
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
    queue: list[tuple[int, int, asyncio.Future[None]]] = []
    closing = False
    connection = connect_writing(path)
    lines = [_line_of(connection, number) for number in range(CALLERS)]
    ready = [[_ready(number, turn) for turn in range(ROUNDS)] for number in range(CALLERS)]

    def write() -> None:
        cursor = CALLERS
        while True:
            with arrived:
                while not queue and not closing:
                    arrived.wait()
                batch, queue[:] = queue[:], []
            if not batch:
                break
            at = time.time_ns() // 1_000_000
            for number, turn, _ in batch:
                cursor += 1
                (event, decision), line = ready[number][turn], lines[number]
                event[CURSOR] = decision[CURSOR] = cursor
                event[AT] = decision[AT] = line[UPDATED] = at
                line[EVENTS] += 1
                line[DECISIONS] += 1
            connection.execute("BEGIN IMMEDIATE")
            if whole:
                connection.executemany(UPSERT_SESSION, [lines[number] for number, _, _ in batch])
            connection.executemany(INSERT_EVENT, [ready[number][turn][0] for number, turn, _ in batch])
            if whole:
                connection.executemany(
                    INSERT_DECISION, [ready[number][turn][1] for number, turn, _ in batch]
                )
            connection.execute("COMMIT")
            loop.call_soon_threadsafe(_release, [future for _, _, future in batch])
        connection.close()

    thread = threading.Thread(target=write)
    thread.start()

    def append(number: int, turn: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = loop.create_future()
        with arrived:
            queue.append((number, turn, future))
            arrived.notify()
        return future

    rate = await _callers(append)
    with arrived:
        closing = True
        arrived.notify()
    await asyncio.to_thread(thread.join)
    return rate


def _ready(number: int, turn: int) -> tuple[list[Any], list[Any]]:
    """The rows of a caller's decision, whose numbers in the file and times are to be filled in."""
    session, seq, body = f"s{number}", turn + 2, _decision(number, turn)
    opened = JournalEvent(cursor=1, session=session, seq=1, at=NOON, body=opening())
    event = JournalEvent(cursor=2, session=session, seq=seq, at=NOON, body=body)
    [line] = decisions_of([opened, event])
    row = [2, session, seq, 0, body.type, body.model_dump_json(), os.urandom(16), None, os.urandom(32)]
    return row, list(line)


def _opened(path: Path) -> Journal:
    journal = Journal.open(path)
    for number in range(CALLERS):
        journal.write(f"s{number}", opening())
    return journal


def _line_of(connection: sqlite3.Connection, number: int) -> list[Any]:
    return list(connection.execute(f"{SELECT_SESSION} WHERE id = ?", (f"s{number}",)).fetchone())


def _release(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)
