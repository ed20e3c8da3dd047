"""`interlock history approvals`: statistics of approvals, and suggestions for fewer."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from ....engine.backtest.answers import Saved
from ....engine.backtest.savings import saved
from ....engine.history.database.location import Location
from ....engine.history.decisions.approval_stats import Fatigue, RuleFatigue, Tally, fatigue
from ....engine.history.errors import JournalError
from ....engine.history.journal.reader import open_reader
from ....engine.history.model.since import moment
from ....engine.history.redaction.redaction import Redaction
from ....rules import condition_of
from ...config.arguments import database, redaction, refuse
from ...format.approval_stats import WARNING, heading, row, rule_notes, rule_text, saved_lines, total_line
from ...format.text import shown, wrap

WIDTH = 80


def run(args: argparse.Namespace, *, zone: tzinfo | None = None, now: datetime | None = None) -> int:
    """Print the statistics. Returns the exit code: 2 for an invalid time or an unreadable journal."""
    try:
        start = None if args.since is None else moment(args.since, now or datetime.now(UTC), zone)
        path = open_reader(database(args)).path
        found = fatigue(path, start)
        less = list(suggested(path, found, redaction(args)))
    except (JournalError, ValueError) as error:
        return refuse("history approvals", error)
    width = max(60, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else WIDTH
    for line in [_json(found, less)] if args.json else _lines(found, less, width, zone):
        print(line.rstrip())
    return 0


def suggested(
    journal: Location, found: Fatigue, redaction: Redaction
) -> Iterator[tuple[RuleFatigue, Saved]]:
    """Yield rules whose requests are always approved, with changes that would save requests.

    Raises `JournalError`.
    """
    for rule in found.rules:
        less = saved(journal, rule, since=found.since, conditions=condition_of, redaction=redaction)
        if less is not None:
            yield rule, less


def _lines(
    found: Fatigue, less: list[tuple[RuleFatigue, Saved]], width: int, zone: tzinfo | None
) -> Iterator[str]:
    since = "" if found.since is None else f" since {found.since.astimezone(zone):%Y-%m-%d %H:%M}"
    yield from wrap(f"Approvals{since}: {total_line(found)}", width)
    if not found.rules:
        return
    yield ""
    yield heading("by rule", width)
    for rule in found.rules:
        yield row(shown(rule.net), rule.tally, width, always=rule.always)
        yield from (f"    {line}" for line in wrap(rule_text(rule) + rule_notes(rule), width - 4))
    if found.operators:
        yield ""
        yield heading("by operator", width)
        for operator in found.operators:
            yield row(shown(operator.name), operator.tally, width)
    for rule, change in less:
        yield ""
        yield from wrap(rule_text(rule), width)
        for sentence in saved_lines(rule, change):
            yield from (f"    {line}" for line in wrap(sentence, width - 4))
    if less:
        yield ""
        yield from wrap(WARNING, width)


def _json(found: Fatigue, less: list[tuple[RuleFatigue, Saved]]) -> str:
    return json.dumps(
        {
            "since": None if found.since is None else found.since.isoformat(),
            "total": _tally(found.total),
            "rules": [
                {
                    "net": rule.net,
                    "rule": None if rule.rule is None else rule.rule.text,
                    "place": None if rule.rule is None else rule.rule.where,
                    "always_approved": rule.always,
                    "risk_high": rule.high,
                    "people": rule.people,
                    "approved_by": list(rule.by),
                    **_tally(rule.tally),
                }
                for rule in found.rules
            ],
            "operators": [{"name": o.name, **_tally(o.tally)} for o in found.operators],
            "suggestions": [
                {
                    "net": rule.net,
                    "sessions": change.sessions,
                    "asked": change.asked,
                    "grant_uses": change.uses,
                    "saved_by_grant": change.by_grant,
                    "condition": change.when,
                    "saved_by_condition": change.by_condition,
                }
                for rule, change in less
            ],
        },
        indent=2,
    )


def _tally(tally: Tally) -> dict[str, object]:
    return {
        "requests": tally.requests,
        "open": tally.open,
        "approved": tally.approved,
        "denied": tally.denied,
        "edited": tally.edited,
        "expired": tally.expired,
        "withdrawn": tally.withdrawn,
        "approve_rate": tally.rate,
        "median_seconds": tally.seconds,
        "within_2_seconds": tally.quick,
    }
