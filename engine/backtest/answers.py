"""Answers, in parts, to a console's long-running questions about recorded calls; see `source`."""

from __future__ import annotations

from ..history.decisions.approval_stats import Fatigue, RuleFatigue
from ..history.model.records import Record
from .report import BacktestDivergence, SessionReport, Totals
from .suggestions.suggestion import History, Narrowing, Suggestion


class Saved(Record):
    """Means that would have saved questions of one rule in the examined sessions.

    `asked` is how many questions it asked there, and `alone` for how many of these calls no other rule
    asked or blocked. A grant with `uses` at each question would have saved `by_grant` questions. `when`
    is a condition on the rule that would have saved `by_condition`.
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
    """Calls that were judged since the last part, masked."""

    found: tuple[BacktestDivergence, ...]


class Statistics(Record):
    """Statistics in parts: first all counts, then, one by one, rules that could ask less."""

    found: Fatigue | None = None
    rule: RuleFatigue | None = None
    what: Saved | None = None


class Suggested(Record):
    """`done` of `total` calls are read; then the suggestions, one per part, and finally the `history`.

    Each call is read twice and counts twice. `history` contains no suggestions, because they came before.
    """

    done: int = 0
    total: int = 0
    suggestion: Suggestion | None = None
    history: History | None = None


class Narrowed(Record):
    """`done` of `total` calls are read; the last part has the result."""

    done: int = 0
    total: int = 0
    found: Narrowing | None = None
