"""Events for one console: none is left out, and a slow console delays nothing.

The journal has every event, so a console that fell behind is sent the rest from the journal. Streamed
text is not in the journal; a console too slow for it sees the message once it is complete.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

from pydantic_core import PydanticSerializationError

from ...history.errors import JournalError
from ...history.model.events import JournalEvent
from ...history.model.positions import Positions
from ...hub.hub import (
    DisconnectedCalls,
    FreezeChanged,
    Hub,
    HubEvent,
    OutageChanged,
    RequestReaders,
)
from ..protocol.console_methods import (
    DISCONNECTED,
    EVENT,
    FREEZE,
    OUTAGE,
    READERS,
    DisconnectedNotice,
    EventNotice,
    FreezeNotice,
    OutageNotice,
    ReadersNotice,
)
from ..protocol.framing import notice_frame

PAGE = 500
"""Maximum number of events read from the journal at once."""
AGAIN = 0.5
"""Time between attempts to read a journal that has an outage, in seconds."""
FRAMES = 512
"""Maximum number of frames kept for other consoles."""
FRAMES_BYTES = 1 << 20


class Frames:
    """Frames of events, each encoded once for all consoles that receive it at about the same time.

    Consoles of one hub see the same events, so they can share a frame.
    """

    def __init__(self) -> None:
        self._frames: OrderedDict[int, tuple[HubEvent, bytes]] = OrderedDict()
        self._bytes = 0

    def of(self, event: HubEvent) -> bytes | None:
        """Return an event's frame; `None` for streamed text that splits a character (sent with the next).

        Raises `PydanticSerializationError` for a recorded event that cannot be encoded.
        """
        entry = self._frames.get(id(event))
        # A kept event is alive, so no other event has its id.
        return self._encode(event) if entry is None else entry[1]

    def _encode(self, event: HubEvent) -> bytes | None:
        try:
            frame = _frame(event)
        except PydanticSerializationError:
            if isinstance(event, JournalEvent):
                raise
            return None
        if len(frame) <= FRAMES_BYTES:
            self._frames[id(event)] = event, frame
            self._bytes += len(frame)
        while len(self._frames) > FRAMES or self._bytes > FRAMES_BYTES:
            _, (_, old) = self._frames.popitem(last=False)
            self._bytes -= len(old)
        return frame


def _frame(event: HubEvent) -> bytes:
    if isinstance(event, DisconnectedCalls):
        # A separate notice, which older consoles ignore.
        notice = DisconnectedNotice(session=event.session, calls=event.calls)
        return notice_frame(DISCONNECTED.name, notice)
    if isinstance(event, FreezeChanged):
        return notice_frame(FREEZE.name, FreezeNotice(freeze=event.freeze))
    if isinstance(event, OutageChanged):
        return notice_frame(OUTAGE.name, OutageNotice(outage=event.outage))
    if isinstance(event, RequestReaders):
        return notice_frame(READERS.name, ReadersNotice(**event.model_dump()))
    return notice_frame(EVENT.name, EventNotice(event=event))


async def feed(hub: Hub, after: Positions, backlog: int) -> AsyncIterator[HubEvent]:
    """Yield all events after the position `after`, then new ones as they occur, until the hub closes.

    At most `backlog` events are buffered here.
    """
    fell_behind = False
    while True:
        # Subscribe before reading the journal: events in between arrive twice rather than never.
        subscription = hub.subscribe(limit=backlog)
        try:
            async for event in _recorded(hub, after):
                yield event
            for event in (*hub.disconnected_calls(), *hub.reading()):
                yield event
            if fell_behind:
                yield FreezeChanged(freeze=hub.current_freeze())
                yield OutageChanged(outage=hub.current_outage())
            async for event in subscription:
                if isinstance(event, JournalEvent) and not after.note(event.cursor):
                    continue
                yield event
            if not subscription.lost:
                return  # the hub has closed
            fell_behind = True
        finally:
            subscription.close()


async def _recorded(hub: Hub, after: Positions) -> AsyncIterator[JournalEvent]:
    """Yield the recorded events after a position, and advance it past each page.

    Waits while the journal has an outage: nothing is recorded then, and its consoles show the outage.
    """
    while True:
        try:
            page = await hub.since(after, PAGE)
        except JournalError:
            if hub.current_outage() is None:
                raise
            await asyncio.sleep(AGAIN)
            continue
        if not page:
            return
        for event in page:
            after.note(event.cursor)
            yield event
        await asyncio.sleep(0)
