"""What the hub tells whoever listens: journalled events, and what is on its way and never kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from .history.events import JournalEvent


class Streaming(BaseModel):
    """Something on its way that the journal does not keep: text as it comes, a tool's output, a failure.

    `kind` is `text` for the agent's own words, `output` for what the tool of `call_id` prints.
    """

    model_config = ConfigDict(frozen=True)

    session: str
    kind: Literal["text", "output", "failure"]
    text: str
    call_id: str | None = None


HubEvent: TypeAlias = JournalEvent | Streaming


class Subscription:
    """Events from now on, in order; never holds up the hub. Ends when closed or when the hub closes.

    Streaming text that nobody has taken yet is joined, so that a slow reader costs no memory per word.
    """

    def __init__(self, forget: Callable[[Subscription], None]) -> None:
        self._events: deque[HubEvent] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        self._forget = forget

    def put(self, event: HubEvent) -> None:
        """Hand an event over; called by the hub."""
        last = self._events[-1] if self._events else None
        if (
            isinstance(event, Streaming)
            and isinstance(last, Streaming)
            and (last.session, last.kind, last.call_id) == (event.session, event.kind, event.call_id)
        ):
            self._events[-1] = last.model_copy(update={"text": last.text + event.text})
        else:
            self._events.append(event)
        self._arrived.set()

    def close(self) -> None:
        """Stop; what has not been read yet can still be read."""
        self._closed = True
        self._forget(self)
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[HubEvent]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._arrived.clear()
            await self._arrived.wait()
