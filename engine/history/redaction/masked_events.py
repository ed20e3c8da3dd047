"""A session's events as they may be shown, each masked when it is first looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..journal.lazy_events import CachedEvents, LazyEvents
from ..model.events import JournalEvent
from .redaction import Redaction


class MaskedEvents(CachedEvents):
    """`events` as `redaction` shows them.

    Masking a hundred thousand takes as long as reading them, and few are on screen at once. Lazy ones
    stay so.
    """

    def __init__(self, events: Iterable[JournalEvent], redaction: Redaction) -> None:
        self.unmasked: Sequence[JournalEvent] = (
            events if isinstance(events, LazyEvents) else tuple(events)
        )
        """For questions that no content bears on; never to be shown."""
        self._redaction = redaction
        super().__init__(len(self.unmasked))

    def bearing_on(self, call_id: str) -> Iterable[int]:
        """The indexes of events that may bear on a call, as `LazyEvents.bearing_on`; else all."""
        plain = self.unmasked
        return plain.bearing_on(call_id) if isinstance(plain, LazyEvents) else range(len(plain))

    def _make(self, index: int) -> JournalEvent:
        return self._redaction.event(self.unmasked[index])
