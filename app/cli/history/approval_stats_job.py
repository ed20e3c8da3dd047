"""Search for changes that would have saved approvals, for the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ....engine.backtest.savings import Saved, saved
from ....engine.history.decisions.approval_stats import Fatigue, RuleFatigue
from ....engine.history.redaction.redaction import Redaction
from ....rules import condition_of


def suggested(
    database: Path,
    found: Fatigue,
    redaction: Redaction,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[RuleFatigue, Saved]]:
    """Rules that are always approved, with changes that would save requests. Raises `JournalError`."""
    for rule in found.rules:
        what = saved(
            database,
            rule,
            since=found.since,
            conditions=condition_of,
            redaction=redaction,
            cancelled=cancelled,
        )
        if what is not None:
            yield rule, what
