"""Long-running work on a journal, done in a thread that reports its progress; see `BacktestSource`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar

from ..history.database.location import Location
from ..history.decisions.approval_stats import fatigue
from ..history.decisions.call_pages import count_calls, recorded_sessions
from ..history.journal.reader import open_reader
from ..history.model.events import JournalEvent
from ..history.model.state import SessionState
from ..history.redaction.redaction import Redaction
from ..net.net import SkillNet
from .answers import Backtested, Judged, Narrowed, Statistics, Suggested
from .journal_reader import recordings
from .judge import Judge
from .recording import Recording
from .report import BacktestDivergence, SessionReport
from .rules_compiler import Language
from .run import Backtest, Progress, divergence
from .savings import saved
from .suggestions.narrowing import narrow
from .suggestions.suggest import suggest
from .threaded import ProgressStream
from .trial import Trial, fork

MOST_REPORTS = 200
"""Most sessions in one part."""
MOST_JUDGED = 1_000
"""Most calls in one part."""

Rules: TypeAlias = Mapping[str, str]
"""Texts of rules by file name."""


class _Unwanted(Exception):  # noqa: N818 - ends work that nobody waits for
    """Nobody is listening any more."""


def backtest_all(
    parts: ProgressStream[Backtested],
    database: Location,
    nets: Mapping[str, SkillNet],
    session: str | None,
    since: datetime | None,
    redaction: Redaction,
) -> None:
    """Judge recorded sessions by `nets`; see `DecisionApi.backtest`."""
    trial = Trial.of(nets)
    selection, total = chosen(database, session, since, texts=trial.reads_texts)
    backtest = Backtest(trial, redaction)
    reports: list[SessionReport] = []

    def tell(done: int, finished: bool = False) -> None:
        totals = backtest.totals
        for start in range(0, len(reports) or 1, MOST_REPORTS):
            part = tuple(reports[start : start + MOST_REPORTS])
            last = finished and start + MOST_REPORTS >= len(reports)
            parts.tell(Backtested(done=done, total=total, reports=part, totals=totals, finished=last))
        reports.clear()

    def progress(done: int, _: int | None) -> None:
        if parts.due():
            tell(done)

    for report in backtest.run(selection, total=total, progress=progress, cancelled=parts.stop.is_set):
        if report.first is not None:
            reports.append(report)
    tell(backtest.totals.counts.judged.calls, finished=True)


def count_approvals(
    parts: ProgressStream[Statistics],
    database: Location,
    since: datetime | None,
    language: Language,
    redaction: Redaction,
) -> None:
    """Count approvals, then changes that would save some; see `DecisionApi.approval_statistics`."""
    statistics = fatigue(database, since, stop=parts.stop)
    parts.tell(Statistics(found=statistics))
    for rule in statistics.rules:
        what = saved(
            database,
            rule,
            since=since,
            conditions=language.condition,
            redaction=redaction,
            cancelled=parts.stop.is_set,
        )
        if what is not None:
            parts.tell(Statistics(rule=rule, what=what))


def suggest_rules(
    parts: ProgressStream[Suggested],
    database: Location,
    rules: Rules,
    since: datetime | None,
    language: Language,
    redaction: Redaction,
) -> None:
    """Suggest changes of `rules` from a journal; see `DecisionApi.suggest_rules`."""

    path = open_reader(database).path
    progress = _telling(parts, lambda done, total: Suggested(done=done, total=total))
    history = suggest(path, rules, language.writer(), redaction, since=since, progress=progress)
    for suggestion in history.suggestions:
        parts.tell(Suggested(suggestion=suggestion))
    parts.tell(Suggested(history=history.model_copy(update={"suggestions": ()})))


def narrow_rule(
    parts: ProgressStream[Narrowed],
    database: Location,
    rules: Rules,
    place: tuple[str, int],
    when: str,
    since: datetime | None,
    language: Language,
    redaction: Redaction,
) -> None:
    """Judge the rule at a `place` with a further condition; see `DecisionApi.narrow_rule`."""
    condition = language.condition(when)
    if condition is None:
        raise ValueError(f"'{when}' is not a condition")
    path = open_reader(database).path
    narrowing = narrow(
        path,
        rules,
        *place,
        condition,
        language.writer(),
        redaction,
        since=since,
        progress=_telling(parts, lambda done, total: Narrowed(done=done, total=total)),
    )
    parts.tell(Narrowed(found=narrowing))


PartT = TypeVar("PartT")


def _telling(parts: ProgressStream[PartT], part: Callable[[int, int], PartT]) -> Progress:
    """Report progress as parts of a stream; ends the work if nobody is listening any more."""

    def progress(done: int, total: int | None) -> None:
        if parts.stop.is_set():
            raise _Unwanted
        if parts.due():
            parts.tell(part(done, total or 0))

    return progress


def chosen(
    database: Location, session: str | None, since: datetime | None, *, texts: bool = False
) -> tuple[Iterable[Recording], int]:
    """The selected recordings, and how many calls they contain.

    Raises `ValueError` for a subagent's session, and what reading the journal raises.
    """
    reader = open_reader(database)
    if session is None:
        selection = recordings(reader.path, recorded_sessions(reader.path, since), texts=texts)
        return selection, count_calls(reader.path, since)
    summary = reader.session(session)
    if summary.kind == "child":
        raise ValueError(
            f"'{summary.id}' is a subagent's session: its calls were decided in '{summary.parent}'; "
            "judge that one"
        )
    return recordings(reader.path, [summary.id], texts=texts), summary.calls


def judge_rest(
    parts: ProgressStream[Judged],
    events: Iterable[JournalEvent],
    at: int,
    active: Sequence[str],
    rules: Rules | None,
    language: Language,
    redaction: Redaction,
) -> None:
    """Judge the events after event `at`; see `DecisionApi.what_if`."""
    trials: list[Trial] = []

    def trial(state: SessionState) -> Trial:
        if rules is None:
            trials.append(Trial.recorded(state, active, conditions=language.condition))
        else:
            trials.append(Trial.of(language.compiled(rules), active))
        return trials[0]

    recording = fork(events, at, trial)
    divergences: list[BacktestDivergence] = []
    for judgement in Judge(trials[0]).judge(recording.items, recording.start) if trials else ():
        divergences.append(divergence(judgement, redaction))
        if parts.stop.is_set():
            return
        if parts.due() or len(divergences) == MOST_JUDGED:
            parts.tell(Judged(found=tuple(divergences)))
            divergences.clear()
    parts.tell(Judged(found=tuple(divergences)))
