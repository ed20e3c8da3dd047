"""Limits over many sessions: `limit refund to 20 per 1d across everyone` (G-93)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol, TypeAlias

from .people import person_key

Reach: TypeAlias = Literal["everyone", "agent", "operator"]

REACHES: tuple[Reach, ...] = ("everyone", "agent", "operator")

_FIELDS: Mapping[Reach, str | None] = {"everyone": None, "agent": "agent", "operator": "started_by"}


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """A limit whose uses count for all sessions, or for those of one agent or one operator.

    `counted` identifies the calls: limits that count the same calls share their uses, whatever their
    numbers. A use takes a token from `place`, which comes back after `window` seconds.
    """

    counted: str
    reach: Reach
    place: str
    window: float

    def counter(self, session: Mapping[str, object] | None, digest: str = "") -> str:
        """Counter for a session with these fields, and for one value: 32 hexadecimal digits.

        Sessions that lack the distinguishing field share one counter.
        """
        field = _FIELDS[self.reach]
        distinction = None if field is None or session is None else session.get(field)
        # A name that can be written in two ways is still one person's, as for approvals.
        name = None if distinction is None else person_key(str(distinction))
        identity = [self.counted, self.reach, name, digest]
        return sha256(json.dumps(identity).encode()).hexdigest()[:32]


# Counters shared by several servers.


class Use(NamedTuple):
    """One call's use of a limit, at a time in seconds since 1970."""

    at: float
    session: str
    call_id: str
    net: str


class Reservation(NamedTuple):
    """Uses that a call is about to take: counters by net. They count from `at` until at most `until`."""

    id: str
    session: str
    call_id: str
    counters: Mapping[str, str]
    at: float
    until: float


class CounterReading(NamedTuple):
    """State of some counters: the version of each, and its reserved or recorded uses."""

    versions: Mapping[str, int]
    uses: Mapping[str, Sequence[Use]]


class CounterStoreError(Exception):
    """The store of counters is away, or takes no writes; the message says why."""


class CounterStore(Protocol):
    """Counters shared by several servers. Methods may block, and raise `CounterStoreError`."""

    def read(self, counters: Sequence[str]) -> CounterReading: ...

    def reserve(self, wanted: Sequence[Reservation], versions: Mapping[str, int]) -> bool:
        """Reserve uses and increment the versions if all counters have these versions.

        Otherwise return false and change nothing.
        """
        ...

    def release(self, reserved: Reservation) -> None:
        """Release a reservation, unless its call is recorded as having taken the uses."""
        ...

    def forget(self) -> None:
        """Remove uses that no longer count."""
        ...
