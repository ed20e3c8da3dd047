"""Following a hub's events at intervals, so that no call waits for what is made of them."""

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
"""Seconds after which events are taken that nobody has asked for yet."""

log = logging.getLogger(__name__)


class EventFollower(ABC):
    """Taker of the events that a server has recorded itself; those of other servers are theirs."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._events: Subscription | None = None

    @abstractmethod
    def take(self, event: JournalEvent) -> None:
        """Take an event that this server recorded."""

    @asynccontextmanager
    async def following(self) -> AsyncGenerator[None]:
        """Follow the hub meanwhile; at the end everything is taken."""
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
        # Waking up for each event would cost a call more than taking it.
        while True:
            await asyncio.sleep(EVERY)
            self.catch_up()

    def catch_up(self) -> None:
        """Take what has happened since the last time."""
        for event in () if self._events is None else self._events.taken():
            if isinstance(event, JournalEvent) and self._hub.is_own(event):
                try:
                    self.take(event)
                except Exception:
                    # What one event lacks is no reason to take no other.
                    log.exception("%s did not take an event: %s", type(self).__name__, event.body.type)
