"""Writes one session's events to its journal: in order, and none that depend on lost ones.

The journal knows of a failed commit before the session does. What is handed over in between was decided
on events that are in no file, so it must not be written either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..history.journal.journal import Journal
from ..history.model.events import EventBody, JournalEvent


class SessionWriter:
    """Writer of one session. `written` gets every event in the moment it is known to be durable."""

    def __init__(
        self, session_id: str, journal: Journal, written: Callable[[JournalEvent], None]
    ) -> None:
        self._session_id = session_id
        self._journal = journal
        self._written = written
        self._last = 0
        # Number of hand-overs whose outcome is not known yet.
        self._unheard = 0

    def __call__(
        self, *bodies: EventBody, then: Callable[[bool], None] | None = None
    ) -> asyncio.Future[None]:
        """Hand events over at once; the future ends once `written` has them, or with `JournalError`.

        `then` learns whether they were written before any waiter goes on: for these events, or for others
        that were lost with them. Cancelling the future changes nothing. Raises as `Journal.submit`, then
        without calling `then`.
        """
        after = self._last if self._unheard else None
        events, durable = self._journal.submit(self._session_id, *bodies, after=after)
        if events:
            self._last = events[-1].seq
            self._unheard += 1
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_durable(done: asyncio.Future[None]) -> None:
            failure = done.exception()
            if events:
                self._unheard -= 1
            # Even if `written` or `then` raises, no one waits for ever.
            try:
                for event in events if failure is None else ():
                    self._written(event)
            finally:
                try:
                    if then is not None:
                        then(failure is None)
                finally:
                    _settle(heard, failure)

        durable.add_done_callback(on_durable)
        return heard


def _settle(heard: asyncio.Future[None], failure: BaseException | None) -> None:
    if heard.done():
        return
    if failure is None:
        heard.set_result(None)
    else:
        heard.set_exception(failure)
