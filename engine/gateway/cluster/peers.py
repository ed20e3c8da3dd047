"""Live sessions at other servers of the database, as this server shows them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Set

from ...approvals.request_order import longest_first
from ...history.database.connection import ALL_ROWS
from ...history.errors import FoldError, JournalError
from ...history.fold.fold import new_state
from ...history.journal.journal import Journal
from ...history.model.events import JournalEvent, SessionOpened, SessionResumed, SessionStatus
from ...history.model.state import ApprovalState, SessionState
from ...history.postgres.servers.lease import ServerLease
from ...history.postgres.servers.listing import PeerSession, live_elsewhere
from ...history.redaction.redaction import Redaction
from ...recording.masked_view import MaskedSessionState
from ...recording.session_end import ENDED
from ..protocol.console_methods import DIVERGED

NO_SERVER = "no server: a newer version has to go on with it"
"""Server name shown for a session that only a server of a newer version can continue."""
AT_ONCE = 100
"""Largest number of events of one lane read by a query."""
LISTED_SECONDS = 5.0
"""Shortest time between two complete listings of live sessions."""
LISTING_SHARE = 50
"""Complete listings take at most 1/50 of the time: they are less frequent with many sessions."""
LOADED_AT_ONCE = 4
"""Number of sessions whose records are read concurrently."""

log = logging.getLogger(__name__)


def _moves(event: JournalEvent) -> bool:
    """Return whether a session may have moved to another server, or ended, with this event."""
    body = event.body
    if isinstance(body, SessionStatus):
        return body.status in ENDED
    return isinstance(body, SessionOpened | SessionResumed)


class PeerSessions:
    """States of sessions at other servers, folded from the journal. `look` updates them."""

    def __init__(self, lease: ServerLease, journal: Journal, redaction: Redaction) -> None:
        self._lease = lease
        self._journal = journal
        self._reader = journal.reader().showing()
        self._redaction = redaction
        self._seen: dict[int, int] | None = None
        self._views: dict[str, MaskedSessionState] = {}
        self._servers: dict[str, PeerSession] = {}
        self._listing_due = 0.0
        self._diverged: frozenset[str] = frozenset()

    @property
    def positions(self) -> Mapping[int, int] | None:
        """The last cursor of each lane when the database was last read; `None` if it was not read yet."""
        return self._seen

    async def look(self, tell: Callable[[JournalEvent], object]) -> None:
        """Read events that other servers recorded since the last call, and pass each masked to `tell`.

        Raises `JournalError`.
        """
        if self._seen is None:
            self._seen = await asyncio.to_thread(self._reader.positions)
        more = True
        while more:
            positions = self._seen | {self._lease.lane: ALL_ROWS}  # skips its own events
            since = self._reader.since_positions
            events, positions_after, more = await asyncio.to_thread(since, positions, AT_ONCE)
            await self._list({event.session for event in events if _moves(event)})
            # Set after the listing, so that a failure neither repeats nor skips events.
            self._seen = positions_after
            for event in events:
                tell(await self._take(event))
        absent = [each for each in self._servers if each not in self._views]
        for first in range(0, len(absent), LOADED_AT_ONCE):
            await asyncio.gather(*map(self._load, absent[first : first + LOADED_AT_ONCE]))
        for session in [each for each in self._views if each not in self._servers]:
            self.forget(session)

    async def _list(self, moved: Set[str]) -> None:
        """Update which sessions are live at which servers: all if due, else only those in `moved`.

        Raises `JournalError`.
        """
        self._note_diverged()
        started_at = time.monotonic()
        is_complete = started_at >= self._listing_due
        if not is_complete and not moved:
            return
        among = None if is_complete else moved
        listed = await asyncio.to_thread(live_elsewhere, self._lease.location, self._lease.id, among)
        newer = self._journal.newer_sessions
        newer_here = newer.keys() if among is None else newer.keys() & among
        sessions = {each: PeerSession(each, "", NO_SERVER, None) for each in newer_here}
        diverged = self._diverged if among is None else self._diverged & among
        sessions |= {each: PeerSession(each, "", DIVERGED, None) for each in diverged}
        sessions |= {each.session: each for each in listed}
        if is_complete:
            self._servers = sessions
            took = time.monotonic() - started_at
            self._listing_due = started_at + max(LISTED_SECONDS, LISTING_SHARE * took)
        else:
            for session in moved:
                self._servers.pop(session, None)
            self._servers |= sessions

    def _note_diverged(self) -> None:
        """Read sessions again that have diverged, or whose divergence was accepted."""
        diverged = frozenset(self._journal.diverged_sessions)
        if diverged != self._diverged:
            for session in diverged ^ self._diverged:
                self._views.pop(session, None)
            self._diverged = diverged
            self._listing_due = 0.0

    def _note(self, session: str, state: SessionState) -> None:
        """Note the last event of a session, to notice if the database loses it."""
        if session not in self._diverged:
            self._journal.note_followed(session, state.seq, is_over=state.status in ENDED)

    async def _take(self, event: JournalEvent) -> JournalEvent:
        """Apply an event to its session's state, and return the event masked."""
        view = self._views.get(event.session)
        if view is None and isinstance(event.body, SessionOpened) and event.seq == 1:
            view = self._views[event.session] = MaskedSessionState(
                new_state(event.session), self._redaction
            )
        if view is None:
            # A session that already existed is loaded after it is listed.
            return self._redaction.event(event)
        if event.seq <= view.state.seq:
            return self._redaction.event(event)
        try:
            if event.seq == view.state.seq + 1:
                masked = view.apply(event)
                self._note(event.session, view.state)
                return masked
        except FoldError:
            log.exception("Event %d of session '%s' does not fit", event.seq, event.session)
        try:
            await self._load(event.session)
        except JournalError:
            self._views.pop(event.session)  # the next `look` reads it again
        return self._redaction.event(event)

    async def _load(self, session: str) -> None:
        """Fold a session's state from its record."""
        view = MaskedSessionState(new_state(session), self._redaction)
        events = await asyncio.to_thread(lambda: list(self._reader.events(session)))
        try:
            for event in events:
                view.apply(event)
        except FoldError:
            log.exception("Session '%s' cannot be followed", session)
            return
        if events:
            self._note(session, view.state)
        if view.state.status not in ENDED:
            self._views[session] = view

    def forget(self, session: str) -> None:
        """Remove a session that has ended or that this server owns now."""
        self._views.pop(session, None)
        self._servers.pop(session, None)

    def find(self, session: str) -> MaskedSessionState | None:
        """State of a session at another server; `None` for any other session."""
        return self._views.get(session)

    def of_request(self, approval_id: str) -> str | None:
        """Id of the session at another server in which a request is open."""
        for session, view in self._views.items():
            if approval_id in view.state.approvals:
                return session
        return None

    def server_of(self, session: str) -> PeerSession | None:
        """Server that owns a session."""
        return self._servers.get(session)

    def states(self) -> list[SessionState]:
        """All states, secrets masked."""
        return [view.shown for view in self._views.values()]

    def requests(self) -> list[ApprovalState]:
        """All open requests, the longest-waiting first, secrets masked."""
        diverged = self._journal.diverged_sessions
        views = (each for session, each in self._views.items() if session not in diverged)
        return longest_first(a for view in views for a in view.shown.approvals.values())
