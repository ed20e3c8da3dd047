"""Counting approvals and looking for what would have saved some, beside the screen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from ..engine.backtest.saved import Saved, saved
from ..engine.history.fatigue import Fatigue, RuleFatigue, fatigue
from ..engine.history.redaction import Redaction
from ..rules import condition_of


def suggested(
    database: Path,
    found: Fatigue,
    redaction: Redaction,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[RuleFatigue, Saved]]:
    """The rules that are always approved, with what would have saved questions. Raises `JournalError`."""
    for rule in found.rules:
        what = saved(
            database,
            rule,
            since=found.since,
            conditions=condition_of,
            redaction=redaction,
            cancelled=cancelled,
        )
        if what is not None:
            yield rule, what


async def count(database: Path, since: datetime | None) -> Fatigue:
    """As `fatigue`, in a thread that ends when nobody waits for it any more."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(fatigue, database, since, stop=stop)
    finally:
        stop.set()


async def suggest(
    database: Path, found: Fatigue, redaction: Redaction
) -> AsyncIterator[tuple[RuleFatigue, Saved]]:
    """As `suggested`, one after the other as they are found."""
    stop = threading.Event()
    left = suggested(database, found, redaction, stop.is_set)
    try:
        while (each := await asyncio.to_thread(partial(next, left, None))) is not None:
            yield each
    finally:
        stop.set()
