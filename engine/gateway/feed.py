"""What happens, told to one console: nothing is left out, and nobody waits for a slow one.

The journal has every event, so a console that fell behind is told the rest from there. Text on its way
is in no journal; who is too slow for it sees the message when it is whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ..history.events import JournalEvent
from ..hub import Hub, HubEvent

PAGE = 500
"""Events that are read from the journal at once."""


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
