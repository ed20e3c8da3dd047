"""Receivers of a stream, as whoever sends it sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ....engine.history.audit.stream import StreamLine

PATIENCE = 10.0
"""Seconds that a receiver has for one attempt."""


class TargetError(Exception):
    """Nothing, or not all, arrived; the message says why, and what to do.

    The receiver wants to be left alone for `wait` seconds.
    """

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class TooLargeError(TargetError):
    """The receiver takes less at a time, as `most` and `largest` say from now on: send again at once."""


class Target(Protocol):
    """A receiver. `most` are the bytes that it is given at a time, `largest` those of one line."""

    @property
    def most(self) -> int: ...

    @property
    def largest(self) -> int | None: ...

    def check(self) -> None:
        """Look at what has to be there at the start. Raises `TargetError`; one that is down is none."""
        ...

    async def send(self, lines: Sequence[StreamLine]) -> None:
        """Send lines; once this returns the receiver has them. Raises `TargetError`."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...
