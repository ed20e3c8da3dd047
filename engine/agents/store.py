"""Where conversations are kept."""

from __future__ import annotations

from typing import Protocol

from .messages import Message


class SessionStore(Protocol):
    """Keeps the messages of sessions, by id.

    A message counts as said once `append` has returned: events come after it, and an `append` that
    raises ends the run (A-11).
    """

    async def load(self, session_id: str) -> list[Message]:
        """The session's messages, oldest first, as a copy; none for an unknown id (A-9)."""
        ...

    async def append(self, session_id: str, message: Message) -> None:
        """Add a message."""
        ...

    async def exists(self, session_id: str) -> bool:
        """Whether anything was ever appended under this id."""
        ...


class InMemorySessionStore:
    """Keeps conversations as long as the process lives."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Message]] = {}

    async def load(self, session_id: str) -> list[Message]:
        """A deep copy: nothing done to it reaches the store."""
        return [message.model_copy(deep=True) for message in self._sessions.get(session_id, [])]

    async def append(self, session_id: str, message: Message) -> None:
        """Add a copy of `message`, whose arguments the caller may still hold."""
        self._sessions.setdefault(session_id, []).append(message.model_copy(deep=True))

    async def exists(self, session_id: str) -> bool:
        return session_id in self._sessions
