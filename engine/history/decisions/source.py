"""Decisions for a screen, read in threads from a journal whose location is known."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from pathlib import Path

from ..database.location import Location
from ..model.events import CallDecided, JournalEvent
from ..redaction.redaction import Redaction
from .counts import DecisionCounts, GroupBy, ShadowSummary, count_decisions, shadow_summary
from .filter import DecisionFilter
from .index import input_head
from .reader import Decision, DecisionPage, DecisionReader, ListPosition, Scan


class DecisionSource(ABC):
    """The decisions recorded in a journal, masked for display.

    All methods raise `JournalError` if the journal cannot be read.
    """

    redaction: Redaction = Redaction()

    @property
    @abstractmethod
    def database(self) -> Location:
        """The journal's location."""

    @property
    def location(self) -> str:
        """The journal's name for display."""
        place = self.database
        return place.name if isinstance(place, Path) else str(place)

    @property
    def server(self) -> str:
        """The server whose journal it is; empty for none."""
        return ""

    async def scan_decisions(
        self,
        criteria: DecisionFilter,
        *,
        top: ListPosition | None = None,
        bottom: ListPosition | None = None,
        seconds: float = 0.05,
    ) -> Scan:
        reader = DecisionReader(self.database)
        return await asyncio.to_thread(reader.scan, criteria, top=top, bottom=bottom, seconds=seconds)

    async def read_decisions(self, criteria: DecisionFilter, part: DecisionPage) -> list[Decision]:
        decisions = await asyncio.to_thread(DecisionReader(self.database).read, criteria, part)
        return await asyncio.to_thread(lambda: [self._mask(decision) for decision in decisions])

    async def decision_event(self, session_id: str, seq: int) -> JournalEvent:
        event = await asyncio.to_thread(DecisionReader(self.database).event, session_id, seq)
        return self.redaction.event(event)

    def _mask(self, decision: Decision) -> Decision:
        """Mask a decision's secrets; a call's input is masked like the call itself."""
        text = self.redaction.text(decision.input)
        if text is decision.input:
            return decision
        if decision.kind == "call":
            body = DecisionReader(self.database).event(decision.session, decision.seq).body
            if isinstance(body, CallDecided):
                text = input_head(self.redaction.fields(body.input, body.shell_fields))
        return decision.model_copy(update={"input": text})

    async def count_decisions(
        self, criteria: DecisionFilter, *, by: GroupBy | None = None, steps: int = 24
    ) -> DecisionCounts:
        # The counting ends when its caller stops waiting: searching all inputs takes long.
        stop = threading.Event()
        try:
            return await asyncio.to_thread(
                count_decisions, self.database, criteria, by=by, steps=steps, stop=stop
            )
        finally:
            stop.set()

    async def shadow_summary(self, criteria: DecisionFilter) -> ShadowSummary:
        return await asyncio.to_thread(shadow_summary, self.database, criteria)
