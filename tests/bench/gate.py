"""Gate round trips: one call and its successful result through all active nets.

Compared in the same run with wrapped tools, with a bare loop over the same calls and nets that has only
an index by tool, and with a decision of Cedar over the same number of policies, if cedarpy is installed.
Rates are medians of many short, alternating turns. The best turn is shown as well, because other load on
the machine can only slow a turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from math import nan
from statistics import median

from interlock.engine import (
    GateContext,
    GateManager,
    SkillNet,
    ToolCall,
    ToolResult,
    Transition,
    auto_advance,
    create_gate,
    create_gate_manager,
)
from interlock.rules import compile_rules

CYCLE = ("a0", "c0", "b0")
SIZES = (1, 10, 100, 1000)
TURNS = 25
ROUND_TRIPS = 1_500
CEDAR_DECISIONS = 150


def ruleset(count: int) -> str:
    """Return `count` rules: the two that the cycle meets, then four kinds in turn about other tools."""
    others = (
        "require a{i} before b{i}",
        "limit l{i} to 5 per r{i}",
        "block x{i}",
        "require human-approval before h{i}",
    )
    lines = ["require a0 before b0", "require c0 before b0"]
    lines += [others[i % 4].format(i=i) for i in range(1, count)]
    return "\n".join(lines[:count])


def policies(count: int) -> str:
    """Return Cedar policies equivalent to `ruleset`, with the call history in the request's context."""
    others = (
        'forbid(principal, action == Action::"b{i}", resource)'
        ' unless {{ context.done.contains("a{i}") }};',
        'forbid(principal, action == Action::"l{i}", resource) when {{ context.calls >= 5 }};',
        'forbid(principal, action == Action::"x{i}", resource);',
        'forbid(principal, action == Action::"h{i}", resource) unless {{ context.approved }};',
    )
    lines = [others[0].format(i=0), others[0].format(i=0).replace('"a0"', '"c0"')]
    lines += [others[i % 4].format(i=i) for i in range(1, count)]
    return "\n".join(["permit(principal, action, resource);", *lines[:count]])


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure rates at 1, 10, 100 and 1,000 rules, then wrapped tools, then Cedar."""
    rules = {n: compile_rules(ruleset(n)).nets for n in SIZES}
    managers = {n: create_gate_manager(nets) for n, nets in rules.items()}
    tools = create_gate(rules[10]).wrap_tools(dict.fromkeys(CYCLE, _tool)).tools
    cedar = {n: decide for n in SIZES if (decide := _cedar(n)) is not None}
    rates: dict[int, list[float]] = {n: [] for n in SIZES}
    policed: dict[int, list[float]] = {n: [] for n in cedar}
    wrapped: list[float] = []
    bare: list[float] = []
    plain = BareGate(rules[10])
    for turn in range(TURNS):
        for count, manager in managers.items():
            rates[count].append(asyncio.run(_rate(manager)))
        wrapped.append(_wrapped_rate(tools))
        bare.append(bare_rate(plain))
        for count, decide in cedar.items() if turn < 3 else ():
            policed[count].append(_decision_rate(decide))
    for count, seen in rates.items():
        yield f"gate round trips at {count} rules", median(seen), "per s"
        yield f"gate round trips at {count} rules, best turn", max(seen), "per s"
    yield (
        "gate at 1,000 rules / at 10 rules",
        median(rates[1000]) / median(rates[10]),
        "ratio (goal ≥ 0.9)",
    )
    yield "wrapped tool calls at 10 rules", median(wrapped), "per s (goal ≥ 150,000)"
    yield "wrapped tool calls at 10 rules, best turn", max(wrapped), "per s"
    yield "bare indexed loop at 10 rules", median(bare), "per s"
    yield "bare indexed loop at 10 rules, best turn", max(bare), "per s"
    yield "gate at 10 rules / bare loop", max(rates[10]) / max(bare), "ratio of best turns (goal ≥ 0.45)"
    yield "wrapped tool calls / bare loop", max(wrapped) / max(bare), "ratio of best turns (goal ≥ 0.35)"
    for count, seen in policed.items():
        yield f"Cedar decisions at {count} rules", median(seen), "per s"
    if policed:
        ratio = median(rates[1000]) / median(policed[1000])
        yield "gate / Cedar at 1,000 rules", ratio, "ratio (goal ≥ 50)"
    else:
        yield "Cedar decisions", nan, "not installed: pip install cedarpy"


async def _rate(manager: GateManager) -> float:
    context = GateContext()
    start = time.perf_counter()
    for number in range(ROUND_TRIPS):
        name = CYCLE[number % 3]
        call = ToolCall(str(number), name)
        await manager.handle_tool_call(call, context)
        manager.handle_tool_result(ToolResult(call.tool_call_id, name))
    return ROUND_TRIPS / (time.perf_counter() - start)


class BareGate:
    """The minimum that decides by the same nets in plain Python: an index by tool, markings as dicts."""

    def __init__(self, nets: Iterable[SkillNet]) -> None:
        self.by_tool: dict[str, list[tuple[dict[str, int], tuple[Transition, ...]]]] = {}
        self.pending: dict[str, list[tuple[dict[str, int], Transition]]] = {}
        for net in nets:
            marking = dict(auto_advance(net, net.initial_marking))
            for tool in {tool for t in net.transitions for tool in t.tools}:
                covering = tuple(t for t in net.transitions if tool in t.tools)
                self.by_tool.setdefault(tool, []).append((marking, covering))

    def call(self, call: ToolCall) -> bool:
        """Decide and fire; return `False` if a net blocks."""
        moves: list[tuple[dict[str, int], Transition]] = []
        for marking, covering in self.by_tool.get(call.tool_name, ()):
            for transition in covering:
                for place in transition.inputs:
                    if not marking[place]:
                        break
                else:
                    moves.append((marking, transition))
                    break
            else:
                return False
        for marking, transition in moves:
            if transition.deferred:
                self.pending.setdefault(call.tool_call_id, []).append((marking, transition))
            else:
                self.fire(marking, transition)
        return True

    def result(self, result: ToolResult) -> None:
        """Fire the transitions that waited for the call's success."""
        for marking, transition in self.pending.pop(result.tool_call_id, ()):
            for place in transition.inputs:
                if not marking[place]:
                    break
            else:
                self.fire(marking, transition)

    @staticmethod
    def fire(marking: dict[str, int], transition: Transition) -> None:
        for place in transition.inputs:
            marking[place] -= 1
        for place in transition.outputs:
            marking[place] += 1


def bare_rate(gate: BareGate) -> float:
    """Return the calls with results per second of the bare loop."""
    start = time.perf_counter()
    for number in range(ROUND_TRIPS):
        name = CYCLE[number % 3]
        call = ToolCall(str(number), name)
        if not gate.call(call):
            raise RuntimeError(f"the bare loop blocks {name}")
        gate.result(ToolResult(call.tool_call_id, name))
    return ROUND_TRIPS / (time.perf_counter() - start)


def _tool(path: str) -> str:
    return path


def _wrapped_rate(tools: dict[str, Callable[[str], str]]) -> float:
    cycle = [tools[name] for name in CYCLE]
    start = time.perf_counter()
    for number in range(ROUND_TRIPS):
        cycle[number % 3]("notes.txt")
    return ROUND_TRIPS / (time.perf_counter() - start)


def _cedar(count: int) -> Callable[[str], object] | None:
    """Return a function that decides about a tool by name, over preparsed policies and entities."""
    try:
        import cedarpy
    except ImportError:
        return None
    parsed = cedarpy.PolicySet.from_str(policies(count))
    entities = cedarpy.Entities.from_json_str("[]")
    context = {"done": ["a0", "c0"], "calls": 0, "approved": False}

    def decide(tool: str) -> object:
        action = f'Action::"{tool}"'
        request = {
            "principal": 'Agent::"a"',
            "action": action,
            "resource": 'Session::"s"',
            "context": context,
        }
        answer = cedarpy.is_authorized(request, parsed, entities)
        assert answer.allowed, answer.diagnostics.errors
        return answer

    return decide


def _decision_rate(decide: Callable[[str], object]) -> float:
    start = time.perf_counter()
    for number in range(CEDAR_DECISIONS):
        decide(CYCLE[number % 3])
    return CEDAR_DECISIONS / (time.perf_counter() - start)
