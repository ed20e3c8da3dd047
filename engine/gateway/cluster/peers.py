"""The sessions that are live at other servers of one database, as this server shows them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Set

from ...approvals.request_order import longest_first
from ...history.database.connection import ALL_ROWS
from ...history.errors import FoldError, JournalError
from ...history.fold.fold import new_state
from ...history.journal.journal import Journal
from ...history.model.events import JournalEvent, SessionOpened, SessionResumed, SessionStatus
from ...history.model.state import ApprovalState, SessionState
from ...history.postgres.server import ServerLease
from ...history.postgres.server_list import PeerSession, live_elsewhere
from ...history.redaction.redaction import Redaction
from ...recording.masked_view import MaskedSessionState
from ...recording.session_end import ENDED

NO_SERVER = "no server: a newer version has to go on with it"
"""Name of the server of a session that no server of this version takes."""
AT_ONCE = 100
"""Events of one lane that are read at once."""
LISTED_SECONDS = 5.0
"""Time after which all live sessions are listed anew, though none began, went on or ended."""
LISTING_SHARE = 50
"""Part of the time that may go into that: of many sessions it is done less often."""
LOADED_AT_ONCE = 4
"""Sessions whose records are read at a time."""

log = logging.getLogger(__name__)


def _moves(event: JournalEvent) -> bool:
    """Tell whether a session may be at another server from this event on, or at none."""
    body = event.body
    if isinstance(body, SessionStatus):
        return body.status in ENDED
    return isinstance(body, SessionOpened | SessionResumed)


class PeerSessions:
    """States of sessions at other servers, folded from the journal. `look` brings them up to date."""

    def __init__(self, lease: ServerLease, journal: Journal, redaction: Redaction) -> None:
        self._lease = lease
        self._journal = journal
        self._reader = journal.reader().showing()
        self._redaction = redaction
        self._seen: dict[int, int] | None = None
        self._views: dict[str, MaskedSessionState] = {}
        self._servers: dict[str, PeerSession] = {}
        self._listing_due = 0.0

    async def look(self, tell: Callable[[JournalEvent], object]) -> None:
        """Take in what other servers recorded since the last look, and tell each event as it is shown.

        Raises `JournalError`.
        """
        if self._seen is None:
            self._seen = await asyncio.to_thread(self._reader.positions)
        more = True
        while more:
            behind = self._seen | {self._lease.lane: ALL_ROWS}  # its own it has
            since = self._reader.since_positions
            found, seen, more = await asyncio.to_thread(since, behind, AT_ONCE)
            await self._list({event.session for event in found if _moves(event)})
            self._seen = seen  # none is told twice, and none is not told since the database was away
            for event in found:
                tell(await self._take(event))
        absent = [each for each in self._servers if each not in self._views]
        for first in range(0, len(absent), LOADED_AT_ONCE):
            await asyncio.gather(*map(self._load, absent[first : first + LOADED_AT_ONCE]))
        for session in [each for each in self._views if each not in self._servers]:
            self.forget(session)

    async def _list(self, moved: Set[str]) -> None:
        """Note which sessions are live at which servers; `moved` are surely where they are now.

        Raises `JournalError`.
        """
        began = time.monotonic()
        every = began >= self._listing_due
        if not every and not moved:
            return
        among = None if every else moved
        listed = await asyncio.to_thread(live_elsewhere, self._lease.location, self._lease.id, among)
        newer = self._journal.newer_sessions
        left = newer.keys() if among is None else newer.keys() & among
        found = {each: PeerSession(each, "", NO_SERVER, None) for each in left}
        found |= {each.session: each for each in listed}
        if every:
            self._servers = found
            took = time.monotonic() - began
            self._listing_due = began + max(LISTED_SECONDS, LISTING_SHARE * took)
        else:
            for session in moved:
                self._servers.pop(session, None)
            self._servers |= found

    async def _take(self, event: JournalEvent) -> JournalEvent:
        """Move a session on by an event, which is returned as it is shown."""
        view = self._views.get(event.session)
        if view is None and isinstance(event.body, SessionOpened) and event.seq == 1:
            view = self._views[event.session] = MaskedSessionState(
                new_state(event.session), self._redaction
            )
        if view is None:
            # One that goes on: it is loaded once it is listed.
            return self._redaction.event(event)
        if event.seq <= view.state.seq:
            return self._redaction.event(event)
        try:
            if event.seq == view.state.seq + 1:
                return view.apply(event)
        except FoldError:
            log.exception("Event %d of session '%s' does not fit", event.seq, event.session)
        try:
            await self._load(event.session)
        except JournalError:
            self._views.pop(event.session)  # it is read with the next look
        return self._redaction.event(event)

    async def _load(self, session: str) -> None:
        """Read a session from its record."""
        view = MaskedSessionState(new_state(session), self._redaction)
        events = await asyncio.to_thread(lambda: list(self._reader.events(session)))
        try:
            for event in events:
                view.apply(event)
        except FoldError:
            log.exception("Session '%s' cannot be followed", session)
            return
        if view.state.status not in ENDED:
            self._views[session] = view

    def forget(self, session: str) -> None:
        """Show a session no longer: it ended, or this server has it now."""
        self._views.pop(session, None)
        self._servers.pop(session, None)

    def find(self, session: str) -> MaskedSessionState | None:
        """The state of a session, if it is at another server."""
        return self._views.get(session)

    def of_request(self, approval_id: str) -> str | None:
        """The session in which a request is open, if it is at another server."""
        for session, view in self._views.items():
            if approval_id in view.state.approvals:
                return session
        return None

    def server_of(self, session: str) -> PeerSession | None:
        """The server at which a session is."""
        return self._servers.get(session)

    def states(self) -> list[SessionState]:
        """The states, as they are shown."""
        return [view.shown for view in self._views.values()]

    def requests(self) -> list[ApprovalState]:
        """The open requests, as they are shown."""
        return longest_first(a for view in self._views.values() for a in view.shown.approvals.values())
