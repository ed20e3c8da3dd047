"""Rules proved together: dense sets of 50, and every question about 1,000 rules."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from interlock.engine.verify import Together, Unknown
from interlock.rules import compile_rules
from interlock.rules.findings import examine

from ..support.dense import dense
from .gate import ruleset

SETS = 14


def measure() -> Iterator[tuple[str, float, str]]:
    """The slowest of the dense sets, all its tools asked about; then whole checks of 1,000 rules."""
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
    for name, text in (("of all kinds", ruleset(1_000)), ("in one chain", chain(1_000))):
        rules = compile_rules(text)
        start = time.perf_counter()
        examine(rules)
        yield f"check of 1,000 rules {name}", time.perf_counter() - start, "s (goal ≤ 10)"


def chain(count: int) -> str:
    """Every tool requires the one before it."""
    return "\n".join(f"require t{i} before t{i + 1}" for i in range(count))
