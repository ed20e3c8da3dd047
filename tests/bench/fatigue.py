"""Time to count a hundred thousand approvals, and to find precedents of a waiting request.

Approvals of a rule that is always approved are judged again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median

from interlock.app.cli.history.approvals import suggested
from interlock.engine.history.decisions.approval_stats import fatigue
from interlock.engine.history.decisions.precedents import PrecedentIndex
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import ApprovalRequested
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.history.redaction.redaction import Redaction

from ..support.approvals import many
from ..support.decisions import NOW

APPROVALS = 100_000
TURNS = 3


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure medians of a few turns."""
    with tempfile.TemporaryDirectory() as folder:
        path = many(Path(folder) / "approvals.db", APPROVALS)
        found = fatigue(path)
        assert found.total.requests == APPROVALS
        name = f"fatigue: {APPROVALS:,} approvals"
        yield f"{name} counted", _ms(lambda: fatigue(path)), "ms (goal ≤ 2000)"
        recent = NOW + timedelta(seconds=APPROVALS * 9)
        yield f"{name}, the last tenth", _ms(lambda: fatigue(path, recent)), "ms"
        yield from _look_back(path)
        less = list(suggested(path, found, Redaction()))
        assert len(less) == 1
        judged = _ms(lambda: list(suggested(path, found, Redaction())))
        yield f"fatigue: {less[0][1].asked:,} questions judged again", judged, "ms"


def _look_back(path: Path) -> Iterator[tuple[str, float, str]]:
    """Measure precedents of a waiting request: the first query reads the journal, others new events."""
    recorded = open_reader(path).since(0, 50)
    body = next(each.body for each in recorded if isinstance(each.body, ApprovalRequested))
    shared = set(ApprovalState.model_fields) & set(ApprovalRequested.model_fields)
    asked = ApprovalState.model_validate(
        {
            **{name: getattr(body, name) for name in shared},
            **{"id": "ap", "session": recorded[0].session, "agent": "bot", "since": NOW},
        }
    )
    index = PrecedentIndex(path)
    begin = time.perf_counter()
    found = index.of(asked, (), lambda body: body.input)
    first = (time.perf_counter() - begin) * 1000
    assert found.approved + found.denied > 0
    yield f"seen before: {APPROVALS:,} approvals, first look", first, "ms (in a thread)"
    yield "seen before: next look", _ms(lambda: index.of(asked, (), lambda body: body.input)), "ms"


def _ms(question: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        question()
        times.append(time.perf_counter() - begin)
    return median(times) * 1000
