"""`interlock backtest`: judges recorded calls by other rules, without running anything."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import TextIO

from ....engine.backtest import (
    Backtest,
    LogError,
    Recording,
    SessionReport,
    Trial,
    conversations,
    count_calls,
    fork,
    recorded_sessions,
    recordings,
)
from ....engine.core.sanitize import visible
from ....engine.history.errors import FoldError, JournalError, SessionNotFound
from ....engine.history.journal.reader import HistoryReader, open_reader
from ....engine.history.model.since import moment
from ....engine.history.redaction.redaction import Redaction
from ....engine.net.net import NetError
from ....rules import RuleError, RuleSet, load_rules
from ...config.arguments import BAD_INPUT
from ...format.backtest import WIDTH, session_lines, total_lines
from ...format.text import count

INTERRUPTED = 130

_NOTHING = "Nothing was judged: what was chosen holds no call."
_LOGGED = (
    "In message logs no gate decided: a call that has a result counts as allowed, and as a success "
    "unless the log says that it failed, for which OpenAI's messages have no place."
)


@dataclass(frozen=True, slots=True)
class BacktestSelection:
    """Selection for a backtest: sessions by id or its beginning, those since a moment, message files.

    With nothing chosen, all sessions. `at` is an event of the one session, after which to begin.
    """

    sessions: Sequence[str] = ()
    since: str | None = None
    messages: Sequence[str] = ()
    at: int | None = None

    @property
    def journal(self) -> bool:
        return bool(self.sessions or self.since or not self.messages)


def run(
    files: Sequence[str],
    database: Path,
    chosen: BacktestSelection,
    *,
    out: TextIO,
    err: TextIO,
    active: Sequence[str] | None = None,
    json: bool = False,
    zone: tzinfo | None = None,
    now: datetime | None = None,
    redaction: Redaction | None = None,
) -> int:
    """Judge the `chosen` sessions of the journal in `database`, and logs, under the rules of `files`.

    Prints each session that diverges, then the totals, or with `json` one object. `active` fixes which
    nets are. Returns 0 when it ran, whatever it found; 2 after printing to `err` what cannot be read.
    """
    try:
        rules = load_rules(*files)
        trial = Trial.of(rules.registry, active)
        found, total = _found(database, chosen, trial, zone, now or datetime.now(UTC))
    except RuleError as error:
        print(error, file=err)
        return BAD_INPUT
    except (NetError, JournalError, SessionNotFound, FoldError, ValueError) as error:
        print(f"interlock backtest: {visible(str(error))}", file=err)
        return BAD_INPUT
    backtest = Backtest(trial, redaction)
    progress = _Progress(err)
    reports = backtest.run(found, total=total, progress=progress)
    try:
        logged = bool(chosen.messages)
        text = _text(rules, reports, backtest, zone, logged=logged)
        for line in _json(rules, reports, backtest) if json else text:
            progress.clear()
            print(line, file=out)
    except KeyboardInterrupt:
        progress.clear()
        for line in () if json else total_lines(backtest.totals.model_copy(update={"cancelled": True})):
            print(line, file=out)
        return INTERRUPTED
    except (JournalError, FoldError, LogError) as error:
        progress.clear()
        print(f"interlock backtest: {visible(str(error))}", file=err)
        return BAD_INPUT
    return 0


def _found(
    database: Path, chosen: BacktestSelection, trial: Trial, zone: tzinfo | None, now: datetime
) -> tuple[Iterable[Recording], int | None]:
    """The recordings to judge, and their number of calls, where the journal alone can tell.

    Raises `ValueError` for a contradictory selection, and what reading the journal raises.
    """
    if chosen.sessions and chosen.since:
        raise ValueError("give --session or --since, not both")
    if chosen.at is not None and (len(chosen.sessions) != 1 or chosen.messages):
        raise ValueError("--at needs exactly one --session, and no --messages")
    logs = chain.from_iterable(conversations(Path(name)) for name in chosen.messages)
    if not chosen.journal:
        return logs, None
    reader = open_reader(database)
    if chosen.sessions:
        summaries = {summary.id: summary for summary in map(reader.session, chosen.sessions)}
        for summary in summaries.values():
            if summary.kind == "child":
                raise ValueError(
                    f"'{summary.id}' is a subagent's session: its calls were decided in "
                    f"'{summary.parent}'; name that one"
                )
        if chosen.at is not None:
            [session] = summaries
            return [_forked(reader, session, chosen.at, trial)], None
        total = sum(summary.calls for summary in summaries.values())
        recorded = recordings(reader.path, summaries)
    else:
        since = None if chosen.since is None else moment(chosen.since, now, zone)
        total = count_calls(reader.path, since)
        recorded = recordings(reader.path, recorded_sessions(reader.path, since))
    return chain(recorded, logs), None if chosen.messages else total


def _forked(reader: HistoryReader, session: str, at: int, trial: Trial) -> Recording:
    """The rest of a session after its event `at`. Raises `ValueError` when it has no such event."""
    events = reader.count(session)
    if at > events:
        raise ValueError(f"session '{session}' has events 1 to {events}, not {at}; choose one of them")
    return fork(reader.events(session), at, trial)


def _text(
    rules: RuleSet,
    reports: Iterable[SessionReport],
    backtest: Backtest,
    zone: tzinfo | None,
    *,
    logged: bool,
) -> Iterator[str]:
    files = ", ".join(visible(file) for file in rules.sources)
    yield f"{files}: {count(len(rules), 'net')}"
    yield ""
    for report in reports:
        lines = list(session_lines(report, zone))
        yield from lines
        if lines:
            yield ""
    yield from total_lines(backtest.totals)
    if not backtest.totals.counts.judged.calls:
        yield _NOTHING
    elif logged:
        yield ""
        yield from wrap(_LOGGED, WIDTH)


def _json(rules: RuleSet, reports: Iterable[SessionReport], backtest: Backtest) -> Iterator[str]:
    """One object, written in parts: a thousand sessions need no more memory than one."""
    yield "{"
    yield f'"files": {json_text.dumps(list(rules.sources))},'
    yield '"sessions": ['
    separator = ""
    for report in reports:
        if report.first is not None:
            yield f"{separator}{_ascii(report.model_dump_json())}"
            separator = ","
    yield "],"
    yield f'"totals": {_ascii(backtest.totals.model_dump_json())}'
    yield "}"


def _ascii(text: str) -> str:
    """JSON with escapes for all characters that a terminal might obey, hide or reorder."""
    return re.sub(r"[^\x00-\x7e]", lambda found: json_text.dumps(found[0])[1:-1], text)


class _Progress:
    """Progress line on a terminal, which is removed when other output is printed."""

    def __init__(self, err: TextIO) -> None:
        self._err = err if err.isatty() else None
        self._shown = False

    def __call__(self, done: int, total: int | None) -> None:
        if self._err is not None:
            of = "" if total is None else f" of {total:,}"
            print(f"\r  {done:,}{of} calls", end="", file=self._err, flush=True)
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=self._err, flush=True)
            self._shown = False
