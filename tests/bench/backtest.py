"""Judging recorded calls again: from a journal's file to the totals, on one core.

The journal has the gate's actual decisions in sessions of a hundred calls, with the surrounding messages
and steps: five events per call. Memory is the peak of a separate process. The bare loop of the gate's
benchmark runs over the same rules, in alternation.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from interlock.engine import GateContext, GateManager, ToolCall, ToolResult, create_gate_manager
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import EventBody, MessageAdded, SessionOpened, StepEnded
from interlock.engine.history.model.records import CallRecord
from interlock.engine.recording.records import decision_record, net_record, result_record
from interlock.rules import compile_rules

from .gate import CYCLE, BareGate, bare_rate, ruleset

RULES = 50
CALLS_A_SESSION = 100
SMALL, LARGE = 20_000, 200_000
REPEATS = 5
BARE_TURNS = 5
COMMANDS = ("git status", "git diff HEAD~1 | head -50", "ls -la src && cat README.md", "make test")
MAPS = """
map bash.command git as git
map bash.command rm as rm
map bash.command make as make
require human-approval before push
limit rm to 3 per session
"""
JUDGED = """
import resource, sys, time
from pathlib import Path
from interlock.engine.backtest import Backtest, Trial, count_calls, recorded_sessions, recordings
from interlock.rules import compile_rules

path, rules = Path(sys.argv[1]), compile_rules(sys.argv[2])
backtest = Backtest(Trial.of(rules.registry))
start = time.process_time()
for _ in backtest.run(recordings(path, recorded_sessions(path)), total=count_calls(path)):
    pass
taken = time.process_time() - start
counts = backtest.totals.counts
assert counts.judged.calls, counts
print(counts.judged.calls / taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure rates under the recorded rules and rules with maps; then memory at ten times the events."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.db"), Path(folder, "large.db")
        record(small, SMALL)
        record(large, LARGE)
        same = ruleset(RULES)
        rates, sizes, bare = [], [], []
        plain = BareGate(compile_rules(same).nets)
        for _ in range(REPEATS):
            rate, size = _judged(large, same)
            rates.append(rate)
            sizes.append(size)
            bare += [bare_rate(plain) for _ in range(BARE_TURNS)]
        yield f"recorded calls judged under {RULES} rules", median(rates), "per s (goal ≥ 100,000)"
        yield f"recorded calls judged under {RULES} rules, best", max(rates), "per s"
        yield "bare indexed loop, best", max(bare), "per s"
        yield "recorded calls judged / bare loop", max(rates) / max(bare), "ratio of best turns"
        mapped, _ = _judged(large, f"{ruleset(RULES - 2)}\n{MAPS}")
        yield f"recorded calls judged under {RULES} rules with maps", mapped, "per s"
        _, before = _judged(small, same)
        yield "memory of a backtest over 100,000 events", before, "MB"
        yield "memory of a backtest over 1,000,000 events", median(sizes), "MB"
        yield "memory at ten times the events", median(sizes) / before, "ratio (goal ≤ 1.1)"


def _judged(path: Path, rules: str) -> tuple[float, float]:
    """Return calls judged per second of processor time, and the peak memory in MB."""
    command = [sys.executable, "-c", JUDGED, str(path), rules]
    rate, size = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(rate), float(size)


def record(path: Path, calls: int) -> None:
    """Write a journal of `calls` calls that the gate decided under fifty rules."""
    registry = compile_rules(ruleset(RULES)).registry
    nets = tuple(net_record(key, net) for key, net in registry.items())
    opening = SessionOpened(
        agent="bot", model="a-model", mode="enforce", nets=nets, active=tuple(registry)
    )
    with Journal.open(path) as journal:
        for number in range(calls // CALLS_A_SESSION):
            manager = create_gate_manager(registry)
            bodies: list[EventBody] = [opening]
            for n in range(CALLS_A_SESSION):
                bodies += _call(manager, f"call-{number}-{n}", n)
            journal.write(f"bot-{number:05}", *bodies)


def _call(manager: GateManager, call_id: str, n: int) -> list[EventBody]:
    """Return a call's events, from its proposal to its result; every fourth call is a shell command."""
    tool = "bash" if n % 4 == 3 else CYCLE[n % 4 % 3]
    arguments = {"command": COMMANDS[n // 4 % 4]} if tool == "bash" else {"path": "src/main.py"}
    call = ToolCall(call_id, tool, arguments)
    gated = manager.handle_tool_call(call, GateContext(confirm=lambda _: True))
    try:
        gated.send(None)
    except StopIteration as done:
        decision = done.value
    events: list[EventBody] = [
        MessageAdded(role="assistant", calls=(CallRecord(call_id=call_id, tool=tool, input=arguments),)),
        StepEnded(finish_reason="tool_calls", input_tokens=1200, output_tokens=40),
        decision_record(decision, arguments),
    ]
    if not decision.block:
        result = ToolResult(call_id, tool, arguments)
        events.append(result_record(result, "ok\n" * 100, 0.4, manager.handle_tool_result(result)))
    events.append(MessageAdded(role="tool", call_id=call_id, tool=tool))
    return events
