"""Counting a hundred thousand approvals, and judging again those of a rule that is always approved."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median

from interlock.app.cli.history.approvals import suggested
from interlock.engine.history.decisions.approval_stats import fatigue
from interlock.engine.history.redaction.redaction import Redaction

from ..support.approvals import many
from ..support.decisions import NOW

APPROVALS = 100_000
TURNS = 3


def measure() -> Iterator[tuple[str, float, str]]:
    """Medians of a few turns."""
    with tempfile.TemporaryDirectory() as folder:
        path = many(Path(folder) / "approvals.db", APPROVALS)
        found = fatigue(path)
        assert found.total.requests == APPROVALS
        name = f"fatigue: {APPROVALS:,} approvals"
        yield f"{name} counted", _ms(lambda: fatigue(path)), "ms (goal ≤ 2000)"
        recent = NOW + timedelta(seconds=APPROVALS * 9)
        yield f"{name}, the last tenth", _ms(lambda: fatigue(path, recent)), "ms"
        less = list(suggested(path, found, Redaction()))
        assert len(less) == 1
        judged = _ms(lambda: list(suggested(path, found, Redaction())))
        yield f"fatigue: {less[0][1].asked:,} questions judged again", judged, "ms"


def _ms(question: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        question()
        times.append(time.perf_counter() - begin)
    return median(times) * 1000
