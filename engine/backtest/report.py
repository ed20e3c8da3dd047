"""Results of a backtest for consoles and other programs: plain fields, ready for a wire."""

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
    """Verdict of the nets on the call now; see `TrialOutcome`."""

    outcome: Outcome
    net: str | None
    rule: RuleRecord | None
    reason: str | None
    assumed: bool


class BacktestDivergence(View):
    """A call that the nets judge differently now.

    `event` is its number in the session, or its message's in a log. `name` is the name under which a rule
    is against it. `input` is the beginning of its input, safe to show. `hypothetical` is as for a
    judgement.
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
    """Number of calls, and how many of them came after the session would have ended differently."""

    calls: int = 0
    hypothetical: int = 0


class ChangeCounts(View):
    """Number of judged calls: all, the `same`, and the newly `blocked`, `asked` and `allowed`."""

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
    """Changes caused by one net: `now` are calls that it newly blocks or asks about, `then` those it did.

    `net` is `None` for the gate's own blocks, such as an id in use, and if no net was recorded.
    """

    side: Literal["now", "then"]
    net: str | None
    rule: RuleRecord | None
    blocked: Count = Count()
    asked: Count = Count()
    allowed: Count = Count()


class ToolCount(View):
    """Number of calls with one name that are judged differently now."""

    name: str
    calls: int


class Totals(View):
    """Totals of all sessions, or of those judged so far if `cancelled`.

    `diverging` are sessions with a divergence. `following` are those in which a net was off, or switched,
    because operators had switched it so when the session was recorded. `changed` counts the calls that
    are judged differently, by the name under which a rule is against them, or by their most specific
    name.
    """

    sessions: int = 0
    diverging: int = 0
    following: int = 0
    counts: ChangeCounts = ChangeCounts()
    rules: tuple[RuleCount, ...] = ()
    changed: tuple[ToolCount, ...] = ()
    cancelled: bool = False
