"""Answers to a console's long questions about recorded calls, part by part; see `source`."""

from __future__ import annotations

from ..history.decisions.approval_stats import Fatigue, RuleFatigue
from ..history.model.records import Record
from .report import BacktestDivergence, SessionReport, Totals
from .suggestions.suggestion import History, Narrowing, Suggestion


class Saved(Record):
    """Means that would have saved questions of one rule, in the sessions that were looked at.

    `asked` is how many it asked there, `alone` how many of these calls nothing else asked about or
    blocked. `uses` of a grant at each question would have saved `by_grant`. `when` is the condition that
    the rule would need, which would have saved `by_condition`.
    """

    sessions: int
    asked: int
    alone: int
    uses: int | None = None
    by_grant: int = 0
    when: str | None = None
    by_condition: int = 0


class Backtested(Record):
    """`done` of `total` calls are judged; `reports` are diverging sessions found since the last part."""

    done: int
    total: int
    reports: tuple[SessionReport, ...]
    totals: Totals
    finished: bool = False


class Judged(Record):
    """Calls that were judged since the last part, as they may be shown."""

    found: tuple[BacktestDivergence, ...]


class Statistics(Record):
    """First all that was counted, then one by one the rules that could ask less, and by what."""

    found: Fatigue | None = None
    rule: RuleFatigue | None = None
    what: Saved | None = None


class Suggested(Record):
    """`done` of `total` calls are read; then the suggestions, one a part, and at last what was read.

    Each call is read twice and counts twice. `history` has no suggestions in it: they came before.
    """

    done: int = 0
    total: int = 0
    suggestion: Suggestion | None = None
    history: History | None = None


class Narrowed(Record):
    """`done` of `total` calls are read; at last what came of it."""

    done: int = 0
    total: int = 0
    found: Narrowing | None = None
