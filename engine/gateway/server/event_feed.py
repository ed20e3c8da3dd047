"""What happens, told to one console: nothing is left out, and nobody waits for a slow one.

The journal has every event, so a console that fell behind is told the rest from there. Text on its way
is in no journal; who is too slow for it sees the message when it is whole.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

from pydantic_core import PydanticSerializationError

from ...history.model.events import JournalEvent
from ...hub.hub import Hub, HubEvent
from ..protocol.console_methods import HAPPENED, Happened
from ..protocol.framing import notice_frame

PAGE = 500
"""Events that are read from the journal at once."""
FRAMES = 512
"""Frames that are kept for other consoles, and the bytes of them."""
FRAMES_BYTES = 1 << 20


class Frames:
    """Events as consoles are told them: each is written once, for all who are told it at about that time.

    Consoles at one hub see the same, so that one frame is as good as another.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[HubEvent, bytes]] = OrderedDict()
        self._bytes = 0

    def of(self, event: HubEvent) -> bytes | None:
        """An event's frame; `None` for half a character of text on its way: what follows has it whole.

        Raises `PydanticSerializationError` for a recorded event that cannot be told.
        """
        found = self._kept.get(id(event))
        # An event that is kept is alive, so that no other one has its id.
        return self._written(event) if found is None else found[1]

    def _written(self, event: HubEvent) -> bytes | None:
        try:
            frame = notice_frame(HAPPENED.name, Happened(event=event))
        except PydanticSerializationError:
            if isinstance(event, JournalEvent):
                raise
            return None
        if len(frame) <= FRAMES_BYTES:
            self._kept[id(event)] = event, frame
            self._bytes += len(frame)
        while len(self._kept) > FRAMES or self._bytes > FRAMES_BYTES:
            _, (_, old) = self._kept.popitem(last=False)
            self._bytes -= len(old)
        return frame


async def feed(hub: Hub, after: int, backlog: int) -> AsyncIterator[HubEvent]:
    """Everything behind the cursor `after`, then as it comes; ends with the hub.

    At most `backlog` events wait here for whoever takes them.
    """
    while True:
        # Subscribed before the journal is read: what comes meanwhile is told twice rather than never.
        subscription = hub.subscribe(limit=backlog)
        try:
            async for event in _recorded(hub, after):
                after = event.cursor
                yield event
            async for event in subscription:
                if isinstance(event, JournalEvent):
                    if event.cursor <= after:
                        continue
                    after = event.cursor
                yield event
            if not subscription.lost:
                return  # the hub has closed
        finally:
            subscription.close()


async def _recorded(hub: Hub, after: int) -> AsyncIterator[JournalEvent]:
    while page := await hub.since(after, PAGE):
        for event in page:
            yield event
        after = page[-1].cursor
        await asyncio.sleep(0)
