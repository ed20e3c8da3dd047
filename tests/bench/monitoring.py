"""Cost of monitoring: a gate decision with and without the check for watchers, and the cost of metrics.

Both gates alternate in one run; the one without is a copy of the gate's entry without the lines that
check for a watcher. The cost of metrics per call is counting its events, two commits and the judging
time. It is measured separately: the difference of two whole calls is smaller than the variation caused by
threads and their switches. The cost of traces is handing over the events of a call, its judging time and
its parent; the spans, which are sent nowhere, are created in a thread that the call does not wait for. An
audit stream is measured by the time to send the events of calls to a file.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from opentelemetry.sdk.trace import SpanProcessor

from interlock.app.hosting.audit.file import FileTarget
from interlock.app.hosting.audit.streams import AuditStream
from interlock.app.hosting.monitoring.metrics import Metrics
from interlock.app.hosting.monitoring.tracing import Tracing
from interlock.engine import GateContext, GateDecision, GateManager, ToolCall, ToolResult
from interlock.engine.gateway.protocol.tokens import TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.audit.stream import LineFormat
from interlock.engine.history.journal.journal import Commit, Journal
from interlock.engine.history.model.events import JournalEvent
from interlock.engine.hub.hub import ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .gate import CYCLE, ruleset
from .journal_writers import Unwritten, journal_of

TURNS = 31
GATE_TURNS = 301
STREAM_TURNS = 9
WAKES, REPEATED = 300, 30
"""Number of loop wake-ups, and of repetitions of a traced turn meanwhile, which takes longer."""
ROUND_TRIPS = 300
CALLS = 250
AT_ONCE = 50
"""Concurrent calls: waiting between threads would hide the cost of a single call."""
RULES = 10
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Unwatched(GateManager):
    """The gate with an entry that does not check for watchers."""

    async def handle_tool_call(self, call: ToolCall, ctx: GateContext | None = None) -> GateDecision:
        ctx = ctx or GateContext()
        self._lock.acquire()
        try:
            reached = self._pass_at_once(call) or self._advance(call, ctx.confirm)
            decision = reached if type(reached) is GateDecision and self._recorder is None else None
            claimed = decision is None and self._claim(call)
        finally:
            self._lock.release()
        if decision is None:
            decision = await self._awaited(call, reached, claimed, ctx.waits)
        if self._on_decision is not None:
            await self._announce(decision, self._on_decision, at_once=ctx.at_once)
        return decision


def measure() -> Iterator[tuple[str, float, str]]:
    nets = compile_rules(ruleset(RULES)).nets
    gates = {"without": Unwatched(nets), "off": GateManager(nets)}
    seen: dict[str, list[float]] = {name: [] for name in gates}
    for turn in range(GATE_TURNS):
        for name in sorted(gates, reverse=turn % 2 == 1):
            seen[name].append(asyncio.run(_decision(gates[name])))
    without, off = min(seen["without"]), min(seen["off"])
    yield "gate decision, no watcher looked for", without * 1e6, "µs, best turn"
    yield "gate decision, metrics off", off * 1e6, "µs, best turn"
    yield "metrics off / no watcher looked for", off / without, "ratio of best turns (goal ≤ 1.05)"
    call, counted, traced, whole, idle, beside = asyncio.run(_calls())
    yield "recorded call and its result", call * 1e6, "µs of a processor, best turn"
    yield "metrics on, more for a call", counted * 1e6, "µs of a processor, best turn (goal ≤ 20)"
    yield "metrics on, more for a call / the call", counted / call, "ratio of best turns"
    yield "traces on, more for a call", traced * 1e6, "µs of a processor, best turn (goal ≤ 20)"
    yield "traces on, with the thread that makes spans", whole * 1e6, "µs of a processor, best turn"
    yield "traces on, with that thread / the call", whole / call, "ratio of best turns"
    yield "the loop wakes up late, no spans to make", idle * 1e6, "µs, median"
    yield "the loop wakes up late, spans being made", beside * 1e6, "µs, median"
    written, sent = asyncio.run(_streamed())
    yield "call and its result in a file", written * 1e6, "µs of a processor, best turn"
    yield "audit stream to a file, more for a call", sent * 1e6, "µs of a processor, best turn"
    yield "audit stream, more for a call / the call", sent / written, "ratio of best turns"


async def _decision(gate: GateManager) -> float:
    context = GateContext()
    began = time.perf_counter()
    for number in range(ROUND_TRIPS):
        name = CYCLE[number % 3]
        call = ToolCall(str(number), name)
        await gate.handle_tool_call(call, context)
        gate.handle_tool_result(ToolResult(call.tool_call_id, name))
    return (time.perf_counter() - began) / ROUND_TRIPS


async def _calls() -> tuple[float, float, float, float, float, float]:
    """Return processor seconds for a call with its result, for counting it and for tracing it.

    Then the seconds for tracing including the thread that creates the spans, and the lateness of the
    loop's wake-ups without that thread and with it.
    """
    calls, counted = list[float](), list[float]()
    traced, whole = list[float](), list[float]()
    registry = compile_rules(ruleset(RULES)).registry
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub = Hub(journal_of(folder / "bench.db", Unwritten))
        stack.push_async_callback(hub.close)
        await hub.open_external(ExternalAgent(name="bot"), SessionConfig(registry), session_id="s")
        gateway = Gateway(hub, TokenFile(folder / "tokens"), rules=RuleSets.of(registry))
        metrics, traces = Metrics(hub, gateway), Tracing(hub, SpanProcessor())
        for turn in range(TURNS):
            heard = hub.subscribe()
            calls.append(await _turn(hub, turn))
            events = [each for each in heard.taken() if isinstance(each, JournalEvent)]
            heard.close()
            counted.append(_counted(metrics, events) / CALLS)
            path, all_of_it = await _traced(traces, turn, events)
            traced.append(path / CALLS)
            whole.append(all_of_it / CALLS)
        idle = await _lateness(WAKES)
        async with traces.making_spans():
            for _ in range(REPEATED):
                for event in events:
                    traces.take(event)
            traces.catch_up()
            beside = await _lateness(WAKES)
    return min(calls), min(counted), min(traced), min(whole), idle, beside


async def _lateness(times: int) -> float:
    """Return the median lateness of the loop's wake-ups in seconds."""
    late = list[float]()
    for _ in range(times):
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append(time.perf_counter() - began - 0.001)
    return median(late)


async def _streamed() -> tuple[float, float]:
    """Return processor seconds for a call with its result, written to a file, and for streaming both.

    The stream masks, as by default, and is synced to disk.
    """
    calls, sent = list[float](), list[float]()
    registry = compile_rules(ruleset(RULES)).registry
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub = Hub(Journal.open(folder / "bench.db"))
        stack.push_async_callback(hub.close)
        await hub.open_external(ExternalAgent(name="bot"), SessionConfig(registry), session_id="s")
        source, form = hub.record_stream("bench", "start"), LineFormat("events", hub.redaction.body)
        for turn in range(STREAM_TURNS):
            calls.append(await _turn(hub, turn))
            stream = AuditStream("bench", source, FileTarget(folder / "audit.jsonl"), form, print)
            stream.end()
            began = time.process_time()
            await stream.run()
            sent.append((time.process_time() - began) / CALLS)
            assert stream.state.sent >= 2 * CALLS
    return min(calls), min(sent)


async def _turn(hub: Hub, turn: int) -> float:
    """Return processor seconds per call of a turn."""
    began = time.process_time()
    for first in range(0, CALLS, AT_ONCE):
        await asyncio.gather(*(_call(hub, f"{turn}-{each}") for each in range(first, first + AT_ONCE)))
    return (time.process_time() - began) / CALLS


async def _call(hub: Hub, call: str) -> None:
    await hub.call("s", call, "look", {})
    await hub.result("s", call, output="ok", is_error=False, seconds=0.0)


async def _traced(traces: Tracing, turn: int, events: list[JournalEvent]) -> tuple[float, float]:
    """Return seconds for a turn's calls in their thread, and in all threads until spans are created."""
    calls = [ToolCall(f"{turn}-{number}", "look") for number in range(CALLS)]
    began, begun = time.process_time(), time.thread_time()
    async with traces.making_spans():
        for call in calls:
            traces.note_parent("s", call.tool_call_id, PARENT)
            traces.note_judged("s", call, 0.0001)
        for event in events:
            traces.take(event)
        traces.catch_up()
        path = time.thread_time() - begun
    return path, time.process_time() - began


def _counted(metrics: Metrics, events: list[JournalEvent]) -> float:
    """Return seconds for counting the events, two commits and one judging time per call."""
    commit, call = Commit(2, 0.001, True), ToolCall("c", "a0")
    began = time.process_time()
    for event in events:
        metrics.take(event)
    for _ in range(CALLS):
        metrics.note_commit(commit)
        metrics.note_commit(commit)
        metrics.note_judged("s", call, 0.0001)
    return time.process_time() - began
