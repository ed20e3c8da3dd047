"""A session's events for display, each masked on first access."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..journal.lazy_events import CachedEvents, LazyEvents
from ..model.events import JournalEvent
from .redaction import Redaction


class MaskedEvents(CachedEvents):
    """`events` masked by `redaction`.

    Masking a hundred thousand takes as long as reading them, and few are on screen at once. Lazy events
    stay lazy.
    """

    def __init__(self, events: Iterable[JournalEvent], redaction: Redaction) -> None:
        self.unmasked: Sequence[JournalEvent] = (
            events if isinstance(events, LazyEvents) else tuple(events)
        )
        """The unmasked events, for queries that do not depend on content; never to be shown."""
        self._redaction = redaction
        super().__init__(len(self.unmasked))

    def bearing_on(self, call_id: str) -> Iterable[int]:
        """Return the indexes of events that may be about a call, as `LazyEvents.bearing_on`; else all."""
        events = self.unmasked
        return events.bearing_on(call_id) if isinstance(events, LazyEvents) else range(len(events))

    def _make(self, index: int) -> JournalEvent:
        return self._redaction.event(self.unmasked[index])
