"""Gate round trips: one call and its successful result through all active nets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from statistics import median

from interlock.engine import GateContext, GateManager, ToolCall, ToolResult, create_gate_manager
from interlock.rules import compile_rules

CYCLE = ("a0", "c0", "b0")
ROUND_TRIPS = 6_000


def ruleset(count: int) -> str:
    """`count` rules: the two that the cycle meets, then four kinds in turn about other tools."""
    others = (
        "require a{i} before b{i}",
        "limit l{i} to 5 per r{i}",
        "block x{i}",
        "require human-approval before h{i}",
    )
    lines = ["require a0 before b0", "require c0 before b0"]
    lines += [others[i % 4].format(i=i) for i in range(1, count)]
    return "\n".join(lines[:count])


def measure() -> Iterator[tuple[str, float, str]]:
    """Rates at 1, 10, 100 and 1,000 rules, taken in turns so that noise meets all alike."""
    managers = {n: create_gate_manager(compile_rules(ruleset(n)).nets) for n in (1, 10, 100, 1000)}
    rates: dict[int, list[float]] = {n: [] for n in managers}
    for _ in range(7):
        for count, manager in managers.items():
            rates[count].append(asyncio.run(_rate(manager)))
    for count, seen in rates.items():
        yield f"gate round trips at {count} rules", median(seen), "per s"
    yield (
        "gate at 1,000 rules / at 10 rules",
        median(rates[1000]) / median(rates[10]),
        "ratio (goal ≥ 0.9)",
    )


async def _rate(manager: GateManager) -> float:
    context = GateContext()
    start = time.perf_counter()
    for number in range(ROUND_TRIPS):
        name = CYCLE[number % 3]
        call = ToolCall(str(number), name)
        await manager.handle_tool_call(call, context)
        manager.handle_tool_result(ToolResult(call.tool_call_id, name))
    return ROUND_TRIPS / (time.perf_counter() - start)
