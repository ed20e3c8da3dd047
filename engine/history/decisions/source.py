"""Decisions for a screen, read in threads from a journal whose file is known."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from pathlib import Path

from ..model.events import CallDecided, JournalEvent
from ..redaction.redaction import Redaction
from .counts import Counts, GroupBy, ShadowSummary, count_decisions, shadow_summary
from .filter import DecisionFilter
from .index import input_head
from .reader import Decision, DecisionReader, Mark, Part, Scan


class DecisionSource(ABC):
    """The decisions recorded in a journal, as they may be shown.

    All of them raise `JournalError` when it cannot be read.
    """

    redaction: Redaction = Redaction()
    elsewhere: str = ""

    @property
    @abstractmethod
    def database(self) -> Path:
        """The journal's file."""

    @property
    def place(self) -> str:
        """The journal's name, for people."""
        return self.database.name

    async def scan_decisions(
        self,
        wanted: DecisionFilter,
        *,
        top: Mark | None = None,
        bottom: Mark | None = None,
        seconds: float = 0.05,
    ) -> Scan:
        """Find the parts of a list of decisions, newest first; see `DecisionReader.scan`."""
        reader = DecisionReader(self.database)
        return await asyncio.to_thread(reader.scan, wanted, top=top, bottom=bottom, seconds=seconds)

    async def read_decisions(self, wanted: DecisionFilter, part: Part) -> list[Decision]:
        """The decisions of one part, newest first."""
        found = await asyncio.to_thread(DecisionReader(self.database).read, wanted, part)
        return await asyncio.to_thread(lambda: [self._shown(decision) for decision in found])

    async def decision_event(self, session_id: str, seq: int) -> JournalEvent:
        """The event of a decision, with its whole input and reason."""
        event = await asyncio.to_thread(DecisionReader(self.database).event, session_id, seq)
        return self.redaction.event(event)

    def _shown(self, decision: Decision) -> Decision:
        """A decision with its secrets masked; those of a call as the call itself is shown."""
        text = self.redaction.text(decision.input)
        if text is decision.input:
            return decision
        if decision.kind == "call":
            body = DecisionReader(self.database).event(decision.session, decision.seq).body
            if isinstance(body, CallDecided):
                text = input_head(self.redaction.fields(body.input, body.shell_fields))
        return decision.model_copy(update={"input": text})

    async def count_decisions(
        self, wanted: DecisionFilter, *, by: GroupBy | None = None, steps: int = 24
    ) -> Counts:
        """Count decisions, by rule or tool and over time; see `counts.count_decisions`.

        The counting ends when its caller no longer waits: through all inputs it takes long.
        """
        stop = threading.Event()
        try:
            return await asyncio.to_thread(
                count_decisions, self.database, wanted, by=by, steps=steps, stop=stop
            )
        finally:
            stop.set()

    async def shadow_summary(self, wanted: DecisionFilter) -> ShadowSummary:
        """Sum up what enforce mode would have stopped; see `counts.shadow_summary`."""
        return await asyncio.to_thread(shadow_summary, self.database, wanted)
