"""Counters of limits over sessions that servers share: what is used, and what is reserved (G-93)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Use(NamedTuple):
    """One call's use of a limit, at a time in seconds since 1970."""

    at: float
    session: str
    call_id: str
    net: str


class Reservation(NamedTuple):
    """Uses that a call is about to take: counters by net. They count from `at`, until `until` at most."""

    id: str
    session: str
    call_id: str
    counters: Mapping[str, str]
    at: float
    until: float


class CounterReading(NamedTuple):
    """State of some counters: the version of each, and the uses of each that are reserved or recorded."""

    versions: Mapping[str, int]
    uses: Mapping[str, Sequence[Use]]


class CounterStore(Protocol):
    """Counters that several servers share. Methods wait, in any thread, and raise what the store does."""

    def read(self, counters: Sequence[str]) -> CounterReading: ...

    def reserve(self, wanted: Reservation, versions: Mapping[str, int]) -> bool:
        """Reserve uses if all counters have these versions, which one more is then; else do nothing."""
        ...

    def release(self, reserved: Reservation) -> None:
        """Take back a reservation, unless its call is recorded as one that took the uses."""
        ...

    def forget(self) -> None:
        """Remove what counts no longer."""
        ...
