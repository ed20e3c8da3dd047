"""Effort for an answer, counted in steps rather than time, so that answers are reproducible."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

UNBOUNDED = 10**18


class SpentError(Exception):
    """The effort was spent before there was an answer."""


@dataclass(slots=True)
class Effort:
    """Steps left to spend; one is a single move of a single net, which takes a microsecond or two."""

    left: int = UNBOUNDED

    def charge(self, steps: int) -> None:
        """Spend `steps`. Raises `SpentError` if fewer are left."""
        if steps > self.left:
            self.left = 0
            raise SpentError
        self.left -= steps

    @contextmanager
    def within(self, limit: int) -> Generator[None]:
        """Spend at most `limit` steps inside the block."""
        before = self.left
        allowed = max(0, min(limit, before))
        self.left = allowed
        try:
            yield
        finally:
            self.left = before - (allowed - self.left)
