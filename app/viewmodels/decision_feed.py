"""Journal queries of the decisions screen: separate workers search, read and count.

Results are posted to the screen as messages. Each has a search number; those of an earlier search are to
be dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer

from ...engine.history.decisions.counts import DecisionCounts, GroupBy, ShadowSummary
from ...engine.history.decisions.filter import EVERYTHING, DecisionFilter
from ...engine.history.decisions.reader import Decision, DecisionPage, ListPosition, Scan
from ...engine.history.fold.setting_changes import SETTINGS
from ...engine.history.model.events import CallDecided, CallResult, JournalEvent
from ...engine.hub.api import DecisionApi

COUNTS_PAUSE = 2.0
"""Minimum seconds between counts."""

MOST_WAITING = 4
"""Maximum parts that wait to be read; only the parts requested last are still on screen."""


@dataclass
class DecisionsFound(Message):
    """One step of the search is finished."""

    search: int
    scan: Scan


@dataclass
class NewerDecisions(Message):
    """The list above the border has been read again; `read` has the decisions of its first parts."""

    search: int
    parts: Sequence[DecisionPage]
    read: Sequence[Sequence[Decision]]


@dataclass
class PartLoaded(Message):
    """A part has been read."""

    search: int
    part: DecisionPage
    decisions: Sequence[Decision]


@dataclass
class DecisionsCounted(Message):
    """All decisions that match the filter have been counted."""

    search: int
    counts: DecisionCounts
    shadow: ShadowSummary


@dataclass
class DecisionsFailed(Message):
    """The journal could not be read."""

    error: str


class DecisionFeed:
    """Runs the queries of `screen` against `source`, in workers of the screen."""

    def __init__(self, source: DecisionApi, screen: Screen[None]) -> None:
        self.decision_filter: DecisionFilter = EVERYTHING
        self.search = 0
        self._source = source
        self._screen = screen
        self._waiting: list[DecisionPage] = []
        self._reading = False
        self._count_due: Timer | None = None
        self._count_pause = COUNTS_PAUSE

    def start(self, decision_filter: DecisionFilter) -> None:
        """Start another search and discard the previous one."""
        self.search += 1
        self.decision_filter = decision_filter
        self._waiting.clear()
        self._run(self._find(self.search), "find")

    def look_again(self, border: ListPosition | None) -> None:
        """Find the decisions above `border` again."""
        self._run(self._find_newer(self.search, border), "newer")

    def read(self, part: DecisionPage) -> Sequence[DecisionPage]:
        """Queue a part for reading, latest request first. Return the parts dropped from the queue."""
        self._waiting.append(part)
        dropped = self._waiting[:-MOST_WAITING]
        del self._waiting[:-MOST_WAITING]
        if not self._reading:
            self._reading = True
            self._run(self._read(), "read")
        return dropped

    def count(self, by: GroupBy | None) -> None:
        """Count all decisions that match the filter."""
        if self._count_due is not None:
            self._count_due.stop()
            self._count_due = None
        self._run(self._count(self.search, by), "count")

    def count_soon(self, by: GroupBy | None) -> None:
        """Count again after a pause that is a multiple of the time the last count took."""
        if self._count_due is None:
            self._count_due = self._screen.set_timer(self._count_pause, lambda: self.count(by))

    def _run(self, work: Coroutine[object, object, None], name: str) -> None:
        self._screen.run_worker(
            self._report_error(work), group=f"decisions-{name}", exclusive=True, exit_on_error=False
        )

    async def _report_error(self, work: Coroutine[object, object, None]) -> None:
        """Report an error; the console continues."""
        try:
            await work
        except Exception as error:
            self._screen.post_message(DecisionsFailed(str(error)))

    async def _find(self, search: int) -> None:
        """Search the whole list. The first step is short, so that something is shown at once."""
        top, seconds = None, 0.0
        while True:
            scan = await self._source.scan_decisions(self.decision_filter, top=top, seconds=seconds)
            self._screen.post_message(DecisionsFound(search, scan))
            if scan.next is None:
                return
            top, seconds = scan.next, 0.05

    async def _find_newer(self, search: int, border: ListPosition | None) -> None:
        """Find newer decisions; the first part may have grown.

        The top parts are read before they are shown.
        """
        parts: list[DecisionPage] = []
        top = None
        while True:
            scan = await self._source.scan_decisions(self.decision_filter, top=top, bottom=border)
            parts += scan.parts
            if scan.next is None:
                break
            top = scan.next
        read = [await self._source.read_decisions(self.decision_filter, part) for part in parts[:2]]
        self._screen.post_message(NewerDecisions(search, parts, read))

    async def _read(self) -> None:
        try:
            while self._waiting:
                part, search = self._waiting.pop(), self.search
                found = await self._source.read_decisions(self.decision_filter, part)
                self._screen.post_message(PartLoaded(search, part, found))
        finally:
            self._reading = False

    async def _count(self, search: int, by: GroupBy | None) -> None:
        start = time.monotonic()
        counts, shadow = await asyncio.gather(
            self._source.count_decisions(self.decision_filter, by=by),
            self._source.shadow_summary(self.decision_filter),
        )
        self._count_pause = max(COUNTS_PAUSE, 20 * (time.monotonic() - start))
        self._screen.post_message(DecisionsCounted(search, counts, shadow))


def affects_decisions(event: object) -> bool:
    """Return whether an event changes the list of decisions."""
    return isinstance(event, JournalEvent) and isinstance(
        event.body, (CallDecided, CallResult, *SETTINGS)
    )
