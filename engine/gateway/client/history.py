"""Recorded sessions of a server's journal, read over the wire by the methods of a hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ...history.decisions.counts import Counts, GroupBy, ShadowSummary
from ...history.decisions.filter import DecisionFilter
from ...history.decisions.reader import Decision, Mark, Part, Scan
from ...history.model.events import JournalEvent
from ...history.model.state import Origin, SessionSummary
from ..protocol.agent_methods import OfSession
from ..protocol.console_methods import (
    COUNT,
    DECISION,
    EVENTS,
    HISTORY,
    READ,
    SCAN,
    SHADOW,
    STARTED_FROM,
    CountDecisions,
    Filtered,
    History,
    OneDecision,
    ReadDecisions,
    Recorded,
    ScanDecisions,
)
from ..protocol.method import Method, ParamsT, ResultT
from .connection import Link, RequestFailedError
from .errors import as_hub_says

PATIENCE = 3.0
"""Seconds for which what an operator asks waits for a lost server before it is said to have failed."""


class HistoryClient:
    """Reader of a server's journal; the methods are those of `Hub`."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def history(self, limit: int = 200) -> list[SessionSummary]:
        """Recorded sessions, newest first, live ones included."""
        return list((await self._ask(HISTORY, History(limit=limit))).sessions)

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        """Every event of a recorded session. Raises `SessionNotFound`."""
        return [event async for page in self._pages(session_id) for event in page]

    async def _pages(self, session_id: str) -> AsyncIterator[tuple[JournalEvent, ...]]:
        after, more = 0, True
        while more:
            page = await self._ask(EVENTS, Recorded(session=session_id, after=after))
            session_id, more = page.session, page.more
            yield page.events
            if page.events:
                after = page.events[-1].seq

    async def started_from(self, session_id: str) -> Origin:
        """Origin of a recorded session, by its whole id. Raises `SessionNotFound`."""
        found = await self._ask(STARTED_FROM, OfSession(session=session_id))
        return Origin(found.session, found.source, found.imported)

    async def scan_decisions(
        self,
        wanted: DecisionFilter,
        *,
        top: Mark | None = None,
        bottom: Mark | None = None,
        seconds: float = 0.05,
    ) -> Scan:
        """Find the positions of decisions, newest first; the server sets its own time limit."""
        return await self._ask(SCAN, ScanDecisions(wanted=wanted, top=top, bottom=bottom))

    async def read_decisions(self, wanted: DecisionFilter, part: Part) -> list[Decision]:
        """The decisions of one part, newest first."""
        return list((await self._ask(READ, ReadDecisions(wanted=wanted, part=part))).decisions)

    async def decision_event(self, session_id: str, seq: int) -> JournalEvent:
        """The event of a decision, with its whole input and reason."""
        return await self._ask(DECISION, OneDecision(session=session_id, seq=seq))

    async def count_decisions(
        self, wanted: DecisionFilter, *, by: GroupBy | None = None, steps: int = 24
    ) -> Counts:
        """Count decisions, by rule or tool and over time."""
        return await self._ask(COUNT, CountDecisions(wanted=wanted, by=by, steps=steps))

    async def shadow_summary(self, wanted: DecisionFilter) -> ShadowSummary:
        """Summarize the calls that enforce mode would have stopped."""
        return await self._ask(SHADOW, Filtered(wanted=wanted))

    async def _ask(
        self, method: Method[ParamsT, ResultT], asked: ParamsT, *, may_repeat: bool = True
    ) -> ResultT:
        """Send a request; raises what a local hub would raise, and `GatewayError` for the connection."""
        try:
            return await self.link.request(method, asked, may_repeat=may_repeat, patience=PATIENCE)
        except RequestFailedError as error:
            raise as_hub_says(error) from error
