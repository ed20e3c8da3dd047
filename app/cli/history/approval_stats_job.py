"""Looking for what would have saved approvals, for the command line."""

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
    """The rules that are always approved, with what would have saved questions. Raises `JournalError`."""
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
