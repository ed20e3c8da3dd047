"""A session's events as stored in the database, each parsed on first access."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import overload

from ..database.location import Location
from ..model.events import JournalEvent
from .rows import EventMaker, EventRow, event_of

_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")
"""Texts that JSON writes unchanged, or with `\\u` escapes."""
_BEGINNINGS = ("session.opened", "session.resumed", "mode.changed")


class CachedEvents(Sequence[JournalEvent], ABC):
    """Events, each created on first access. Threads may share them: each gets the same objects."""

    def __init__(self, number: int) -> None:
        self._cache: list[JournalEvent | None] = [None] * number

    def __len__(self) -> int:
        return len(self._cache)

    @overload
    def __getitem__(self, index: int) -> JournalEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[JournalEvent]: ...

    def __getitem__(self, index: int | slice) -> JournalEvent | list[JournalEvent]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        event = self._cache[index]
        if event is None:
            event = self._cache[index] = self._make(index)
        return event

    def __iter__(self) -> Iterator[JournalEvent]:
        return (self[n] for n in range(len(self)))

    @abstractmethod
    def _make(self, index: int) -> JournalEvent: ...


class LazyEvents(CachedEvents):
    """The events in `rows`, all of one session in order, of the journal at `path`.

    Parsing a hundred thousand takes longer than reading them, and few are ever on screen. Access to an
    event that cannot be parsed raises `JournalError`.
    """

    def __init__(self, rows: Sequence[EventRow], path: Location, made: EventMaker = event_of) -> None:
        super().__init__(len(rows))
        self.rows = rows
        self._path = path
        self._event = made

    def bearing_on(self, call_id: str) -> Iterator[int]:
        """Yield indexes of events that may be about a call, or open or resume a session, or set its mode.

        The id is searched in the stored text; if JSON may write it in several ways, every event matches.
        """
        is_plain = _PLAIN.fullmatch(call_id) is not None
        for index, (*_, kind, text) in enumerate(self.rows):
            if not is_plain or call_id in text or "\\u" in text or kind in _BEGINNINGS:
                yield index

    def _make(self, index: int) -> JournalEvent:
        return self._event(self.rows[index], self._path)
