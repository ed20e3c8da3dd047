"""Rate limit of each notification channel, and combined messages once the limit is reached.

Up to the limit per minute, messages are sent one by one. Further ones are held back. Once there is room,
one message says how many requests wait and how others ended. Nothing is lost, and nobody mutes a channel
because an agent made a hundred requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from pydantic import BaseModel

from .service_messages import Message, without_markup

WINDOW = timedelta(minutes=1)
MOST_LINES = 10
"""Requests, and outcomes, that a combined message names; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Address:
    """The person whom another one asks to look at a request."""

    to: str
    by: str


@dataclass(slots=True)
class Channel:
    """One notification channel: its use within the last minute, and what is held back.

    `waiting` maps requests to the person each was last pointed out to. `endings` are the outcomes of
    requests that this channel was notified of.
    """

    most: int
    waiting: dict[str, Address | None] = field(default_factory=dict[str, Address | None])
    endings: dict[str, Message] = field(default_factory=dict[str, Message])
    at_work: bool = False
    _used: deque[datetime] = field(default_factory=deque[datetime])

    @property
    def holds(self) -> bool:
        """True while something is held back."""
        return bool(self.waiting or self.endings)

    def take(self, now: datetime) -> bool:
        """Reserve room for a message; return `False` if there is none."""
        if self.pause(now) > 0:
            return False
        self._used.append(now)
        return True

    def pause(self, now: datetime) -> float:
        """Return the seconds until there is room for a message."""
        while self._used and self._used[0] <= now - WINDOW:
            self._used.popleft()
        if len(self._used) < self.most:
            return 0.0
        return (self._used[0] + WINDOW - now).total_seconds()

    def hold(self, approval_id: str, address: Address | None) -> None:
        """Hold back a request, which may end before it is sent."""
        self.waiting[approval_id] = address or self.waiting.get(approval_id)

    def hold_ending(self, approval_id: str, message: Message) -> None:
        """Hold back the outcome of a request."""
        self.endings[approval_id] = message

    def drop(self) -> None:
        """Discard everything held back, after it could not be delivered."""
        self.waiting.clear()
        self.endings.clear()


class SeveralWaiting(BaseModel):
    """JSON about several requests, sent to a command or a server. Fields may be added, never changed."""

    version: Literal[1] = 1
    event: Literal["approvals.waiting"] = "approvals.waiting"
    number: int
    approval_ids: list[str]
    summaries: list[str]
    summary: str
    link: str | None = None


def several_waiting(told: Sequence[tuple[str, str]], link: str | None) -> SeveralWaiting:
    """Return one notification of several requests, each with its id and summary.

    `link` is the console's.
    """
    number = len(told)
    return SeveralWaiting(
        number=number,
        approval_ids=[approval_id for approval_id, _ in told],
        summaries=[summary for _, summary in told[:MOST_LINES]],
        summary=f"{number} {'request waits' if number == 1 else 'requests wait'} for approval",
        link=None if link is None else f"{link}/m/",
    )


def several_message(waiting: SeveralWaiting, endings: Sequence[Message]) -> Message:
    """Return one message on waiting requests, and on the outcomes of others."""
    parts = [waiting.summary] if waiting.number else []
    if endings:
        over = "request needs" if len(endings) == 1 else "requests need"
        parts.append(f"{len(endings)} {over} nobody any more")
    lines = _lines([without_markup(each) for each in waiting.summaries], waiting.number)
    lines += _lines([each.title for each in endings[:MOST_LINES]], len(endings))
    return Message("; ".join(parts), "\n".join([*lines, *([waiting.link] if waiting.link else [])]))


def _lines(shown: list[str], number: int) -> list[str]:
    return [*shown, f"and {number - len(shown)} more"] if number > len(shown) else shown
