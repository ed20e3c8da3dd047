"""Operators who have a request on screen now; not recorded, and forgotten soon unless renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

LASTS = 60.0
"""Seconds for which a console's report that it shows a request is valid."""
MOST_READERS = 20
"""Maximum number of names that are shown for one request."""
MOST_CONSOLES = 4096
"""Maximum number of consoles that are tracked."""


@dataclass(slots=True)
class _Reading:
    name: str
    approval_id: str
    timer: asyncio.TimerHandle


class Readers:
    """The request on each console's screen; `on_change` is called with a request and its readers."""

    def __init__(self, on_change: Callable[[str, tuple[str, ...]], object]) -> None:
        self._on_change = on_change
        self._consoles: dict[str, _Reading] = {}

    def note(self, console: str, name: str, approval_id: str | None) -> None:
        """Note which request a console has on screen, or that it has none."""
        before = self._consoles.pop(console, None)
        if before is not None:
            before.timer.cancel()
        if approval_id is not None and name.strip() and len(self._consoles) < MOST_CONSOLES:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(LASTS, self.note, console, "", None)
            self._consoles[console] = _Reading(name.strip(), approval_id, timer)
        if before is not None and before.approval_id != approval_id:
            self._on_change(before.approval_id, self.of(before.approval_id))
        if approval_id is not None and (before is None or before.approval_id != approval_id):
            self._on_change(approval_id, self.of(approval_id))

    def of(self, approval_id: str) -> tuple[str, ...]:
        """Return the names of the operators who have a request on screen."""
        names = (each.name for each in self._consoles.values() if each.approval_id == approval_id)
        return tuple(sorted(dict.fromkeys(names)))[:MOST_READERS]
