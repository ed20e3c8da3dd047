"""Backtest in a console: rules files and a scope, prepared in a worker."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from ...engine.history.model.since import moment
from ...engine.hub.api import DecisionApi
from ...rules import read_rules

if TYPE_CHECKING:
    from ...engine.backtest.answers import Backtested


@dataclass(frozen=True, slots=True)
class Scope:
    """Recorded sessions to include: one by its id, those since a moment, or all."""

    session: str | None = None
    since: str | None = None


def rules_files(text: str) -> list[str]:
    """Parse the file names that an operator typed, separated by blanks or commas, or quoted.

    Raises `ValueError` for an unclosed quote, and if there are no names.
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


async def backtest(
    journal: DecisionApi,
    files: Sequence[str],
    scope: Scope,
    *,
    now: datetime,
    zone: tzinfo | None = None,
) -> AsyncGenerator[Backtested, None]:
    """Read `files` on this machine, and backtest them on the calls in `journal`.

    Raises `RuleError` for files that cannot be read, `ValueError` for an invalid moment, and the errors
    of `BacktestSource.backtest`.
    """
    since = None if scope.since is None else moment(scope.since, now, zone)
    rules = await asyncio.to_thread(read_rules, *files)
    parts = journal.backtest(rules, session=scope.session, since=since)
    try:
        async for part in parts:
            yield part
    finally:
        await parts.aclose()
