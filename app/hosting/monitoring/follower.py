"""Following a hub's events at intervals, so that no call waits for their processing."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from ....engine.history.model.events import JournalEvent
from ....engine.hub.events import Subscription
from ....engine.hub.hub import Hub

EVERY = 0.25
"""Seconds between two deliveries of events, unless `catch_up` is called earlier."""

log = logging.getLogger(__name__)


class EventFollower(ABC):
    """Consumer of the events that this server recorded; other servers process their own."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._events: Subscription | None = None

    @abstractmethod
    def take(self, event: JournalEvent) -> None:
        """Process an event that this server recorded."""

    @asynccontextmanager
    async def following(self) -> AsyncGenerator[None]:
        """Follow the hub while the context is open; at the end all events have been processed."""
        self._events = self._hub.subscribe()
        looking = asyncio.get_running_loop().create_task(self._look(), name=type(self).__name__.lower())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            self.catch_up()
            self._events.close()
            self._events = None

    async def _look(self) -> None:
        # Waking up for each event would cost a call more than processing the event.
        while True:
            await asyncio.sleep(EVERY)
            self.catch_up()

    def catch_up(self) -> None:
        """Process all events since the last time."""
        for event in () if self._events is None else self._events.taken():
            if isinstance(event, JournalEvent) and self._hub.is_own(event):
                try:
                    self.take(event)
                except Exception:
                    # A fault of one event must not stop the processing of others.
                    log.exception("%s did not take an event: %s", type(self).__name__, event.body.type)
