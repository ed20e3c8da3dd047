"""Results of a backtest, as consoles and other programs get them: plain fields, ready for a wire."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..gate.types import Outcome
from ..history.model.records import RuleRecord
from .judge import Change
from .recording import Unit


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class ThenView(_View):
    """Outcome of a call when it was recorded; see `Then`."""

    outcome: Outcome
    ran: bool
    shadow: bool
    denied: bool
    by: tuple[str, ...]
    net: str | None
    rule: RuleRecord | None
    reason: str | None


class NowView(_View):
    """Verdict of the nets on it now; see `Now`."""

    outcome: Outcome
    net: str | None
    rule: RuleRecord | None
    reason: str | None
    assumed: bool


class Divergence(_View):
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
    then: ThenView
    now: NowView
    hypothetical: bool


class Count(_View):
    """Number of calls, and of those among them after the session would have gone another way."""

    calls: int = 0
    hypothetical: int = 0


class ChangeCounts(_View):
    """Judged calls: as many as `same`, `blocked`, `asked` and `allowed` newly have together."""

    judged: Count = Count()
    same: Count = Count()
    blocked: Count = Count()
    asked: Count = Count()
    allowed: Count = Count()


class SessionReport(_View):
    """One session, or one conversation of a log: its counts and where it first diverges.

    `hypothetical_after` is the event after which the rest is hypothetical.
    """

    session: str
    unit: Unit
    counts: ChangeCounts
    first: Divergence | None = None
    hypothetical_after: int | None = None


class RuleCount(_View):
    """Changes because of one net: `now` those that newly block or ask, `then` those that did.

    `net` is `None` for the gate's own blocks, such as an id in use, and where no net was recorded.
    """

    side: Literal["now", "then"]
    net: str | None
    rule: RuleRecord | None
    blocked: Count = Count()
    asked: Count = Count()
    allowed: Count = Count()


class Totals(_View):
    """All sessions together, those judged so far when `cancelled`.

    `diverging` are those with a divergence, `following` those in which a net was off, or switched, since
    operators had it so when the session was recorded.
    """

    sessions: int = 0
    diverging: int = 0
    following: int = 0
    counts: ChangeCounts = ChangeCounts()
    rules: tuple[RuleCount, ...] = ()
    cancelled: bool = False
