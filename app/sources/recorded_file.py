"""A journal's file as a source of recorded sessions, for screens used without a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...engine.history.database.location import Location
from ...engine.history.journal.known_labels import KnownLabels
from ...engine.history.journal.reader import open_reader
from ...engine.history.model.events import JournalEvent
from ...engine.history.model.state import SessionSummary
from ...engine.history.redaction.masked_events import MaskedEvents
from ...engine.history.redaction.redaction import Redaction
from ...engine.hub.api import DEFAULT_LIMIT, HistoryApi
from ...engine.hub.backtest_api import BacktestSource
from ..config.rules_compiler import LANGUAGE


class RecordedFile(BacktestSource, HistoryApi):
    """The journal in `database`, only ever read; another process may be writing it at the same time."""

    def __init__(self, database: Location, redaction: Redaction | None = None) -> None:
        self._database = database
        self.redaction = (redaction or Redaction()).reading(LANGUAGE)
        self.language = LANGUAGE
        self._labels = KnownLabels()

    @property
    def database(self) -> Location:
        return self._database

    async def history(self, limit: int = DEFAULT_LIMIT) -> list[SessionSummary]:
        return await asyncio.to_thread(lambda: self._labels.latest(open_reader(self._database), limit))

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        return await asyncio.to_thread(self._recorded, session_id)

    def _recorded(self, session_id: str) -> Sequence[JournalEvent]:
        reader = open_reader(self._database).showing()
        return MaskedEvents(reader.recorded(reader.session(session_id).id), self.redaction)
