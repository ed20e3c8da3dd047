"""Conversations kept in a journal, for authors of agents who host their own sessions."""

from __future__ import annotations

import asyncio

from ..agents import Message
from ..agents.stores.base import Messages, StoredSession, StoredSessions
from ..core.sanitize import visible
from ..history.database.location import Location
from ..history.fold.fold import FoldError, fold
from ..history.journal.journal import Journal, JournalError
from ..history.journal.reader import SessionNotFound
from ..history.model.events import EventBody, SessionOpened, SessionResumed, SessionStatus
from .conversation import conversation, message_record


class JournalStore:
    """A session store on a journal, which the history screens and `interlock replay` read like any other.

    `agent` and `model` are the names under which its sessions are listed. It can load every session in
    the journal, including a hub's, but do not append to one that a hub is hosting. Every message is
    durable before `append` returns. Close it after use.
    """

    def __init__(self, journal: Journal, *, agent: str = "agent", model: str = "unknown") -> None:
        self._journal = journal
        self._agent = agent
        self._model = model
        self._begun: set[str] = set()
        self._beginning = asyncio.Lock()

    @classmethod
    def open(cls, path: Location | str, *, agent: str = "agent", model: str = "unknown") -> JournalStore:
        """A store on the journal at `path`. Raises `JournalError` if it cannot be written."""
        return cls(Journal.open(path), agent=agent, model=model)

    async def close(self) -> None:
        """End the sessions that it wrote to, then close the journal. Raises `JournalError`."""
        try:
            for session_id in sorted(self._begun):
                await self._journal.append(session_id, SessionStatus(status="done"))
            self._begun.clear()
        finally:
            await asyncio.to_thread(self._journal.close)

    async def load(self, session_id: str) -> Messages:
        """The session's messages, oldest first; empty for an unknown id (A-9). Raises `JournalError`."""
        reader = self._journal.reader()
        return await asyncio.to_thread(lambda: conversation(reader.events(session_id)))

    async def append(self, session_id: str, message: Message) -> None:
        """Record a message; before the first one, record that the session begins or continues.

        Raises `JournalError` if it could not be written, also for a session that a hub recorded under
        nets: without them it would not be gated. Raises `ValidationError` for arguments that JSON cannot
        represent.
        """
        record = message_record(message, gated=False)
        async with self._beginning:
            if session_id not in self._begun:
                beginning = await asyncio.to_thread(self._begin, session_id)
                await self._journal.append(session_id, beginning, record)
                self._begun.add(session_id)
                return
        await self._journal.append(session_id, record)

    async def exists(self, session_id: str) -> bool:
        """True if the journal has a session with this id."""
        return await asyncio.to_thread(self._holds, session_id)

    async def list(self) -> StoredSessions:
        """Sessions with at least one message, the most recent first."""
        talks = await asyncio.to_thread(self._journal.reader().showing().talks)
        return [StoredSession(t.session, t.first_text, t.messages, t.updated) for t in talks]

    def _holds(self, session_id: str) -> bool:
        try:
            return self._journal.reader().session(session_id).id == session_id
        except SessionNotFound:
            return False

    def _begin(self, session_id: str) -> EventBody:
        if not self._holds(session_id):
            return SessionOpened(agent=self._agent, model=self._model, mode="enforce")
        try:
            found = fold(self._journal.reader().events(session_id))
        except FoldError as error:
            raise JournalError(
                f"The session cannot continue because its record is inconsistent: {error}."
            ) from error
        if found.nets:
            nets = "1 net" if len(found.nets) == 1 else f"{len(found.nets)} nets"
            raise JournalError(
                f"Session '{visible(session_id)}' was recorded under {nets}; a store would continue "
                "without them. Resume it in a hub with Hub.resume_session."
            )
        return SessionResumed(agent=self._agent, model=self._model, mode=found.mode)
