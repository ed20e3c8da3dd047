"""Cost of remembered values: rules on each value of a field, sums, and values from a source.

All alternate in one run; each time is the processor time of the best turn. Two sizes of each are
compared: a call costs the same, however many values the gate remembers.
"""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Callable, Iterator

from interlock.engine import GateManager, ToolCall, ToolResult
from interlock.engine.core.shared_limit import Use
from interlock.engine.gate.shared_uses import SharedUses
from interlock.rules import compile_rules

TURNS = 15
ROUND_TRIPS = 500
EACH = "limit a to 1000000 per session for each input.customer"
SUM = "limit a to 1000000000 of input.amount per session"
SOURCE = "block a when input.customer not from user"
PLAIN = "limit a to 1000000 per session"
SLIDING = "limit a to 1000000 per 1d"


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure microseconds of a call and its result, ratios between sizes, and bytes per value."""
    gates: dict[str, tuple[GateManager, Callable[[int], str]]] = {
        "plain": (_gate(PLAIN), lambda _: "c0"),
        "10 values in use": (_used(10), lambda n: f"c{n % 10}"),
        "1,000 values in use": (_used(1_000), lambda n: f"c{n % 1_000}"),
        "10,000 values in use": (_used(10_000), lambda n: f"c{n * 17 % 10_000}"),
        "a sum": (_gate(SUM), lambda _: "c0"),
        "a sliding limit": (_gate(SLIDING), lambda _: "c0"),
        "across everyone, 100 uses of others": (_across(100), lambda _: "c0"),
        "across everyone, 100,000 uses of others": (_across(100_000), lambda _: "c0"),
        "from, 100 words remembered": (_told(100), lambda n: f"c{n % 100}"),
        "from, 100,000 words remembered": (_told(100_000), lambda n: f"c{n * 17 % 100_000}"),
    }
    best = dict.fromkeys(gates, float("inf"))
    for _ in range(TURNS):
        for kind, (gate, value) in gates.items():
            best[kind] = min(best[kind], asyncio.run(_microseconds(gate, value)))
    for kind, each in best.items():
        yield f"a call and its result, {kind}", each, "µs"
    for more, few in (
        ("1,000 values in use", "10 values in use"),
        ("10,000 values in use", "10 values in use"),
        ("across everyone, 100,000 uses of others", "across everyone, 100 uses of others"),
        ("from, 100,000 words remembered", "from, 100 words remembered"),
    ):
        yield f"{more} / {few}", best[more] / best[few], "ratio (goal ≤ 1.2)"
    yield "bytes of memory a value, of 10,000", _bytes(10_000), "bytes"


def _gate(rules: str) -> GateManager:
    return GateManager(compile_rules(rules).nets)


def _across(number: int) -> GateManager:
    """Return a gate next to another one whose calls have used a shared limit `number` times."""
    uses = SharedUses()
    nets = compile_rules(f"{SLIDING} across everyone").nets
    gate = GateManager(nets, uses=uses.of_session("own"))
    limit, now = nets[0].shared, time.time()
    assert limit is not None
    for n in range(number):
        uses.add(limit.counter(None), Use(now, "other", f"o{n}", nets[0].name))
    return gate


def _used(values: int) -> GateManager:
    gate = _gate(EACH)
    asyncio.run(_use(gate, values))
    return gate


async def _use(gate: GateManager, values: int) -> None:
    for number in range(values):
        call = ToolCall(f"v{number}", "a", {"customer": f"c{number}"})
        assert not (await gate.handle_tool_call(call)).block
        gate.handle_tool_result(ToolResult(call.tool_call_id, "a"))


def _told(words: int) -> GateManager:
    gate = _gate(SOURCE)
    gate.hear("user", " ".join(f"c{number}" for number in range(words)))
    return gate


def _bytes(values: int) -> float:
    gate = _gate(EACH)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    asyncio.run(_use(gate, values))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / values


async def _microseconds(gate: GateManager, value: Callable[[int], str]) -> float:
    calls = [
        ToolCall(str(number), "a", {"customer": value(number), "amount": 0.5})
        for number in range(ROUND_TRIPS)
    ]
    start = time.process_time()
    for call in calls:
        decision = await gate.handle_tool_call(call)
        assert not decision.block
        gate.handle_tool_result(ToolResult(call.tool_call_id, "a"))
    return (time.process_time() - start) / ROUND_TRIPS * 1e6
