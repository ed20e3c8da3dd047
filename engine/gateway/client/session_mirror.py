"""A console's copy of a server's live sessions: the states that were sent, updated by events.

Both are masked by the server; folding masked events gives masked states.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from ...approvals.request_order import Unread
from ...history.errors import FoldError
from ...history.fold.fold import apply, new_state
from ...history.model.events import ApprovalRequested, JournalEvent, SessionOpened
from ...history.model.positions import Positions
from ...history.model.state import ApprovalState, SessionState, mark_disconnected, mark_readers
from ...hub.events import DisconnectedCalls, RequestReaders

log = logging.getLogger(__name__)


class Mirror:
    """Copy of the live sessions. Pure: the caller fetches what it reports as missing."""

    def __init__(self) -> None:
        self.positions: Positions | None = None
        self._states: dict[str, SessionState] = {}
        self._early: dict[str, list[JournalEvent]] = {}
        self._unread: dict[str, int] = {}
        self._first: list[ApprovalState] = []
        self._disconnected: dict[str, Mapping[str, datetime]] = {}
        self._readers: dict[str, RequestReaders] = {}

    def expect(self, waiting: Mapping[str, int], first: Iterable[ApprovalState]) -> None:
        """Set the number of requests of each session not loaded yet, and the queue's first requests."""
        self._unread = {each: number for each, number in waiting.items() if each not in self._states}
        self._first = list(first)

    def connections(self, event: DisconnectedCalls) -> None:
        """Store for which calls of a session no connection waits."""
        self._disconnected[event.session] = event.calls
        first = {each.id: each for each in self._first if each.session == event.session}
        mark_disconnected(first, event.calls)
        self._first = [first.get(each.id, each) for each in self._first]
        self._mark(event.session)

    def note_readers(self, event: RequestReaders) -> None:
        """Store which operators have a request open."""
        if event.names:
            self._readers[event.approval_id] = event
        else:
            self._readers.pop(event.approval_id, None)
        state = self._states.get(event.session)
        if state is not None:
            for key in [k for k, e in self._readers.items() if e.session == state.id]:
                if key not in state.approvals:
                    del self._readers[key]  # the request has ended
            mark_readers(state.approvals, event.approval_id, event.names)

    def forget_connections(self) -> None:
        """Treat all calls as connected and all requests as unopened, until the server reports again."""
        for event in list(self._readers.values()):
            self.note_readers(event.model_copy(update={"names": ()}))
        for session in self._disconnected:
            self._disconnected[session] = {}
            self._mark(session)
        self._disconnected.clear()

    def _mark(self, session_id: str) -> None:
        state, calls = self._states.get(session_id), self._disconnected.get(session_id)
        if state is not None and calls is not None:
            mark_disconnected(state.approvals, calls)

    @property
    def first(self) -> list[ApprovalState]:
        """The first requests of sessions that are not loaded yet."""
        return [each for each in self._first if each.session in self._unread]

    @property
    def unread(self) -> Unread:
        """Number of sessions that are not loaded yet, and of their requests in addition to the first."""
        return Unread(len(self._unread), sum(self._unread.values()) - len(self.first))

    def get(self, session_id: str) -> SessionState | None:
        return self._states.get(session_id)

    def take(self, event: JournalEvent) -> bool:
        """Apply an event. Returns false if the session's state must be fetched first."""
        if self.positions is None:
            self.positions = Positions()
        self.positions.note(event.cursor)
        waiting = self._early.get(event.session)
        if waiting is not None:
            waiting.append(event)
            return True
        state = self._states.get(event.session)
        if state is None and isinstance(event.body, SessionOpened) and event.seq == 1:
            state = self._states[event.session] = new_state(event.session)
            self._unread.pop(event.session, None)
        if state is not None and self._move(state, event):
            if isinstance(event.body, ApprovalRequested):
                self._mark(event.session)
            return True
        self._early[event.session] = [event]
        return False

    def add(self, state: SessionState) -> bool:
        """Add a fetched state. Returns false if later events do not follow it: fetch again."""
        early = self._early.pop(state.id, None)
        if early is None and not self.lacks(state.id, state.seq):
            return True  # events have already advanced it beyond that state
        self._states[state.id] = state
        self._unread.pop(state.id, None)
        for event in early or ():
            if not self._move(state, event):
                self._early[state.id] = []
                return False
        self._mark(state.id)
        for event in self._readers.values():
            if event.session == state.id:
                mark_readers(state.approvals, event.approval_id, event.names)
        return True

    def lacks(self, session_id: str, seq: int) -> bool:
        """Return whether the state of a session is missing, or older than its event number `seq`."""
        state = self._states.get(session_id)
        return state is None or state.seq < seq

    def forget(self, session_id: str) -> None:
        """Remove a session that is not live, with the events queued for it."""
        self._states.pop(session_id, None)
        self._unread.pop(session_id, None)
        self._early.pop(session_id, None)
        self._disconnected.pop(session_id, None)

    def keep(self, live: Iterable[str]) -> None:
        """Remove all sessions except these."""
        live_ids = set(live)
        for session_id in [each for each in self._states if each not in live_ids]:
            self.forget(session_id)

    @staticmethod
    def _move(state: SessionState, event: JournalEvent) -> bool:
        if event.seq <= state.seq:
            return True
        if event.seq != state.seq + 1:
            return False
        try:
            apply(state, event)
        except FoldError:
            log.exception("Event %d of session '%s' does not fit", event.seq, event.session)
            return False
        return True
