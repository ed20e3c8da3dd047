"""A session's events as the database has them, each understood when it is first looked at."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import overload

from ..database.location import Location
from ..model.events import JournalEvent
from .rows import EventMaker, EventRow, event_of

_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")
"""Texts that JSON writes as they are, or with a `\\u` in them."""
_BEGINNINGS = ("session.opened", "session.resumed", "mode.changed")


class CachedEvents(Sequence[JournalEvent], ABC):
    """Events, each made when it is first looked at. Several threads may look: each finds the same."""

    def __init__(self, number: int) -> None:
        self._made: list[JournalEvent | None] = [None] * number

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> JournalEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[JournalEvent]: ...

    def __getitem__(self, index: int | slice) -> JournalEvent | list[JournalEvent]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        event = self._made[index]
        if event is None:
            event = self._made[index] = self._make(index)
        return event

    def __iter__(self) -> Iterator[JournalEvent]:
        return (self[n] for n in range(len(self)))

    @abstractmethod
    def _make(self, index: int) -> JournalEvent: ...


class LazyEvents(CachedEvents):
    """The events in `rows`, all of one session in their order, of the journal at `path`.

    Understanding a hundred thousand takes longer than reading them, and few are ever on screen. Looking
    at one that cannot be understood raises `JournalError`.
    """

    def __init__(self, rows: Sequence[EventRow], path: Location, made: EventMaker = event_of) -> None:
        super().__init__(len(rows))
        self.rows = rows
        self._path = path
        self._event = made

    def bearing_on(self, call_id: str) -> Iterator[int]:
        """The indexes of events that may be about a call, and of those that open or resume the session or
        change its mode.

        The id is looked for in what the database has; where it may be written in several ways, all are.
        """
        plain = _PLAIN.fullmatch(call_id) is not None
        for index, (*_, kind, text) in enumerate(self.rows):
            if not plain or call_id in text or "\\u" in text or kind in _BEGINNINGS:
                yield index

    def _make(self, index: int) -> JournalEvent:
        return self._event(self.rows[index], self._path)
