"""Results of a backtest, as consoles and other programs get them: plain fields, ready for a wire."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import ConfigDict

from ..gate.types import Outcome
from ..history.model.records import RuleRecord, View

Change: TypeAlias = Literal["same", "blocked", "asked", "allowed"]
"""Change of a call: none, or that it would now be blocked, asked about or allowed."""
Unit: TypeAlias = Literal["event", "message"]
"""Unit that the numbers of a recording count."""


class _OutcomeView(View):
    model_config = ConfigDict(from_attributes=True)


class RecordedOutcomeView(_OutcomeView):
    """Outcome of a call when it was recorded; see `RecordedOutcome`."""

    outcome: Outcome
    ran: bool
    shadow: bool
    denied: bool
    by: tuple[str, ...]
    net: str | None
    rule: RuleRecord | None
    reason: str | None


class TrialOutcomeView(_OutcomeView):
    """Verdict of the nets on it now; see `TrialOutcome`."""

    outcome: Outcome
    net: str | None
    rule: RuleRecord | None
    reason: str | None
    assumed: bool


class BacktestDivergence(View):
    """A call that the nets judge differently now.

    `event` is its number in the session, or its message's in a log; `name` what it counts as where a
    rule is against it; `input` its beginning, safe to show. `hypothetical` as for a judgement.
    """

    event: int
    at: datetime | None
    call_id: str
    tool: str
    name: str
    input: str
    change: Change
    then: RecordedOutcomeView
    now: TrialOutcomeView
    hypothetical: bool


class Count(View):
    """Number of calls, and of those among them after the session would have gone another way."""

    calls: int = 0
    hypothetical: int = 0


class ChangeCounts(View):
    """Judged calls: as many as `same`, `blocked`, `asked` and `allowed` newly have together."""

    judged: Count = Count()
    same: Count = Count()
    blocked: Count = Count()
    asked: Count = Count()
    allowed: Count = Count()


class SessionReport(View):
    """One session, or one conversation of a log: its counts and where it first diverges.

    `hypothetical_after` is the event after which the rest is hypothetical.
    """

    session: str
    unit: Unit
    counts: ChangeCounts
    first: BacktestDivergence | None = None
    hypothetical_after: int | None = None


class RuleCount(View):
    """Changes because of one net: `now` those that newly block or ask, `then` those that did.

    `net` is `None` for the gate's own blocks, such as an id in use, and where no net was recorded.
    """

    side: Literal["now", "then"]
    net: str | None
    rule: RuleRecord | None
    blocked: Count = Count()
    asked: Count = Count()
    allowed: Count = Count()


class ToolCount(View):
    """Number of calls by one name that are judged in another way now."""

    name: str
    calls: int


class Totals(View):
    """All sessions together, those judged so far when `cancelled`.

    `diverging` are those with a divergence, `following` those in which a net was off, or switched, since
    operators had it so when the session was recorded. `changed` counts the calls that are judged in
    another way by the name under which a rule is against them, or by their most specific one.
    """

    sessions: int = 0
    diverging: int = 0
    following: int = 0
    counts: ChangeCounts = ChangeCounts()
    rules: tuple[RuleCount, ...] = ()
    changed: tuple[ToolCount, ...] = ()
    cancelled: bool = False
