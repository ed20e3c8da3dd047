"""Effort for an answer, counted in steps and not in time: the same question has the same answer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

UNBOUNDED = 10**18


class SpentError(Exception):
    """The effort is spent before there was an answer."""


@dataclass(slots=True)
class Effort:
    """Steps left to spend; one is a single move of a single net, a microsecond or two."""

    left: int = UNBOUNDED

    def charge(self, steps: int) -> None:
        """Take `steps`. Raises `SpentError` when there were not so many."""
        if steps > self.left:
            self.left = 0
            raise SpentError
        self.left -= steps

    @contextmanager
    def within(self, limit: int) -> Generator[None]:
        """Spend no more than `limit` of it inside the block."""
        before = self.left
        allowed = max(0, min(limit, before))
        self.left = allowed
        try:
            yield
        finally:
            self.left = before - (allowed - self.left)
