"""Uses of limits over sessions, reserved among the servers that share a record (G-93).

Each server counts by itself what it has heard of. Before a call takes a use, that is reserved where all
servers do so, by compare-and-set: what was counted has to be all that there is. Where another server came
first, what it used is read, and the call is judged again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ..core.shared_counters import CounterStore, Reservation
from .shared_uses import SharedUses

if TYPE_CHECKING:
    import asyncio

MOST_ATTEMPTS = 100
"""Times that a call is judged while other servers use its counters; then it is blocked."""
_MOST_VERSIONS = 10_000

T = TypeVar("T")

log = logging.getLogger(__name__)


class Reservations:
    """Reserves uses for the gates of one server, one call after the other. For one event loop."""

    def __init__(self, store: CounterStore, uses: SharedUses) -> None:
        self._store = store
        self._uses = uses
        self._versions: dict[str, int] = {}
        self._turn: asyncio.Lock | None = None
        self._work: set[asyncio.Task[None]] = set()

    @property
    def turn(self) -> asyncio.Lock:
        """Held by the call that reserves, until it is decided."""
        import asyncio  # not for gates without a record

        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn

    def is_unsure(self, counters: Iterable[str]) -> bool:
        """Tell whether something is counted for one of these that may yet be given back elsewhere."""
        return any(self._uses.has_reserved(counter) for counter in counters)

    async def refresh(self, counters: Iterable[str]) -> None:
        """Count what all servers have used or reserved. Raises what the store raises."""
        wanted = sorted(set(counters))
        reading = await _in_thread(lambda: self._store.read(wanted))
        if len(self._versions) > _MOST_VERSIONS:
            self._versions.clear()
        for counter in wanted:
            self._uses.set_reserved(counter, reading.uses.get(counter, ()))
        self._versions.update(reading.versions)

    async def reserve(self, wanted: Reservation) -> bool:
        """Reserve uses. False where other servers had used the counters, which is counted now.

        For the holder of `turn`. Raises what the store raises; then it may be reserved: `release` it.
        """
        counters = set(wanted.counters.values())
        if not counters <= self._versions.keys():
            await self.refresh(counters)
            return False
        versions = {counter: self._versions.pop(counter) for counter in counters}
        if await _in_thread(lambda: self._store.reserve(wanted, versions)):
            self._versions.update({counter: version + 1 for counter, version in versions.items()})
            return True
        await self.refresh(counters)
        return False

    def release(self, reserved: Reservation) -> None:
        """Take back a reservation soon; what its counters have is read again before the next."""
        import asyncio

        for counter in reserved.counters.values():
            self._versions.pop(counter, None)

        async def work() -> None:
            try:
                await _in_thread(lambda: self._store.release(reserved))
            except Exception:
                log.warning("What call '%s' reserved counts for longer", reserved.call_id, exc_info=True)

        task = asyncio.get_running_loop().create_task(work())
        self._work.add(task)
        task.add_done_callback(self._work.discard)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run what waits for the store in a thread, to its end: cancelled, this waits for that first."""
    import asyncio

    task: Awaitable[T] = asyncio.get_running_loop().create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            await task
        raise
