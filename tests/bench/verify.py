"""Rules compiled, their nets searched, and rules verified together: dense sets of 50, files of 1,000.

A bare interpreter and a constant loop are timed in alternation with compiling and searching: load on the
machine slows all of them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

from interlock.engine.net.net import SkillNet, Transition, define_skill_net
from interlock.engine.verify import Together, Unknown, reachable
from interlock.rules import compile_rules
from interlock.rules.analysis.findings import examine

from ..support.dense import dense
from .gate import ruleset
from .interpreter import bare_start

SETS = 14
TURNS = 15
PROCESSES = 7
STATES = 100_000
REFERENCE = 122_000
FIRST_COMPILE = """
import sys, time
text = sys.stdin.read()
start = time.perf_counter()
from interlock.rules import compile_rules
compile_rules(text)
print(time.perf_counter() - start)
"""


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure compiling and searching, then verification."""
    yield from _compiling_and_searching()
    yield from _proving()


def _compiling_and_searching() -> Iterator[tuple[str, float, str]]:
    """Measure a file of 1,000 rules, in a separate process and repeatedly; nets of 100,000 states."""
    text = ruleset(1_000)
    first = [_first_compile(text) for _ in range(PROCESSES)]
    yield "first compile of 1,000 rules, with imports", median(first) * 1000, "ms"
    plain, refilled = counters(spent=False), counters(spent=True)
    compiles, starts, loops, searches, more = [], [], [], [], []
    for _ in range(TURNS):
        starts.append(bare_start())
        loops.append(_seconds(lambda: sum(n * n for n in range(200_000))))
        compiles.append(_seconds(lambda: compile_rules(text)))
        searches.append(_seconds(lambda: reachable(plain, limit=STATES)))
        more.append(_seconds(lambda: reachable(refilled, limit=STATES)))
    yield "loop that never changes", median(loops) * 1000, "ms"
    yield "compile of 1,000 rules", median(compiles) * 1000, "ms"
    yield "compile of 1,000 rules, best turn", min(compiles) * 1000, "ms"
    yield "python -c pass", median(starts) * 1000, "ms"
    ratio = median(compiles) / median(starts)
    yield "compile of 1,000 rules / python -c pass", ratio, "ratio of medians (goal ≤ 1.5)"
    rate = STATES / median(searches)
    yield "states of 5 counters", rate, "per s"
    yield f"states of 5 counters / {REFERENCE:,} of the reference", rate / REFERENCE, "ratio (goal ≥ 3)"
    yield "states of 5 counters that fill 5 places", STATES / median(more), "per s"


def counters(*, spent: bool) -> SkillNet:
    """Return five independent budgets of 9, each with a consumer; `spent` keeps what was used."""
    numbers = range(5)
    return define_skill_net(
        "counters",
        places=[f"c{i}" for i in numbers] + [f"s{i}" for i in numbers if spent],
        transitions=[
            Transition(f"use-{i}", (f"c{i}",), (f"s{i}",) if spent else (), (f"tool-{i}",))
            for i in numbers
        ],
        initial_marking={f"c{i}": 9 for i in numbers},
    )


def _first_compile(text: str) -> float:
    command = [sys.executable, "-c", FIRST_COMPILE]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _proving() -> Iterator[tuple[str, float, str]]:
    """Measure the slowest dense set with all of its tools; then whole checks of 1,000 rules."""
    slowest, unknown = 0.0, 0
    for seed in range(SETS):
        nets = dense(random.Random(seed))
        start = time.perf_counter()
        together = Together(nets)
        answers = [together.way(name) for name in together.certain.named]
        slowest = max(slowest, time.perf_counter() - start)
        unknown += sum(isinstance(answer, Unknown) for answer in answers)
    yield f"slowest of {SETS} dense sets of 50 nets, all tools", slowest, "s (goal ≤ 1)"
    yield "tools of those left unknown", unknown, "(goal 0)"
    slowest, unknown, asked = 0.0, 0, 0
    for seed in range(SETS):
        together = Together({"net": growing(random.Random(seed))})
        for name in together.certain.named:
            start = time.perf_counter()
            unknown += isinstance(together.way(name), Unknown)
            slowest = max(slowest, time.perf_counter() - start)
            asked += 1
    yield f"slowest question on {SETS} hand-built growing nets", slowest, "s (goal ≤ 1)"
    yield "questions on those left unknown", unknown, f"of {asked}"
    texts = {
        "of all kinds": ruleset(1_000),
        "on values, sums, sources, since and after": newer(1_000),
        "in one chain": chain(1_000),
        "with conditions and times": conditional(random.Random(1), 1_000),
    }
    for name, text in texts.items():
        rules = compile_rules(text)
        start = time.perf_counter()
        examine(rules)
        yield f"check of 1,000 rules {name}", time.perf_counter() - start, "s (goal ≤ 10)"


def newer(count: int) -> str:
    """Return rules of the later kinds in turn, each about its own tools except for every tenth."""
    kinds = (
        "require a{i} before b{i} for same input.k",
        "limit c{i} to 5 per 1d for each input.k",
        "limit d{i} to 100.50 of input.n per session",
        "require e{i} since f{i} before g{i} within 1h",
        "block h{i} when input.k not from user, a{i}",
        "after a{j} require human-approval before m{i}",
        "block n{i} after c{j} until human-approval",
        "require a{j} and e{j} before o{i}",
    )
    size = len(kinds)
    return "\n".join(kinds[i % size].format(i=i, j=i // 80 * 80) for i in range(count))


def growing(chance: random.Random) -> SkillNet:
    """Return up to 20 places and 20 transitions; most return what they take and more, without limit."""
    places = [f"p{i}" for i in range(chance.randint(4, 20))]
    transitions: list[Transition] = []
    for number in range(chance.randint(8, 20)):
        inputs = [
            p for p in chance.sample(places, chance.randint(1, 3)) for _ in range(chance.randint(1, 2))
        ]
        outputs = [*inputs, chance.choice(places)] if chance.random() < 0.6 else chance.sample(places, 2)
        transfers = [tuple(chance.sample(places, 2))] if chance.random() < 0.2 else []
        transitions.append(
            Transition(f"t{number}", inputs, outputs, (f"tool-{number}",), transfers=transfers)
        )
    marking = {p: chance.choice([0, 0, 1, 2]) for p in places}
    return define_skill_net("growing", places=places, transitions=transitions, initial_marking=marking)


def conditional(chance: random.Random, count: int) -> str:
    """Return rules about 40 tools that mostly apply to some inputs only, and sliding limits."""
    lines: list[str] = []
    for _ in range(count):
        first, then = (f"t{i}" for i in sorted(chance.sample(range(40), 2)))
        when = f'when input.field{chance.randrange(8)} = "{chance.randrange(30)}"'
        rule = chance.choice(
            [
                f"require {first} before {then}",
                f"require {first} before {then}",
                f"limit {first} to {chance.randint(1, 9)} per {chance.randint(1, 9)}h",
                f"require 2 human-approvals before {then}",
                f"block {first}",
            ]
        )
        lines.append(f"{rule} {when}")
    return "\n".join(lines)


def chain(count: int) -> str:
    """Return rules in which every tool requires the previous one."""
    return "\n".join(f"require t{i} before t{i + 1}" for i in range(count))
