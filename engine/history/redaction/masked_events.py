"""A session's events as they may be shown, each masked when it is first looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from ..journal.lazy_events import LazyEvents
from ..model.events import JournalEvent
from .redaction import Redaction


class MaskedEvents(Sequence[JournalEvent]):
    """`events` as `redaction` shows them.

    Masking a hundred thousand takes as long as reading them, and few are on screen at once. Lazy ones
    stay so. Several threads may look at them: each finds the same.
    """

    def __init__(self, events: Iterable[JournalEvent], redaction: Redaction) -> None:
        self.unmasked: Sequence[JournalEvent] = (
            events if isinstance(events, LazyEvents) else tuple(events)
        )
        """For questions that no content bears on; never to be shown."""
        self._redaction = redaction
        self._shown: list[JournalEvent | None] = [None] * len(self.unmasked)

    def __len__(self) -> int:
        return len(self.unmasked)

    def bearing_on(self, call_id: str) -> Iterable[int]:
        """The indexes of events that may bear on a call, as `LazyEvents.bearing_on`; else all."""
        plain = self.unmasked
        return plain.bearing_on(call_id) if isinstance(plain, LazyEvents) else range(len(plain))

    @overload
    def __getitem__(self, index: int) -> JournalEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[JournalEvent]: ...

    def __getitem__(self, index: int | slice) -> JournalEvent | list[JournalEvent]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        shown = self._shown[index]
        if shown is None:
            shown = self._shown[index] = self._redaction.event(self.unmasked[index])
        return shown
