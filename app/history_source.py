"""Where the history screens get recorded sessions from: a hub, or a journal's file when no hub runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..engine.history.events import JournalEvent
from ..engine.history.masked import MaskedEvents
from ..engine.history.queries import open_reader
from ..engine.history.redaction import Redaction
from ..engine.history.state import SessionSummary
from ..engine.judging import JudgedSource
from .language import LANGUAGE

DEFAULT_LIMIT = 200


class HistorySource(Protocol):
    """What a history screen asks. The hub is one.

    Both raise `JournalError` when the journal cannot be read, `recorded` also `SessionNotFound`.
    """

    async def history(self, limit: int = DEFAULT_LIMIT) -> list[SessionSummary]:
        """Recorded sessions, newest first."""
        ...

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        """Every event of one session, in order."""
        ...


class RecordedFile(JudgedSource):
    """The journal in `database`, read and never written; another process may be writing it meanwhile."""

    def __init__(self, database: Path, redaction: Redaction | None = None) -> None:
        self._database = database
        self.redaction = (redaction or Redaction()).reading(LANGUAGE)
        self.language = LANGUAGE

    @property
    def database(self) -> Path:
        return self._database

    async def history(self, limit: int = DEFAULT_LIMIT) -> list[SessionSummary]:
        return await asyncio.to_thread(lambda: open_reader(self._database).sessions(limit=limit))

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        return await asyncio.to_thread(self._recorded, session_id)

    def _recorded(self, session_id: str) -> Sequence[JournalEvent]:
        reader = open_reader(self._database)
        return MaskedEvents(reader.recorded(reader.session(session_id).id), self.redaction)
