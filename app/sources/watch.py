"""A hub without agents: the sessions that another process hosts, read from its journal.

It never writes, and polls the journal for new events. Streamed text is not in the journal, so a message
or output appears only when it is complete.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import timedelta
from heapq import merge
from pathlib import Path

from ...engine.approvals.request_order import Unread, longest_first
from ...engine.backtest.explain_recorded import explain_recorded_call
from ...engine.core.clock import utc_now
from ...engine.history.database.location import Location, resolved
from ...engine.history.decisions.precedents import PrecedentIndex, Precedents
from ...engine.history.errors import JournalError
from ...engine.history.fold.fold import FoldError, new_state
from ...engine.history.journal.reader import open_reader
from ...engine.history.logs.freeze_log import FreezeLog
from ...engine.history.logs.key_log import KeyLog
from ...engine.history.model.events import CallDecided, JournalEvent
from ...engine.history.model.records import FreezeRecord, JournalOutage
from ...engine.history.model.state import ApprovalState, Origin, SessionState
from ...engine.history.postgres.servers.silence import NO_ANSWER
from ...engine.history.redaction.redaction import Redaction
from ...engine.hub.api import PasskeyList
from ...engine.hub.hub import Subscription, UnknownSessionError
from ...engine.hub.passkey_api import passkey_list
from ...engine.recording.explanation import ExplanationView
from ...engine.recording.masked_view import MaskedSessionState
from ...rules import condition_of
from .recorded_file import RecordedFile

EVERY = 0.5
"""Seconds between two reads of the journal."""
SILENT_SECONDS = 4.0
"""Seconds without an answer after which a database counts as unreachable."""

log = logging.getLogger(__name__)


class WatchedJournal(RecordedFile):
    """The journal at `database`, followed. Call `look`, then `follow`; `close` ends following."""

    def __init__(self, database: Location, redaction: Redaction | None = None) -> None:
        super().__init__(database, redaction)
        self._views: dict[str, MaskedSessionState] = {}
        self._at: dict[str, int] = {}
        self._subscriptions: list[Subscription] = []
        self._failed: Exception | None = None
        self._answered = time.monotonic()
        self._outage: JournalOutage | None = None
        self._precedents = PrecedentIndex(database)
        self._following: asyncio.Task[None] | None = None

    # Reading the journal

    async def look(self) -> None:
        """Read new events, and pass them to subscribers. Raises `JournalError` and `FoldError`."""
        found = await asyncio.to_thread(self._read)
        self._answered = time.monotonic()
        for event in found:
            view = self._views.get(event.session)
            if view is None:
                view = self._views[event.session] = MaskedSessionState(
                    new_state(event.session), self.redaction
                )
            masked = view.apply(event)
            for subscription in self._subscriptions:
                subscription.put(masked)

    def _read(self) -> list[JournalEvent]:
        """Return new events of sessions that are open, or were when last seen, in order of time.

        A session's events stay in their own order, even if several servers numbered them.
        """
        reader = open_reader(self.database).showing()
        started = sorted(reader.unfinished(), key=lambda summary: summary.opened)
        names = dict.fromkeys([*self._at, *(summary.id for summary in started)])
        found: list[list[JournalEvent]] = []
        for session in names:
            new = list(reader.events(session, after=self._at.get(session, 0)))
            if new:
                self._at[session] = new[-1].seq
                found.append(new)
        return list(merge(*found, key=lambda event: (event.at, event.cursor)))

    def follow(self, every: float = EVERY) -> None:
        """Start polling the journal."""
        self._following = asyncio.get_running_loop().create_task(self._follow(every))

    async def _follow(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                await self.look()
            except (JournalError, FoldError) as error:
                # Raised at the next query; a file that is only locked for a moment recovers.
                log.warning("cannot follow the journal: %s", error)
                self._failed = error
            else:
                self._failed = None

    async def close(self) -> None:
        """Stop polling, and close all subscriptions."""
        for subscription in list(self._subscriptions):
            subscription.close()
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following

    # The hub's interface

    async def sessions(self) -> list[SessionState]:
        """Return the sessions that are open, and those that ended while this watched.

        Raises the error of the last read of the journal, if it failed.
        """
        if self._failed is not None:
            raise self._failed
        return [view.shown for view in self._views.values()]

    async def session(self, session_id: str) -> SessionState:
        """Return the state of a session. Raises `UnknownSessionError`."""
        view = self._views.get(session_id)
        if view is None:
            raise UnknownSessionError(f"No open session '{session_id}'")
        return view.shown

    async def approvals(self) -> list[ApprovalState]:
        """Return all open requests, the oldest first."""
        waiting = [a for view in self._views.values() for a in view.shown.approvals.values()]
        return longest_first(waiting)

    def current_freeze(self) -> FreezeRecord | None:
        """Return the freeze that the journal's writer applies."""
        # Symbolic links are resolved, as by the writer: the log is next to the journal itself.
        return FreezeLog(resolved(self.database), utc_now).read()

    def current_outage(self) -> JournalOutage | None:
        """The time in which a database did not answer; a file that cannot be read `sessions` reports."""
        silent = time.monotonic() - self._answered
        if isinstance(self.database, Path) or silent < SILENT_SECONDS:
            self._outage = None
        elif self._outage is None or self._failed is not None:
            since = utc_now() - timedelta(seconds=silent) if self._outage is None else self._outage.since
            reason = str(self._failed or NO_ANSWER)
            self._outage = JournalOutage(since=since, kind="unreachable", reason=reason)
        return self._outage

    async def passkeys(self) -> PasskeyList:
        """Return the passkeys in the log next to the journal."""
        found = await asyncio.to_thread(KeyLog(resolved(self.database)).read)
        return passkey_list(found.in_force(), found.faults)

    def groups_of(self, name: str) -> tuple[str, ...]:
        """Return no groups: nobody decides here."""
        return ()

    def key_link(self, approval_id: str) -> str | None:
        """Return `None`: nobody decides here."""
        return None

    async def precedents(self, approval_id: str) -> Precedents:
        views = self._views.values()
        view = next((each for each in views if approval_id in each.shown.approvals), None)
        if view is None:
            raise LookupError(f"No open request '{approval_id}'")
        asked, shown = (state.approvals[approval_id] for state in (view.state, view.shown))
        return await asyncio.to_thread(
            self._precedents.masked_of, asked, shown, self.language.programs, self.redaction
        )

    def unread(self) -> Unread:
        """Return nothing: the journal is read completely."""
        return Unread()

    def steers(self, session_id: str) -> bool:
        """Return `False`: the agent belongs to another process."""
        return False

    def server_of(self, session_id: str) -> str | None:
        """Return `None`: the process that writes a file has every session."""

    def takes_edits(self, session_id: str) -> bool:
        """Return `True`, the default for agents without further information."""
        return True

    async def explain(self, session_id: str, call_id: str) -> ExplanationView:
        """Explain a call by the recorded nets in their present markings, with the names it was judged by.

        Raises `UnknownSessionError`, and `LookupError` for a call that the session has not made.
        """
        state = await self.session(session_id)
        call = state.calls.get(call_id)
        if call is None:
            raise LookupError(f"Session '{session_id}' has made no call '{call_id}'")
        question = CallDecided(
            call_id=call_id,
            tool=call.tool,
            input=call.input,
            names=call.names or (call.tool,),
            outcome="ask",
            mode=state.mode,
        )
        return await asyncio.to_thread(explain_recorded_call, state, question, utc_now(), condition_of)

    async def origin(self, session_id: str) -> Origin:
        found = await asyncio.to_thread(lambda: open_reader(self.database).session(session_id))
        return Origin(session=found.id, source=found.source, imported=found.imported)

    def subscribe(self, limit: int | None = None) -> Subscription:
        """Subscribe to all events found from now on. Close the subscription when done."""
        subscription = Subscription(self._subscriptions.remove, limit)
        self._subscriptions.append(subscription)
        return subscription
