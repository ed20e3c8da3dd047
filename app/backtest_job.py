"""A backtest as a console wants it: rules files and a scope, made ready beside the screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path

from ..engine.backtest import Backtest, Recording, Trial, count_calls, recorded_sessions, recordings
from ..engine.history.queries import open_reader
from ..engine.history.redaction import Redaction
from ..engine.history.since import moment
from ..rules import RuleSet, load_rules


@dataclass(frozen=True, slots=True)
class Scope:
    """Which recorded sessions are judged: one by its id, those since a moment, or all."""

    session: str | None = None
    since: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Recordings that are ready to be judged; `total` is how many calls they hold."""

    rules: RuleSet
    backtest: Backtest
    found: Iterable[Recording]
    total: int


def rules_files(text: str) -> list[str]:
    """The files that an operator typed, separated by blanks or commas; names with blanks in quotes.

    Raises `ValueError` for a quote that is not closed, and when there is none.
    """
    words = shlex.shlex(text, posix=True)
    words.whitespace += ","
    words.whitespace_split = True
    words.commenters = words.escape = ""
    try:
        files = list(words)
    except ValueError as error:
        raise ValueError(f"'{text}' has a quote that is not closed; close it or leave it out") from error
    if not files:
        raise ValueError("Name a rules file to judge by, for example deploy.rules")
    return files


def prepare(
    database: Path,
    files: Iterable[str],
    scope: Scope,
    *,
    now: datetime,
    zone: tzinfo | None = None,
    redaction: Redaction | None = None,
) -> Job:
    """Compile `files` and find what is to be judged.

    Raises `RuleError` for rules that do not compile, `ValueError` for a moment that is none and for a
    subagent's session, and what reading the journal raises.
    """
    rules = load_rules(*files)
    reader = open_reader(database)
    if scope.session is not None:
        summary = reader.session(scope.session)
        if summary.kind == "child":
            raise ValueError(
                f"'{summary.id}' is a subagent's session: its calls were decided in '{summary.parent}'; "
                "judge that one"
            )
        found, total = recordings(reader.path, [summary.id]), summary.calls
    else:
        since = None if scope.since is None else moment(scope.since, now, zone)
        found = recordings(reader.path, recorded_sessions(reader.path, since))
        total = count_calls(reader.path, since)
    return Job(rules, Backtest(Trial.of(rules.registry), redaction), found, total)
