"""The freeze of all agents of a hub: calls wait before they are judged, until it is lifted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from ..history.logs.freeze_log import FreezeLog
from ..history.model.records import FreezeRecord

T = TypeVar("T")


def _ignore(_: FreezeRecord | None) -> None:
    """Tell nobody."""


class CallFreeze:
    """The freeze in force, if any, and the calls that wait for its end; begins as the log says.

    `on_change` hears of each freeze, and of its end as `None`.
    """

    def __init__(self, log: FreezeLog | None = None) -> None:
        self.log = log
        self.on_change: Callable[[FreezeRecord | None], object] = _ignore
        self._current = None if log is None else log.read()
        self.followed = self._current
        """The freeze that the log last had, where other servers write it, too."""
        self.unkept: FreezeRecord | None = None
        """The freeze in force, where the log could not take it yet."""
        self._held = False
        self._lifted = asyncio.Event()
        self.turn = asyncio.Lock()
        """Held by who freezes or lifts: one at a time."""
        self._work: set[asyncio.Task[object]] = set()

    @property
    def current(self) -> FreezeRecord | None:
        """The freeze in force."""
        return self._current

    @property
    def holds(self) -> bool:
        """Tell whether calls wait, for the end of a freeze or of this hub."""
        return self._held or self._current is not None

    def hold(self) -> None:
        """Have every call wait from now on, as this hub ends; no record says so."""
        self._held = True
        self._lifted.clear()

    def begin(self, freeze: FreezeRecord) -> None:
        """Have every call wait from this moment on."""
        self._current = freeze
        self._lifted.clear()
        self.on_change(freeze)

    def end(self) -> None:
        """Let the calls go on."""
        # The next freeze here is another one, whose end no end of this one is.
        self._current = self.followed = self.unkept = None
        if not self._held:
            self._lifted.set()
        self.on_change(None)

    async def wait_for_end(self) -> None:
        """Return when nothing is frozen."""
        while self.holds:
            await self._lifted.wait()

    async def finish(self, work: Coroutine[None, None, T]) -> T:
        """Do what is written of a freeze to its end, even if who asked for it has gone meanwhile."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)
