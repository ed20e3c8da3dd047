"""Ledger of one session: its events in order, none that rests on lost ones, and its gate kept with them.

The journal knows of a failed commit before the session does. What is written in between was decided on
events that are in no file, so it must not be recorded either. And a change of the gate that could not be
recorded leaves the gate ahead of the journal: no other change is then recorded, so nothing runs that
rests on it, until the gate has been set back to where the journal is.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Protocol

from ..history.errors import FoldError, JournalError, ServerEnded
from ..history.journal.journal import Journal
from ..history.model.events import EventBody, JournalEvent
from ..history.model.state import SessionState


def note_refusal(log: logging.Logger, text: str, *values: object) -> bool:
    """Log the `JournalError` that is handled; true where what was refused can be tried again.

    A server that another one has ended records nothing more: what it had is the other one's to do.
    """
    ended = isinstance(sys.exception(), ServerEnded)
    if ended:
        log.info(f"{text}: another server has its session", *values)
    else:
        log.exception(text, *values)
    return not ended


class EventRecorder(Protocol):
    """A session's state, and how it changes: by events that are recorded. See `HostedSession`."""

    id: str

    @property
    def state(self) -> SessionState: ...

    async def record(
        self, *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> None: ...

    def hand_over(self, *bodies: EventBody) -> asyncio.Future[None]: ...


class LedgerHost(Protocol):
    """The session whose ledger it is; see `HostedSession`."""

    id: str

    def prepare(self, bodies: Iterable[EventBody]) -> Iterable[EventBody]:
        """Events as they are to be recorded. Raises `JournalError` for those that must not be."""
        ...

    def note_written(self, event: JournalEvent) -> None:
        """Take in an event in the moment in which it is known to be durable."""
        ...

    def note_lost(self, body: EventBody) -> None:
        """Take note of an event that could not be recorded."""
        ...

    def set_back(self) -> None:
        """Put the gate where the journal is."""
        ...


class SessionLedger:
    """Ordered writer of one session's events, and of the changes of its gate."""

    def __init__(self, host: LedgerHost, journal: Journal) -> None:
        self._host = host
        self._journal = journal
        self._last = 0
        self._rests_on: int | None = None
        # Numbers of writes, and of changes of the gate among them, whose outcome is not known yet.
        self._open = self._open_changes = 0
        self._ended: asyncio.Event | None = None
        self.is_ahead = False
        """True if the gate has made a change that could not be recorded: `catch_up` sets it back."""

    def follow(self, seq: int) -> None:
        """Have what is written first rest on this event: it fails where another came after it."""
        self._rests_on = seq

    def write(
        self, *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> asyncio.Future[None]:
        """Hand events to the journal at once; what is handed over later follows them.

        The future ends once the host has them, or with `JournalError`, also where they are recorded and
        do not fit what the host has. `on_written` learns whether they were written before any waiter goes
        on: for these events, or for others that were lost with them. Cancelling the future changes
        nothing. Raises as `Journal.submit`, then without a call of `on_written`.
        """
        host, after = self._host, self._last if self._open else self._rests_on
        events, durable = self._journal.submit(host.id, *host.prepare(bodies), after=after)
        if events:
            self._rests_on = None
            self._last = events[-1].seq
            self._open += 1
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_durable(done: asyncio.Future[None]) -> None:
            failure = problem = done.exception()
            if events:
                self._open -= 1
                self._note_end()
            # Even if the host or `on_written` raises, no one waits for ever.
            try:
                for event in events:
                    if failure is None:
                        host.note_written(event)
                    else:
                        host.note_lost(event.body)
            except FoldError as error:
                problem = JournalError(f"What was recorded does not fit what came before it: {error}.")
                raise
            finally:
                try:
                    if on_written is not None:
                        on_written(failure is None)
                finally:
                    if not heard.done():
                        heard.set_result(None) if problem is None else heard.set_exception(problem)

        durable.add_done_callback(on_durable)
        return heard

    def write_change(self, bodies: Callable[[], Iterable[EventBody]]) -> asyncio.Future[None]:
        """Hand over what the gate has just done, of which `bodies` makes the events.

        Handed over in the same moment, what the gate does next follows it in the record too. Never
        raises: the future ends with what went wrong, and the gate is ahead.
        """
        try:
            if self.is_ahead:
                raise JournalError("what came before it could not be recorded")
            heard = self.write(*bodies(), on_written=self._end_change)
        except Exception as error:
            self.is_ahead = True
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        self._open_changes += 1
        return heard

    def _end_change(self, written: bool) -> None:
        self.is_ahead = self.is_ahead or not written
        self._open_changes -= 1
        self._note_end()

    def _note_end(self) -> None:
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    async def _another_end(self) -> None:
        """Wait until the outcome of a write is known. Few ever do, and sessions are many."""
        self._ended = self._ended or asyncio.Event()
        await self._ended.wait()

    async def record_change(self, *bodies: EventBody) -> None:
        """Record what the gate has just done; returns once it is durable.

        Raises `JournalError`; the gate has then been set back.
        """
        try:
            await self.write_change(lambda: bodies)
        except JournalError:
            await self.catch_up()
            raise

    async def outcomes_known(self) -> None:
        """Wait until no write is under way: what is written then follows nothing that may yet be lost."""
        while self._open:
            await self._another_end()

    async def catch_up(self) -> None:
        """Set back a gate that is ahead of the journal; nothing comes between this and what is next.

        Changes that are under way may yet be written, or fail for what they followed.
        """
        while self.is_ahead and self._open_changes:
            await self._another_end()
        if self.is_ahead:
            self._host.set_back()
            self.is_ahead = False
