"""The live sessions of a server as a console knows them: the states it was sent, moved on by events.

What is sent is masked already, and folding what is shown gives what is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ...approvals.queue import Unread
from ...history.errors import FoldError
from ...history.fold.fold import apply, new_state
from ...history.model.events import JournalEvent, SessionOpened
from ...history.model.state import ApprovalState, SessionState

log = logging.getLogger(__name__)


class Mirror:
    """See the module. Pure: whoever feeds it fetches what it says it lacks."""

    def __init__(self) -> None:
        self.cursor: int | None = None
        self._states: dict[str, SessionState] = {}
        self._early: dict[str, list[JournalEvent]] = {}
        self._unread: dict[str, int] = {}
        self._first: list[ApprovalState] = []

    def expect(self, waiting: Mapping[str, int], first: Iterable[ApprovalState]) -> None:
        """How many requests each session has that is not here yet, and those that come first of all."""
        self._unread = {each: number for each, number in waiting.items() if each not in self._states}
        self._first = list(first)

    @property
    def first(self) -> list[ApprovalState]:
        """The first requests of sessions that are not here yet."""
        return [each for each in self._first if each.session in self._unread]

    @property
    def unread(self) -> Unread:
        """The sessions that are not here yet, and their requests beside the first."""
        return Unread(len(self._unread), sum(self._unread.values()) - len(self.first))

    def get(self, session_id: str) -> SessionState | None:
        return self._states.get(session_id)

    def take(self, event: JournalEvent) -> bool:
        """Move on by an event. False when the session's state has to be fetched first."""
        self.cursor = event.cursor
        waiting = self._early.get(event.session)
        if waiting is not None:
            waiting.append(event)
            return True
        state = self._states.get(event.session)
        if state is None and isinstance(event.body, SessionOpened) and event.seq == 1:
            state = self._states[event.session] = new_state(event.session)
            self._unread.pop(event.session, None)
        if state is not None and self._move(state, event):
            return True
        self._early[event.session] = [event]
        return False

    def put(self, state: SessionState) -> bool:
        """A state that was fetched. False when what came meanwhile does not follow it: fetch again."""
        early = self._early.pop(state.id, None)
        if early is None and not self.lacks(state.id, state.seq):
            return True  # events have brought it further than that meanwhile
        self._states[state.id] = state
        self._unread.pop(state.id, None)
        for event in early or ():
            if not self._move(state, event):
                self._early[state.id] = []
                return False
        return True

    def lacks(self, session_id: str, seq: int) -> bool:
        """Whether the state of a session is not here, or is behind its event number `seq`."""
        state = self._states.get(session_id)
        return state is None or state.seq < seq

    def forget(self, session_id: str) -> None:
        """There is no such live session; events that waited for its state are of no use."""
        self._states.pop(session_id, None)
        self._unread.pop(session_id, None)
        self._early.pop(session_id, None)

    def keep(self, live: Iterable[str]) -> None:
        """Only these are live."""
        wanted = set(live)
        for session_id in [each for each in self._states if each not in wanted]:
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
