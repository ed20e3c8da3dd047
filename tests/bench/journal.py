"""The journal: durable decisions, compared with raw sqlite3 with the same group commit and disk."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import fields
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from interlock.engine.history.audit.hash_chain import ChainPosition, event_hash_of_body
from interlock.engine.history.audit.verify import verify_journal
from interlock.engine.history.database.compiled import (
    INSERT_DECISION,
    INSERT_EVENT,
    SELECT_LAST_HASH,
    SELECT_SESSION,
    UPSERT_SESSION,
    LinkedRow,
    SessionRow,
)
from interlock.engine.history.decisions.index import decisions_of, input_head
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.fold.replay import Replay
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.journal.writer import connect_writing
from interlock.engine.history.model.events import (
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
    StepEnded,
)
from interlock.engine.history.model.records import CallRecord

from ..engine.history.support.recording import NOON, opening

CALLERS = 100
ROUNDS = 60
TURNS = 7
ALONE = 400
CALLS = 20_000
JUMPS = 40

SESSION_COLUMNS = [each.name for each in fields(SessionRow)]
CURSOR, AT = (LinkedRow._fields.index(name) for name in ("cursor", "at"))
AGENT, UPDATED, EVENTS, DECISIONS = (
    SESSION_COLUMNS.index(name) for name in ("agent", "updated", "events", "calls")
)

_Rows: TypeAlias = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
"""A session's row, an event and a decision."""

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
    """Measure rates as medians of turns.

    "raw" is sqlite3 by hand, with the same statements and the same group commit, on a connection with the
    same settings. From the same events it creates the same rows, each with its JSON and its hash, but
    does not support several events at a time, failures, results or older journals. The second variant has
    its rows prepared and only fills in numbers and times: the difference is everything that the journal
    does besides SQLite's work.
    """
    with tempfile.TemporaryDirectory(dir=".") as folder:
        directory = Path(folder).resolve()
        ours: list[float] = []
        raw: list[float] = []
        ready: list[float] = []
        for turn in range(TURNS):
            ours.append(asyncio.run(_ours(directory / f"ours{turn}.db")))
            raw.append(asyncio.run(_raw(directory / f"raw{turn}.db", _Making)))
            ready.append(asyncio.run(_raw(directory / f"ready{turn}.db", _Ready)))
        yield f"durable decisions, {CALLERS} callers", median(ours), "1/s"
        yield "the same with raw sqlite3", median(raw), "1/s"
        yield "ours / raw", _ratio(ours, raw), "ratio (goal ≥ 0.8)"
        yield "rows that are ready, with raw sqlite3", median(ready), "1/s"
        yield "ours / raw with rows that are ready", _ratio(ours, ready), "ratio"
        own = median(1 / a - 1 / b for a, b in zip(ours, ready, strict=True))
        yield "the journal's own part of an event", own * 1e6, "µs"
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
    gc.freeze()  # excludes earlier objects from garbage collection in either
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


class _Making:
    """Creates a caller's rows from its events, one after the other."""

    def __init__(self, number: int, line: list[Any], head: bytes) -> None:
        self._session, self._line, self._head = f"s{number}", line, head
        self._bodies = [_decision(number, turn) for turn in range(ROUNDS)]

    def rows(self, turn: int, cursor: int, at: int) -> _Rows:
        body, session, seq, line = self._bodies[turn], self._session, turn + 2, self._line
        text, salt = body.model_dump_json(), os.urandom(16)
        self._head = event_hash_of_body(ChainPosition(session, seq, at), text, salt, self._head)
        line[UPDATED] = at
        line[EVENTS] += 1
        line[DECISIONS] += 1
        return (
            line,
            (cursor, session, seq, at, body.type, text, salt, None, self._head),
            (
                *(cursor, session, seq, at, line[AGENT], body.call_id, body.names[0], body.tool),
                *(
                    input_head(body.input),
                    body.mode,
                    body.outcome,
                    body.net,
                    None,
                    None,
                    None,
                    None,
                    None,
                    "call",
                    None,
                ),
            ),
        )


class _Ready:
    """Has a caller's rows prepared, and fills in numbers and times."""

    def __init__(self, number: int, line: list[Any], _: bytes) -> None:
        self._line = line
        self._ready = [_ready(number, turn) for turn in range(ROUNDS)]

    def rows(self, turn: int, cursor: int, at: int) -> _Rows:
        (event, decision), line = self._ready[turn], self._line
        event[CURSOR] = decision[CURSOR] = cursor
        event[AT] = decision[AT] = line[UPDATED] = at
        line[EVENTS] += 1
        line[DECISIONS] += 1
        return line, event, decision


class GroupCommit:
    """A thread that calls `write` with everything that callers have handed over since the last call.

    For each caller it passes the caller's number and that of its turn.
    """

    def __init__(self, write: Callable[[Sequence[tuple[int, int]]], object]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._arrived = threading.Condition()
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._closing = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def append(self, caller: int, turn: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        with self._arrived:
            self._queue.append((caller, turn, future))
            self._arrived.notify()
        return future

    async def close(self) -> None:
        with self._arrived:
            self._closing = True
            self._arrived.notify()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while True:
            with self._arrived:
                while not self._queue and not self._closing:
                    self._arrived.wait()
                batch, self._queue = self._queue, []
            if not batch:
                return
            self._write([(caller, turn) for caller, turn, _ in batch])
            self._loop.call_soon_threadsafe(_release, [future for _, _, future in batch])


async def _raw(path: Path, source: type[_Making | _Ready]) -> float:
    """Execute the same statements by hand."""
    _opened(path).close()
    connection = connect_writing(path)
    sources = [
        source(number, _line_of(connection, number), _head_of(connection, number))
        for number in range(CALLERS)
    ]

    cursors = count(CALLERS + 1)

    def write(batch: Sequence[tuple[int, int]]) -> None:
        at = time.time_ns() // 1_000_000
        rows = [sources[number].rows(turn, next(cursors), at) for number, turn in batch]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(UPSERT_SESSION, [line for line, _, _ in rows])
        connection.executemany(INSERT_EVENT, [event for _, event, _ in rows])
        connection.executemany(INSERT_DECISION, [decision for _, _, decision in rows])
        connection.execute("COMMIT")

    commits = GroupCommit(write)
    rate = await _callers(commits.append)
    await commits.close()
    connection.close()
    return rate


def _ready(number: int, turn: int) -> tuple[list[Any], list[Any]]:
    """Return the rows of a caller's decision, in which cursors and times have to be filled in."""
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
    return list(connection.execute(SELECT_SESSION, (f"s{number}",)).fetchone())


def _head_of(connection: sqlite3.Connection, number: int) -> bytes:
    return bytes(connection.execute(SELECT_LAST_HASH, (f"s{number}",)).fetchone()[0])


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def _release(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)
