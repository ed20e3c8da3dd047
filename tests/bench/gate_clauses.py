"""Cost of clauses: calls under a condition, a sliding limit or a grant, compared with a plain call.

All alternate in one run. Each time is the processor time of the best turn, because other load on the
machine can only slow a turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from interlock.engine import ApprovalAnswer, GateContext, GateManager, ToolCall, ToolResult
from interlock.engine.gate import GrantTerms
from interlock.rules import compile_rules

TURNS = 15
ROUND_TRIPS = 1_000
INPUT = {"env": "staging", "path": "src/app.py"}
RULES = {
    "plain": "limit a to 1000000 per session",
    "under a condition": 'limit a to 1000000 per session when input.env in ["staging", "prod"]',
    "outside a condition": 'limit a to 1000000 per session when input.env = "prod"',
    "under a sliding limit": "limit a to 1000000 per 1s",
    "asked": "require human-approval before a",
    "granted": "require human-approval before a",
}


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure microseconds of each kind, and the ratio to the plain call."""
    gates = {kind: asyncio.run(_gate(kind)) for kind in RULES}
    best = dict.fromkeys(RULES, float("inf"))
    for _ in range(TURNS):
        for kind, gate in gates.items():
            best[kind] = min(best[kind], asyncio.run(_microseconds(gate)))
    for kind, each in best.items():
        yield f"a call and its result, {kind}", each, "µs"
    for kind in RULES:
        if kind != "plain":
            yield f"{kind} / plain", best[kind] / best["plain"], "ratio"
    yield "granted / asked", best["granted"] / best["asked"], "ratio"


async def _gate(kind: str) -> GateManager:
    """Return a gate over the rules of a kind; its limit's clock advances 1 ms with every reading."""
    ticks = iter(range(10**12))
    gate = GateManager(compile_rules(RULES[kind]).nets, clock=lambda: next(ticks) / 1000)
    if kind == "granted":
        answer = ApprovalAnswer(True, by="operator", grant=GrantTerms("names"))
        decision = await gate.handle_tool_call(ToolCall("0", "a", INPUT), GateContext(lambda _: answer))
        assert decision.gave
    return gate


async def _microseconds(gate: GateManager) -> float:
    context = GateContext(lambda _: True)
    start = time.process_time()
    for number in range(1, ROUND_TRIPS + 1):
        decision = await gate.handle_tool_call(ToolCall(str(number), "a", INPUT), context)
        assert not decision.block
        gate.handle_tool_result(ToolResult(str(number), "a"))
    return (time.process_time() - start) / ROUND_TRIPS * 1e6
