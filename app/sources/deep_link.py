"""Deep links: open a console at the queue, a session or an approval request."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:#-]{0,127}")


@dataclass(frozen=True, slots=True)
class DeepLink:
    """Link to the queue when both are `None`; a request takes precedence over a session."""

    session: str | None = None
    approval: str | None = None

    @classmethod
    def of(cls, kind: str, name: str) -> DeepLink:
        """Parse `/s/SESSION` or `/a/APPROVAL`. Raises `ValueError` if the name cannot be an id."""
        if not _ID.fullmatch(name):
            raise ValueError("no such id")
        return cls(session=name) if kind == "s" else cls(approval=name)

    @property
    def options(self) -> tuple[str, ...]:
        """The same link as options of `interlock console`."""
        if self.session is not None:
            return (f"--session={self.session}",)
        return () if self.approval is None else (f"--approval={self.approval}",)
