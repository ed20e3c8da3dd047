"""Limits for each peer, so that none starves the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

Count = Annotated[int, Field(strict=True, gt=0)]
Amount = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server. Sizes are in bytes, times in seconds."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    frame: Count = 1 << 20
    """Size of one message; a larger one closes its connection."""
    connections: Count = 4096
    connections_per_token: Count = 2048
    strangers: Count = 256
    """Connections that are not authenticated yet; beyond this number the oldest is cut."""
    strangers_per_address: Count = 64
    """Unauthenticated HTTP connections of one address; further ones are cut at once."""
    head: Amount = 10.0
    """Time for the head of an HTTP request; then its connection is cut."""
    body: Amount = 30.0
    """Time for the body of an HTTP request; then the request is refused."""
    rate: Amount = 5000.0
    """Messages of one token per second, weighted by `weight`; further ones wait in the socket."""
    at_work: Count = 64
    """Requests of one connection in progress, without open calls; further ones wait in its socket."""
    at_work_per_token: Count = 256
    """Requests of one token in progress, on all its connections."""
    calls_per_connection: Count = 4096
    """Calls of one connection that wait for an answer."""
    calls_per_token: Count = 8192
    """Waiting calls of one token on all connections; several requests for one call count separately."""
    jobs_per_token: Count = 16
    """Concurrent jobs of one token, each in its own thread."""
    stalled: Amount = 30.0
    """Time after which a connection is cut if its peer reads nothing."""
    sessions_per_token: Count = 1024
    requests_per_token: Count = 100
    """Approval requests of one token's sessions; a call beyond them is blocked."""
    calls_per_session: Count = 256
    """Calls of one session that wait for an answer."""
    waiting_bytes: Count = 64 << 20
    """Total size of the inputs of all pending calls of one token, as computed by `footprint`."""
    wait: Amount = 24 * 3600.0
    """Longest wait of a call for an answer; then the client asks again."""
    absent: Amount = 120.0
    """Time for which an unanswered call stays open after its last waiting connection was lost."""
    idle: Amount = 24 * 3600.0
    """Time without a call after which a session is ended."""
    failures: Count = 20
    """Refused tokens from one address within a minute; further attempts have to wait."""
    backlog: Count = 10_000
    """Events buffered for a slow console; further ones are read from the journal."""


BYTES = 4096
"""Bytes of a message that count as one additional message."""
VALUES = 100
"""Values in a message that count as one additional message: each is parsed, judged and recorded."""
VALUE = 64
"""Bytes of memory per value in addition to its text: an empty list takes only two bytes of text."""
_FEW = 64


def values(text: str) -> int:
    """Count the values in the lists and objects of a JSON text; an empty list or object counts as one.

    Counts in the text, which is cheaper than parsing it. For a text with few separators, the number may
    include separators within strings.
    """
    separators = _separators(text)
    if separators <= _FEW:
        return separators
    # Without escaped quotes, every second part between quotes is outside of strings.
    return _separators("".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2]))


def _separators(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def weight(frame: str | bytes) -> float:
    """Weight of a message, in messages of ordinary size."""
    inside = values(frame) // VALUES if isinstance(frame, str) else 0
    return 1 + len(frame) / BYTES + inside


def footprint(text: str) -> int:
    """Approximate memory of a parsed JSON text, in bytes."""
    return len(text) + VALUE * values(text)


class Bucket:
    """Token bucket: `rate` units per second, and up to `rate` at once after a pause."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._remaining = rate
        self._at = clock()

    def take(self, weight: float = 1.0) -> float:
        """Take `weight` units; return the seconds to wait before continuing."""
        now = self._clock()
        self._remaining = min(self._rate, self._remaining + (now - self._at) * self._rate) - weight
        self._at = now
        return max(0.0, -self._remaining / self._rate)


class TokenLoad:
    """Work in progress of one token on all its connections."""

    def __init__(self, limits: Limits) -> None:
        self.bucket = Bucket(limits.rate)
        self.places = asyncio.Semaphore(limits.at_work_per_token)
        self.calls = 0
        self.jobs = 0


class Failures:
    """Refused tokens by address within the last minute, for the latest addresses only."""

    KEPT = 10_000

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = most
        self._clock = clock
        self._times: dict[str, list[float]] = {}

    def note(self, address: str) -> None:
        """Count a refused token."""
        times = self._times.pop(address, [])
        self._times[address] = [*times[-self._limit :], self._clock()]
        while len(self._times) > self.KEPT:
            del self._times[next(iter(self._times))]

    def too_many(self, address: str) -> bool:
        """Return whether this address has to wait."""
        since = self._clock() - 60.0
        return sum(at > since for at in self._times.get(address, ())) >= self._limit
