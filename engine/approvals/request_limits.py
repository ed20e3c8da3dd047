"""Open requests of external agents, counted by who opened their sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class OpenRequests:
    """Open requests of one hub. `most` is how many of one opener may wait; `None` lets any number."""

    most: int | None = None
    _waiting: Counter[str] = field(default_factory=Counter[str])

    def refusal(self, opener: str | None) -> str | None:
        """The reason why nothing more is asked for one opener; `None` while there is room."""
        if opener is None or self.most is None or self._waiting[opener] < self.most:
            return None
        return (
            f"{self.most} requests of '{opener}' wait for a person already, the most that may. "
            "Wait until some of them are decided, or go on with what needs no approval"
        )

    @contextmanager
    def counted(self, opener: str | None) -> Generator[None, None, None]:
        """Count a request as open inside the block."""
        if opener is None:
            yield
            return
        self._waiting[opener] += 1
        try:
            yield
        finally:
            self._waiting[opener] -= 1
            if not self._waiting[opener]:
                del self._waiting[opener]
