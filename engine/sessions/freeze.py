"""Freeze of all agents of a hub: calls wait before they are judged, until it is lifted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from ..history.logs.freeze_log import FreezeLog
from ..history.model.records import FreezeRecord

T = TypeVar("T")


def _ignore(_: FreezeRecord | None) -> None:
    """Do nothing."""


class CallFreeze:
    """The freeze in force, if any, and the calls that wait for its end; starts in the log's state.

    `on_change` is called with each freeze, and with `None` at its end.
    """

    def __init__(self, log: FreezeLog | None = None) -> None:
        self.log = log
        self.on_change: Callable[[FreezeRecord | None], object] = _ignore
        self._current = None if log is None else log.read()
        self.followed = self._current
        """The last freeze read from the log, which other servers may write too."""
        self.in_log = self._current is not None
        """True once the freeze in force is in the log: if it is no longer there, it was lifted."""
        self.unkept: FreezeRecord | None = None
        """The freeze in force, if it could not be written to the log yet."""
        self._held = False
        self._lifted = asyncio.Event()
        self._thawed = asyncio.Event()
        self.turn = asyncio.Lock()
        """Held while freezing or lifting, so that only one operation runs at a time."""
        self._work: set[asyncio.Task[object]] = set()

    @property
    def current(self) -> FreezeRecord | None:
        """The freeze in force."""
        return self._current

    @property
    def holds(self) -> bool:
        """Return whether calls wait, for the end of a freeze or because this hub ends."""
        return self._held or self._current is not None

    def hold(self) -> None:
        """Make every call wait from now on, because this hub ends; this is not recorded."""
        self._held = True
        self._lifted.clear()

    def begin(self, freeze: FreezeRecord) -> None:
        """Make every call wait from this moment on."""
        self._current = freeze
        self._lifted.clear()
        self._thawed.clear()
        self.on_change(freeze)

    def end(self) -> None:
        """Let the calls continue."""
        # Clear all of them: this end must not apply to a later freeze.
        self._current = self.followed = self.unkept = None
        self.in_log = False
        self._thawed.set()
        if not self._held:
            self._lifted.set()
        self.on_change(None)

    async def wait_for_end(self, *, although_ending: bool = False) -> None:
        """Return when nothing is frozen, and the hub does not end unless `although_ending`."""
        if although_ending:
            while self._current is not None:
                await self._thawed.wait()
        while self.holds and not although_ending:
            await self._lifted.wait()

    async def finish(self, work: Coroutine[None, None, T]) -> T:
        """Complete the writing about a freeze, even if its caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)
