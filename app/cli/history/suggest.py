"""`interlock suggest`: proposes rules from the journal; writes nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, database, redaction, refuse
from ..options import add_journal, add_switch
from .progress import INTERRUPTED, Progress

if TYPE_CHECKING:
    from ....engine.backtest.suggestions import History

NO_CALLS = (
    "No recorded call to learn from: let an agent work under these rules first, or name its journal with "
    "--db."
)
WARNING = (
    "What held in this history says nothing about calls that are not in it. Read each rule, then write "
    "it into your file and run `interlock check` and `interlock test`."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="the rules to start from; all of them apply"
    )
    parser.add_argument("--since", metavar="WHEN", help="only calls since: 24h, 7d, or a date")
    add_switch(parser, "--json", "print it as JSON")
    add_journal(parser)


def run(args: argparse.Namespace, *, zone: tzinfo | None = None, now: datetime | None = None) -> int:
    """Print suggestions for the files from the journal, or with `--json` one object.

    Returns 0 even without suggestions, and 2 after printing an error about unreadable input.
    """
    from ....engine.backtest.suggestions.suggest import suggest
    from ....engine.history.errors import JournalError
    from ....engine.history.journal.reader import open_reader
    from ....engine.history.model.since import moment
    from ....rules import RuleError, read_rules
    from ...config.rules_writer import RulesWriter

    progress = Progress()
    try:
        rules = read_rules(*args.files)
        since = None if args.since is None else moment(args.since, now or datetime.now(UTC), zone)
        path = open_reader(database(args)).path
        history = suggest(path, rules, RulesWriter(), redaction(args), since=since, progress=progress)
    except RuleError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except (JournalError, ValueError) as error:
        return refuse("suggest", error)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        progress.clear()
    for line in [_json(history, args.files)] if args.json else _lines(history, zone):
        print(line.rstrip())
    return 0


def _lines(history: History, zone: tzinfo | None) -> Iterator[str]:
    from ...format.backtest import WIDTH
    from ...format.suggestions import NOTHING, history_line, suggestion_lines
    from ...format.text import wrap

    if not history.calls:
        yield from wrap(NO_CALLS, WIDTH)
        return
    yield from wrap(history_line(history), WIDTH)
    for number, suggestion in enumerate(history.suggestions, 1):
        yield ""
        yield from suggestion_lines(number, suggestion, zone)
    yield ""
    yield from wrap(WARNING if history.suggestions else NOTHING, WIDTH)


def _json(history: History, files: list[str]) -> str:
    from ....engine.core.sanitize import visible_json

    text = json.dumps(
        {
            "files": files,
            "sessions": history.sessions,
            "calls": history.calls,
            "approved": history.approved,
            "denied": history.denied,
            "suggestions": [each.model_dump(mode="json") for each in history.suggestions],
        },
        indent=2,
    )
    return visible_json(text)
