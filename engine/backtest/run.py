"""A backtest: recordings judged one after the other and counted, until it is done or cancelled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias, TypeVar, cast

from pydantic import JsonValue

from ..history.fold.event_text import shortened
from ..history.model.records import RuleRecord
from ..history.redaction.redaction import Redaction
from ..net.net import Input
from .judge import Judge, Judgement, TrialOutcome
from .recording import RecordedOutcome, Recording
from .report import (
    BacktestDivergence,
    Change,
    ChangeCounts,
    Count,
    RecordedOutcomeView,
    RuleCount,
    SessionReport,
    ToolCount,
    Totals,
    TrialOutcomeView,
)
from .trial import Trial
from .uses import TrialUses

Progress: TypeAlias = Callable[[int, int | None], object]
"""Receives the number of judged calls, and their total if known."""

EVERY = 1_000
"""Calls between two checks for cancellation."""

OutcomeT = TypeVar("OutcomeT", RecordedOutcome, TrialOutcome)
_Side: TypeAlias = Literal["now", "then"]


class _Tally:
    """Running counts by change: all calls, and the hypothetical ones among them."""

    def __init__(self) -> None:
        self.calls: dict[Change, int] = {"same": 0, "blocked": 0, "asked": 0, "allowed": 0}
        self.hypothetical: dict[Change, int] = dict(self.calls)

    def add(self, change: Change, hypothetical: bool) -> None:
        self.calls[change] += 1
        if hypothetical:
            self.hypothetical[change] += 1

    def take(self, other: _Tally) -> None:
        for change in self.calls:
            self.calls[change] += other.calls[change]
            self.hypothetical[change] += other.hypothetical[change]

    def of(self, change: Change) -> Count:
        return Count(calls=self.calls[change], hypothetical=self.hypothetical[change])

    @property
    def judged(self) -> Count:
        return Count(calls=sum(self.calls.values()), hypothetical=sum(self.hypothetical.values()))

    def counts(self) -> ChangeCounts:
        return ChangeCounts(
            judged=self.judged,
            same=self.of("same"),
            blocked=self.of("blocked"),
            asked=self.of("asked"),
            allowed=self.of("allowed"),
        )


USUAL = Redaction()
"""Default redaction."""


class _Session:
    """One recording in progress; `plain` counts unchanged calls that are not hypothetical, nearly all."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self.tally = _Tally()
        self.first: Judgement | None = None
        self.plain = 0
        self.last = 0
        self._hypothetical_after: int | None = None

    def add(self, judgement: Judgement, change: Change) -> None:
        if judgement.hypothetical and self._hypothetical_after is None:
            self._hypothetical_after = self.last
        self.tally.add(change, judgement.hypothetical)
        if change != "same" and self.first is None:
            self.first = judgement

    def report(self, recording: Recording) -> SessionReport:
        return SessionReport(
            session=recording.name,
            unit=recording.unit,
            counts=self.tally.counts(),
            first=None if self.first is None else divergence(self.first, self._redaction),
            hypothetical_after=self._hypothetical_after,
        )


class Backtest:
    """Judges recordings under a trial and keeps the totals.

    Reports are returned as sessions are judged, so that many need no more memory than one. Raises
    `NetError` for nets that never come to rest. Calls are judged as recorded, and reported masked by
    `redaction`.
    """

    def __init__(self, trial: Trial, redaction: Redaction | None = None) -> None:
        self._redaction = redaction or USUAL
        self._uses = TrialUses() if any(net.shared for net in trial.nets.values()) else None
        self._judge = Judge(trial, self._uses)
        self._tally = _Tally()
        self._rules: dict[tuple[_Side, str | None, str | None], tuple[RuleRecord | None, _Tally]] = {}
        self._changes_by_tool: Counter[str] = Counter()
        self._sessions = 0
        self._diverging = self._following = 0
        self._done = 0
        self._cancelled = False
        self._under_way: _Session | None = None

    @property
    def totals(self) -> Totals:
        """Totals of the calls judged so far, including those of a session in progress."""
        tally, now = _Tally(), self._under_way
        tally.take(self._tally)
        calls = 0
        if now is not None:
            tally.take(now.tally)
            tally.calls["same"] += now.plain
            calls = now.tally.judged.calls + now.plain
        return Totals(
            sessions=self._sessions + (calls > 0),
            diverging=self._diverging + (now is not None and now.first is not None),
            following=self._following + (self._judge.followed and calls > 0),
            counts=tally.counts(),
            rules=tuple(
                RuleCount(
                    side=side,
                    net=net,
                    rule=rule,
                    blocked=tally.of("blocked"),
                    asked=tally.of("asked"),
                    allowed=tally.of("allowed"),
                )
                for (side, net, _), (rule, tally) in self._rules.items()
            ),
            changed=tuple(
                ToolCount(name=name, calls=n) for name, n in self._changes_by_tool.most_common()
            ),
            cancelled=self._cancelled,
        )

    def run(
        self,
        recordings: Iterable[Recording],
        *,
        total: int | None = None,
        progress: Progress | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[SessionReport]:
        """A report on every recording that contains a call.

        Every thousand calls and after each recording, `progress` gets the number of judged calls and
        `total`, and `cancelled` is checked. Once that is true nothing more is reported; the judged calls
        of a session in progress count in the totals. Raises what reading the recordings raises.
        """

        def report_progress() -> bool:
            if progress is not None:
                progress(self._done, total)
            self._cancelled = cancelled is not None and cancelled()
            return not self._cancelled

        for recording in self._with_counts(recordings, cancelled):
            session = self._under_way = _Session(self._redaction)
            for judgement in self._judge.judge(recording.items, recording.start):
                call = judgement.call
                if judgement.now.outcome == call.then.outcome and not judgement.hypothetical:
                    session.plain += 1
                else:
                    change = judgement.change
                    session.add(judgement, change)
                    if change != "same":
                        self._blame(judgement, change)
                session.last = call.seq
                self._done += 1
                if self._done % EVERY == 0 and not report_progress():
                    break
            self._under_way = None
            session.tally.calls["same"] += session.plain
            calls = session.tally.judged.calls
            self._sessions += calls > 0
            self._diverging += session.first is not None
            self._following += self._judge.followed and calls > 0
            self._tally.take(session.tally)
            if self._cancelled:
                return
            if calls:
                yield session.report(recording)
            if not report_progress():
                return

    def _with_counts(
        self, recordings: Iterable[Recording], cancelled: Callable[[], bool] | None
    ) -> Iterator[Recording]:
        """The recordings; for limits over sessions, all are kept in memory and judged once before."""
        uses = self._uses
        if uses is None:
            yield from recordings
            return
        all_recordings: list[Recording] = []
        for number, recording in enumerate(recordings):
            all_recordings.append(replace(recording, items=list(recording.items)))
            uses.session = str(number)
            for _ in self._judge.judge(all_recordings[-1].items, recording.start):
                pass
            if cancelled is not None and cancelled():
                break
        uses.counting = False
        for number, recording in enumerate(all_recordings):
            uses.session = str(number)
            yield recording

    def _blame(self, judgement: Judgement, change: Change) -> None:
        """Count a change for the net that causes it: the one that no longer applies, or the new one."""
        call = judgement.call
        self._changes_by_tool[judgement.now.name or next(iter(call.names), call.tool)] += 1
        side: _Side = "then" if change == "allowed" else "now"
        outcome = judgement.call.then if side == "then" else judgement.now
        rule = outcome.rule
        key = (side, outcome.net, None if rule is None else f"{rule.where} {rule.text}")
        if key not in self._rules:
            self._rules[key] = (rule, _Tally())
        self._rules[key][1].add(change, judgement.hypothetical)


def divergence(judgement: Judgement, redaction: Redaction = USUAL) -> BacktestDivergence:
    """A judgement in plain fields; the agents' text is masked, cut short and safe to show."""
    call, now = judgement.call, judgement.now
    return BacktestDivergence(
        event=call.seq,
        at=call.time,
        call_id=call.call_id,
        tool=call.tool,
        name=now.name or (call.names[0] if call.names else call.tool),
        input=short_input(call.input, redaction),
        change=judgement.change,
        then=RecordedOutcomeView.model_validate(_masked(judgement.call.then, redaction)),
        now=TrialOutcomeView.model_validate(_masked(now, redaction)),
        hypothetical=judgement.hypothetical,
    )


def short_input(values: Input, redaction: Redaction = USUAL) -> str:
    """A call's input on one line, masked and cut short."""
    return shortened(_text(redaction.fields(cast("dict[str, JsonValue]", dict(values)))))


def _masked(outcome: OutcomeT, redaction: Redaction) -> OutcomeT:
    """An outcome with its reason masked."""
    return outcome if outcome.reason is None else replace(outcome, reason=redaction.text(outcome.reason))


def _text(arguments: Input) -> str:
    """A call's input on one line: a single text unchanged, anything else as JSON."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(dict(arguments), ensure_ascii=False, default=str) if arguments else ""
