"""Event stream of the hub: journalled events, and others that are not recorded.

Not recorded are streamed text, lost connections, and the readers of requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from ..history.model.events import JournalEvent
from ..history.model.records import FreezeRecord, JournalOutage


class Streaming(BaseModel):
    """Streamed piece that is not journalled: text as it arrives, a tool's output, a failure.

    `kind` is `text` for the agent's own words, `output` for what the tool of `call_id` prints. `input` is
    a call of `tool` that the model is writing, number `place` in the reply, from 0. Only the `size` of
    its arguments is given, in characters, because a partial secret cannot be masked.
    """

    model_config = ConfigDict(frozen=True)

    session: str
    kind: Literal["text", "output", "failure", "input"]
    text: str
    call_id: str | None = None
    tool: str | None = None
    place: int | None = None
    size: int = 0

    @property
    def stream(self) -> tuple[str, str, str | None, str | None, int | None]:
        """The stream that it belongs to: session, kind, call, tool, and the call's number in a reply."""
        return self.session, self.kind, self.call_id, self.tool, self.place


class DisconnectedCalls(BaseModel):
    """Calls of an external agent's session that no connection waits for, and since when, by their ids.

    Each such event has all of them; they are not journalled.
    """

    model_config = ConfigDict(frozen=True)

    session: str
    calls: dict[str, datetime]


class FreezeChanged(BaseModel):
    """All agents are frozen from now on, or no longer frozen if there is no `freeze`."""

    model_config = ConfigDict(frozen=True)

    freeze: FreezeRecord | None


class OutageChanged(BaseModel):
    """The start, a change of the reason, or, without `outage`, the end of an outage of the journal."""

    model_config = ConfigDict(frozen=True)

    outage: JournalOutage | None


class RequestReaders(BaseModel):
    """The operators who have a request on screen, at most `MOST_READERS` of them."""

    model_config = ConfigDict(frozen=True)

    session: str
    approval_id: str
    names: tuple[str, ...]


STREAMED = 65_536
"""Maximum number of characters of one stream that wait for a subscriber with a limit."""

HubEvent: TypeAlias = (
    JournalEvent | Streaming | DisconnectedCalls | FreezeChanged | OutageChanged | RequestReaders
)


class Subscription:
    """Events from now on, in order; never blocks the hub. Ends when closed or when the hub closes.

    Waiting pieces of a stream are joined, so that a slow reader costs no memory per piece. With a
    `limit`, all waiting events are dropped when there are more, and the subscription ends with `lost`.
    The dropped events are in the journal.
    """

    def __init__(self, forget: Callable[[Subscription], None], limit: int | None = None) -> None:
        self.lost = False
        self._limit = limit
        self._events: deque[HubEvent] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        self._forget = forget

    def put(self, event: HubEvent) -> None:
        """Add an event; called by the hub."""
        last = self._events[-1] if self._events else None
        if isinstance(event, Streaming) and isinstance(last, Streaming) and last.stream == event.stream:
            text = last.text + event.text
            kept = text if self._limit is None else text[-STREAMED:]
            self._events[-1] = last.model_copy(update={"text": kept, "size": last.size + event.size})
        else:
            self._events.append(event)
        if self._limit is not None and len(self._events) > self._limit:
            self._events.clear()
            self.lost = True
        self._arrived.set()

    def taken(self) -> list[HubEvent]:
        """Return and remove the waiting events, for readers that poll instead of awaiting each event."""
        events = [*self._events]
        self._events.clear()
        return events

    def close(self) -> None:
        """Stop; waiting events can still be read."""
        if self._closed:
            return
        self._closed = True
        self._forget(self)
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[HubEvent]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed or self.lost:
                return
            self._arrived.clear()
            await self._arrived.wait()
