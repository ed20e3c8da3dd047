"""Ledger of one session: its events in order, and its gate kept consistent with them.

The journal knows of a failed commit before the session does. Events written in between were decided on
the basis of lost events, so they must not be recorded either. A change of the gate that could not be
recorded leaves the gate ahead of the journal. No other change is then recorded, so nothing runs on its
basis, until the gate has been set back to the state of the journal.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Protocol

from ..history.errors import FoldError, JournalError, ServerEnded, SessionBehind, SessionDiverged
from ..history.journal.journal import Journal
from ..history.model.events import EventBody, JournalEvent
from ..history.model.state import SessionState

_holding: set[asyncio.Task[None]] = set()
"""Tasks that wait until this process may act on what is recorded; the loop keeps weak references only."""


def note_refusal(log: logging.Logger, text: str, *values: object, level: int = logging.ERROR) -> bool:
    """Log the `JournalError` being handled; return true if the refused write can be retried.

    A server whose session another server has taken over records nothing more; the other one does. That a
    session diverged was logged when it was noticed.
    """
    error = sys.exception()
    if isinstance(error, ServerEnded):
        log.info(f"{text}: another server has its session", *values)
    elif isinstance(error, SessionDiverged):
        log.info(f"{text}: the session diverged", *values)
    else:
        log.log(level, f"{text}: %s", *values, error)
        return True
    return False


class RepeatedRefusals:
    """Logs refused writes that are retried: the first of each subject as an error, others for debugging.

    An outage may last for hours. `text` has a place for the subject.
    """

    def __init__(self, log: logging.Logger, text: str) -> None:
        self._log = log
        self._text = text
        self._subjects: set[str] = set()

    def note(self, subject: str) -> bool:
        """Log the `JournalError` being handled; see `note_refusal`."""
        level = logging.DEBUG if subject in self._subjects else logging.ERROR
        self._subjects.add(subject)
        return note_refusal(self._log, self._text, subject, level=level)

    def forget(self, subject: str) -> None:
        """Note that a write succeeded."""
        self._subjects.discard(subject)


class EventRecorder(Protocol):
    """A session's state, and its changes through recorded events. See `HostedSession`."""

    id: str

    @property
    def state(self) -> SessionState: ...

    async def record(
        self, *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> None: ...

    def hand_over(self, *bodies: EventBody) -> asyncio.Future[None]: ...


class LedgerHost(Protocol):
    """The session to which a ledger belongs; see `HostedSession`."""

    id: str

    @property
    def state(self) -> SessionState: ...

    def prepare(self, bodies: Iterable[EventBody]) -> Iterable[EventBody]:
        """Events in the form to be recorded. Raises `JournalError` for those that must not be."""
        ...

    def note_written(self, event: JournalEvent) -> None:
        """Apply an event as soon as it is known to be durable."""
        ...

    def note_lost(self, body: EventBody) -> None:
        """Handle an event that could not be recorded."""
        ...

    def set_back(self) -> None:
        """Reset the gate to the state of the journal."""
        ...


class SessionLedger:
    """Ordered writer of one session's events, and of the changes of its gate."""

    def __init__(self, host: LedgerHost, journal: Journal) -> None:
        self._host = host
        self._journal = journal
        self._last = 0
        self._rests_on: int | None = None
        # Numbers of writes, and of gate changes among them, with an unknown outcome.
        self._open = self._open_changes = 0
        self._ended: asyncio.Event | None = None
        self.is_ahead = False
        """True if the gate has made a change that could not be recorded: `catch_up` sets it back."""
        self.is_unsure = False
        """True after a write that failed: a database may have it, or get it, all the same."""
        self.is_behind = False
        """True once events were recorded that the session does not know: it has to be begun anew."""

    def compare(self, last: int) -> None:
        """Compare the session with the number of its last recorded event, read while nothing is open."""
        if not self._open and last > self._host.state.seq:
            self.is_behind = True

    def follow(self, seq: int) -> None:
        """Base the first write on this event: it fails if another event came after it."""
        self._rests_on = seq

    def write(
        self, *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> asyncio.Future[None]:
        """Hand events to the journal at once; later writes come after them.

        The future completes once the host has the events. It fails with `JournalError` if they were not
        recorded, or if they were but do not fit the host's state. `on_written` is called before any
        waiter continues, with whether the write succeeded. Cancelling the future has no effect. Raises as
        `Journal.submit`, in which case `on_written` is not called.
        """
        host = self._host
        # A write that failed for want of an answer may have been recorded since: nothing may follow what
        # the session does not know.
        after = self._last if self._open else self._rests_on or host.state.seq or None
        try:
            events, durable = self._journal.submit(host.id, *host.prepare(bodies), after=after)
        except SessionBehind:
            self.is_behind = True
            raise
        if events:
            self._rests_on = None
            self._last = events[-1].seq
            self._open += 1
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_durable(done: asyncio.Future[None]) -> None:
            failure = problem = done.exception()
            self.is_unsure = failure is not None
            if events:
                self._open -= 1
                self._note_end()
            # Even if the host or `on_written` raises, nobody waits forever.
            try:
                for event in events:
                    if failure is None:
                        host.note_written(event)
                    else:
                        host.note_lost(event.body)
            except FoldError as error:
                problem = JournalError(f"The recorded events contradict earlier ones: {error}.")
                raise
            finally:
                try:
                    if on_written is not None:
                        on_written(failure is None)
                finally:
                    if problem is None and not self._journal.is_held:
                        # This process was paused since the events were recorded.
                        holding = asyncio.get_running_loop().create_task(self._hold(written))
                        _holding.add(holding)
                        holding.add_done_callback(_holding.discard)
                    elif not written.done():
                        written.set_result(None) if problem is None else written.set_exception(problem)

        durable.add_done_callback(on_durable)
        return written

    async def _hold(self, written: asyncio.Future[None]) -> None:
        """Complete a write's future once what is recorded may be acted on again, or never will."""
        try:
            await self._journal.until_held()
        except JournalError as error:
            if not written.done():
                written.set_exception(error)
        else:
            if not written.done():
                written.set_result(None)

    def write_change(self, bodies: Callable[[], Iterable[EventBody]]) -> asyncio.Future[None]:
        """Record what the gate has just done; `bodies` creates the events.

        If called without a pause after the change, records have the order of the gate's changes. Never
        raises: the future fails with the error, and the gate is then ahead.
        """
        try:
            if self.is_ahead:
                raise JournalError("an earlier change could not be recorded")
            written = self.write(*bodies(), on_written=self._end_change)
        except Exception as error:
            self.is_ahead = True
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        self._open_changes += 1
        return written

    def _end_change(self, written: bool) -> None:
        self.is_ahead = self.is_ahead or not written
        self._open_changes -= 1
        self._note_end()

    def _note_end(self) -> None:
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    async def _another_end(self) -> None:
        """Wait until the outcome of a write is known. The event is created on demand: few wait."""
        self._ended = self._ended or asyncio.Event()
        await self._ended.wait()

    async def record_change(self, *bodies: EventBody) -> None:
        """Record what the gate has just done; return once it is durable.

        Raises `JournalError`; the gate has then been set back.
        """
        try:
            await self.write_change(lambda: bodies)
        except JournalError:
            await self.catch_up()
            raise

    async def outcomes_known(self) -> None:
        """Wait until no write is in progress; later writes then follow nothing that may yet be lost."""
        while self._open:
            await self._another_end()

    async def catch_up(self) -> None:
        """Set back a gate that is ahead of the journal; nothing runs between this and the caller's next
        step.

        Changes in progress may still be written, or fail because of what they followed.
        """
        while self.is_ahead and self._open_changes:
            await self._another_end()
        if self.is_ahead:
            self._host.set_back()
            self.is_ahead = False
