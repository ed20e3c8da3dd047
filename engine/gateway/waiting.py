"""Calls that wait for an answer: for whom each does, and how much of one token's is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from .agent_methods import SessionEnded
from .wire import Code, WireError

Listener: TypeAlias = Callable[[SessionEnded], object]


@dataclass(slots=True)
class Waiters:
    """Who waits for one call of `size` bytes; when nobody does, it is taken back after a while."""

    size: int
    count: int = 0
    leaving: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class Open:
    """A live session of a token."""

    id: str
    owner: str
    used: float
    waiting: dict[str, Waiters] = field(default_factory=dict[str, Waiters])
    listeners: set[Listener] = field(default_factory=set[Listener])


class Held:
    """The bytes of the inputs that wait, by whose they are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes: Counter[str] = Counter()

    def check(self, owner: str, size: int) -> None:
        """Raises `WireError` where a call of this size is too much."""
        held = self._bytes[owner]
        if held + size > self._most:
            raise WireError(
                Code.LIMIT,
                f"this token's calls that wait for an answer are {held} bytes, and with this one they "
                f"would be more than {self._most}, the most they may be; wait for some of them",
                {"limit": self._most},
            )

    def hold(self, owner: str, waiters: Waiters) -> None:
        """A call is kept."""
        self._bytes[owner] += waiters.size

    def let_go(self, owner: str, waiters: Waiters) -> None:
        """Nothing is kept for a call any more."""
        self._bytes[owner] -= waiters.size
        waiters.size = 0
        if not self._bytes[owner]:
            del self._bytes[owner]
