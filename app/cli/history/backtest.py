"""`interlock backtest`: judges recorded calls by other rules, without running any of them."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, database, redaction, refuse
from ..options import add_journal, add_switch, positive
from .progress import INTERRUPTED, Progress

if TYPE_CHECKING:
    from ....engine.backtest import Backtest, Recording, SessionReport, Trial
    from ....engine.history.journal.reader import HistoryReader
    from ....rules import RuleSet

NOTHING = "Nothing was judged: the selection contains no calls."
LOGGED = (
    "Message logs hold no decisions of a gate: a call that has a result counts as allowed, and as a "
    "success unless the log says that it failed, which OpenAI's messages cannot say."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="rules files; all of them apply")
    parser.add_argument(
        "--session", metavar="SESSION", action="append", help="only this session; may be repeated"
    )
    parser.add_argument("--since", metavar="WHEN", help="sessions active since: 24h, 7d, or a date")
    parser.add_argument(
        "--messages",
        metavar="LOG",
        nargs="+",
        action="extend",
        help="OpenAI or Vercel AI SDK messages of other programs, as JSON or JSON lines",
    )
    parser.add_argument(
        "--at", metavar="EVENT", type=positive, help="only calls after this event of one session"
    )
    parser.add_argument(
        "--active",
        metavar="NET",
        nargs="+",
        action="extend",
        help="exactly these nets are active (default: as recorded; new nets are active)",
    )
    add_switch(parser, "--json", "print it as JSON")
    add_journal(parser)


def run(args: argparse.Namespace, *, zone: tzinfo | None = None, now: datetime | None = None) -> int:
    """Judge the selected sessions and message logs under the rules of the files.

    Prints each session that diverges, then the totals; with `--json` one object. Returns 0 if it ran,
    whatever it found, and 2 after printing an error about unreadable input.
    """
    from ....engine.backtest import Backtest, LogError, Trial
    from ....engine.history.errors import FoldError, JournalError, SessionNotFound
    from ....engine.net.net import NetError
    from ....rules import RuleError, load_rules
    from ...format.backtest import total_lines

    try:
        rules = load_rules(*args.files)
        trial = Trial.of(rules.registry, args.active)
        recorded, total = _recordings(args, trial, zone, now or datetime.now(UTC))
    except RuleError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except (NetError, JournalError, SessionNotFound, FoldError, ValueError) as error:
        return refuse("backtest", error)
    backtest = Backtest(trial, redaction(args))
    progress = Progress()
    reports = backtest.run(recorded, total=total, progress=progress)
    try:
        text = _text(rules, reports, backtest, zone, logged=bool(args.messages))
        for line in _json(rules, reports, backtest) if args.json else text:
            progress.clear()
            print(line)
    except KeyboardInterrupt:
        progress.clear()
        totals = backtest.totals.model_copy(update={"cancelled": True})
        for line in () if args.json else total_lines(totals):
            print(line)
        return INTERRUPTED
    except (JournalError, FoldError, LogError) as error:
        progress.clear()
        return refuse("backtest", error)
    return 0


def _recordings(
    args: argparse.Namespace, trial: Trial, zone: tzinfo | None, now: datetime
) -> tuple[Iterable[Recording], int | None]:
    """Return the recordings to judge, and their number of calls if the journal alone can supply it.

    Without a selection these are all sessions. Raises `ValueError` for a contradictory selection, and the
    errors of reading the journal.
    """
    from ....engine.backtest import conversations, count_calls, recorded_sessions, recordings
    from ....engine.history.journal.reader import open_reader
    from ....engine.history.model.since import moment

    if args.session and args.since:
        raise ValueError("give --session or --since, not both")
    if args.at is not None and (len(args.session or ()) != 1 or args.messages):
        raise ValueError("--at needs exactly one --session, and no --messages")
    files, texts = map(Path, args.messages or ()), trial.reads_texts
    logs = chain.from_iterable(conversations(path, texts=texts) for path in files)
    if args.messages and not (args.session or args.since):
        return logs, None
    reader = open_reader(database(args))
    if args.session:
        summaries = {summary.id: summary for summary in map(reader.session, args.session)}
        for summary in summaries.values():
            if summary.kind == "child":
                raise ValueError(
                    f"'{summary.id}' is a subagent's session: its calls were decided in "
                    f"'{summary.parent}'; name that one"
                )
        if args.at is not None:
            [session] = summaries
            return [_forked(reader, session, args.at, trial)], None
        total = sum(summary.calls for summary in summaries.values())
        recorded = recordings(reader.path, summaries, texts=texts)
    else:
        since = None if args.since is None else moment(args.since, now, zone)
        total = count_calls(reader.path, since)
        sessions = recorded_sessions(reader.path, since)
        recorded = recordings(reader.path, sessions, texts=texts)
    return chain(recorded, logs), None if args.messages else total


def _forked(reader: HistoryReader, session: str, at: int, trial: Trial) -> Recording:
    """Return the rest of a session after its event `at`.

    Raises `ValueError` if there is no such event.
    """
    from ....engine.backtest import fork

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
    from ....engine.core.sanitize import visible
    from ...format.backtest import WIDTH, session_lines, total_lines
    from ...format.text import count

    files = ", ".join(visible(file) for file in rules.paths)
    yield f"{files}: {count(len(rules), 'net')}"
    yield ""
    for report in reports:
        lines = list(session_lines(report, zone))
        yield from lines
        if lines:
            yield ""
    yield from total_lines(backtest.totals)
    if not backtest.totals.counts.judged.calls:
        yield NOTHING
    elif logged:
        yield ""
        yield from wrap(LOGGED, WIDTH)


def _json(rules: RuleSet, reports: Iterable[SessionReport], backtest: Backtest) -> Iterator[str]:
    """Yield one object in parts, so that a thousand sessions need no more memory than one."""
    yield "{"
    yield f'"files": {json.dumps(rules.paths)},'
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
    """Return JSON with escapes for all characters that a terminal might obey, hide or reorder."""
    return re.sub(r"[^\x00-\x7e]", lambda found: json.dumps(found[0])[1:-1], text)
