"""Stores of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from ...core.clock import Clock, utc_now
from ..messages import Message, UserMessage

Messages: TypeAlias = list[Message]


class SessionStore(Protocol):
    """Keeps the messages of sessions, by id.

    A message counts as said once `append` has returned: events come after it, and an `append` that
    raises ends the run (A-11). A session needs no more than this; the stores made here also `list`.
    """

    async def load(self, session_id: str) -> Messages:
        """The session's messages, oldest first, as a copy; none for an unknown id (A-9)."""
        ...

    async def append(self, session_id: str, message: Message) -> None:
        """Add a message."""
        ...

    async def exists(self, session_id: str) -> bool:
        """Tell whether anything was ever appended under this id."""
        ...


@runtime_checkable
class BranchingStore(Protocol):
    """A store whose sessions can continue after any of their messages, not only after the last."""

    async def branch(self, session_id: str, leaf_id: str) -> SessionStore:
        """A store for which the session ends with the entry `leaf_id`, and continues after it."""
        ...


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A stored conversation in a line. `first_text` is the first message of a person, or empty."""

    id: str
    first_text: str
    messages: int
    updated: datetime


StoredSessions: TypeAlias = list[StoredSession]


def first_text(messages: Sequence[Message]) -> str:
    """First message of a person; empty if there is none."""
    return next((message.text for message in messages if isinstance(message, UserMessage)), "")


@dataclass(slots=True)
class _Conversation:
    """One conversation; `turn` grows with every message of any."""

    updated: datetime
    turn: int
    messages: Messages = field(default_factory=list[Message])


class InMemorySessionStore:
    """Keeps conversations as long as the process lives. `clock` gives an aware datetime."""

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self._sessions: dict[str, _Conversation] = {}
        self._clock = clock
        self._turn = 0

    async def load(self, session_id: str) -> Messages:
        """A deep copy: nothing done to it reaches the store."""
        kept = self._sessions.get(session_id)
        return [] if kept is None else [message.model_copy(deep=True) for message in kept.messages]

    async def append(self, session_id: str, message: Message) -> None:
        """Add a copy of `message`, whose arguments the caller may still hold."""
        now = self._clock()
        self._turn += 1
        kept = self._sessions.setdefault(session_id, _Conversation(now, self._turn))
        kept.messages.append(message.model_copy(deep=True))
        kept.updated, kept.turn = now, self._turn

    async def exists(self, session_id: str) -> bool:
        return session_id in self._sessions

    async def list(self) -> StoredSessions:
        """Stored sessions, the latest changed first."""
        latest = sorted(self._sessions.items(), key=lambda item: item[1].turn, reverse=True)
        return [
            StoredSession(session_id, first_text(kept.messages), len(kept.messages), kept.updated)
            for session_id, kept in latest
        ]
