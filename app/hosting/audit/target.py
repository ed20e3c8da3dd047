"""Interface of a stream's receivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ....engine.history.audit.stream import StreamLine

PATIENCE = 10.0
"""Seconds allowed for one attempt."""


class TargetError(Exception):
    """The lines did not arrive, or not all of them; the message has the cause and the remedy.

    `wait` is the pause in seconds that the receiver requests.
    """

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class TooLargeError(TargetError):
    """The receiver accepts less at a time.

    `most` and `largest` are already reduced, so send again at once.
    """


class Target(Protocol):
    """A receiver. `most` is the maximum number of bytes per batch, `largest` that of one line."""

    @property
    def most(self) -> int: ...

    @property
    def largest(self) -> int | None: ...

    def check(self) -> None:
        """Check the requirements for starting.

        Raises `TargetError`, but not for a receiver that is down.
        """
        ...

    async def send(self, lines: Sequence[StreamLine]) -> None:
        """Send lines; when this returns, the receiver has them. Raises `TargetError`."""
        ...

    async def close(self) -> None:
        """Close all open resources."""
        ...
