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
    """Stores the messages of sessions, by session id.

    A message counts as recorded once `append` has returned: its event follows, and an `append` that
    raises ends the run (A-11). A session needs no other methods; the stores in this package also have
    `list`.
    """

    async def load(self, session_id: str) -> Messages:
        """Return the session's messages, oldest first, as a copy; none for an unknown id (A-9)."""
        ...

    async def append(self, session_id: str, message: Message) -> None:
        """Add a message."""
        ...

    async def exists(self, session_id: str) -> bool:
        """Return whether anything was ever appended under this id."""
        ...


@runtime_checkable
class BranchingStore(Protocol):
    """A store whose sessions can continue after any of their messages, not only after the last."""

    async def branch(self, session_id: str, leaf_id: str) -> SessionStore:
        """Return a store in which the session ends with the entry `leaf_id`, and continues after it."""
        ...


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Overview of a stored conversation. `first_text` is the first message of a user, or empty."""

    id: str
    first_text: str
    messages: int
    updated: datetime


StoredSessions: TypeAlias = list[StoredSession]


def first_text(messages: Sequence[Message]) -> str:
    """First message of a user; empty if there is none."""
    return next((message.text for message in messages if isinstance(message, UserMessage)), "")


@dataclass(slots=True)
class _Conversation:
    """One conversation; `turn` is its last message's number among those of all conversations."""

    updated: datetime
    turn: int
    messages: Messages = field(default_factory=list[Message])


class InMemorySessionStore:
    """Keeps conversations in memory. `clock` returns an aware datetime."""

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self._sessions: dict[str, _Conversation] = {}
        self._clock = clock
        self._turn = 0

    async def load(self, session_id: str) -> Messages:
        """Return a deep copy, so that changes to it do not reach the store."""
        conversation = self._sessions.get(session_id)
        return (
            []
            if conversation is None
            else [message.model_copy(deep=True) for message in conversation.messages]
        )

    async def append(self, session_id: str, message: Message) -> None:
        """Append a copy of `message`, because the caller may keep and change its arguments."""
        now = self._clock()
        self._turn += 1
        conversation = self._sessions.setdefault(session_id, _Conversation(now, self._turn))
        conversation.messages.append(message.model_copy(deep=True))
        conversation.updated, conversation.turn = now, self._turn

    async def exists(self, session_id: str) -> bool:
        return session_id in self._sessions

    async def list(self) -> StoredSessions:
        """Stored sessions, the last changed first."""
        latest = sorted(self._sessions.items(), key=lambda item: item[1].turn, reverse=True)
        return [
            StoredSession(
                session_id,
                first_text(conversation.messages),
                len(conversation.messages),
                conversation.updated,
            )
            for session_id, conversation in latest
        ]
