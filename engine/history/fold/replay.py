"""Any moment of a recorded session, and how to get from one to the next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from ..journal.lazy_events import LazyEvents
from ..model.events import JournalEvent
from ..model.state import SessionState
from ..redaction.masked_events import MaskedEvents
from .event_text import changes
from .fold import apply, new_state, snapshot
from .outline import Outline, outline

MOST_CHECKPOINTS = 128
SHORTEST_GAP = 256
OUTLINED = 2 * SHORTEST_GAP
"""Events from which on a session is outlined, where its rows are at hand."""
AT_A_TIME = 32
"""Events that are folded in the background before a user's thread gets its turn."""


class Replay:
    """A session's events with a position among them.

    `position` counts the events applied: 0 before the first, `len(replay)` at the end, where it starts
    unless `at` says otherwise. States on the way are kept every so often, so that going anywhere replays
    a part only. A state handed out stays as it is when the replay moves on; do not change it.

    Of a long session read from a journal the states lack the older part of the transcript, and of `calls`
    those that can change no more: `earlier` entries are left out, `WINDOW` or more are there.
    """

    def __init__(self, events: Iterable[JournalEvent], *, at: int | None = None) -> None:
        """Raises `FoldError` when the events up to there cannot follow each other."""
        self.events: Sequence[JournalEvent] = (
            events if isinstance(events, MaskedEvents | LazyEvents) else tuple(events)
        )
        self._outline = _outlined(self.events)
        self._earlier = 0
        self._lock = threading.Lock()
        self._gap = max(SHORTEST_GAP, -(-len(self.events) // MOST_CHECKPOINTS))
        self._checkpoints = {0: new_state(self.events[0].session if self.events else "")}
        self._position = 0
        self._before = self._state = self._checkpoints[0]
        self.goto(len(self.events) if at is None else at)

    def __len__(self) -> int:
        return len(self.events)

    @property
    def position(self) -> int:
        """The number of events applied: that of the event just shown."""
        return self._position

    @property
    def event(self) -> JournalEvent | None:
        """The event that led to `state`; none at the very beginning."""
        return self.events[self._position - 1] if self._position else None

    @property
    def before(self) -> SessionState:
        """The state before `event`."""
        return self._before

    @property
    def state(self) -> SessionState:
        """The state after `event`."""
        return self._state

    @property
    def earlier(self) -> int:
        """The number of entries that the transcript of `before` and `state` lacks at its beginning."""
        return self._earlier

    @property
    def whole(self) -> bool:
        """Tell whether every event is known to follow, and near: there is nothing to `fill`."""
        return self._outline is not None and self._outline.upto == len(self.events)

    @property
    def bearing(self) -> Sequence[int] | None:
        """The numbers of events in which a call may have been blocked or a person asked, where known."""
        return self._outline.bearing if self._outline is not None and self.whole else None

    @property
    def changes(self) -> list[str]:
        """The changes by `event`, in words; none at the very beginning."""
        return changes(self._before, self.event, self._state) if self.event is not None else []

    def goto(self, position: int) -> SessionState:
        """Go to an event by its number; before the first or after the last one, to that end."""
        position = min(max(position, 0), len(self.events))
        if position == 0:
            self._position, self._earlier = 0, 0
            self._before = self._state = self._checkpoints[0]
        elif position != self._position:
            near = position == self._position + 1 and (not self._earlier or self._reaches(position))
            before, earlier = (
                (self._state, self._earlier) if near else self._way(position - 1, towards=position)
            )
            state = snapshot(before)
            apply(state, self.events[position - 1])
            self._position, self._earlier, self._before, self._state = position, earlier, before, state
        return self._state

    def at(self, position: int) -> SessionState:
        """The state after `position` events, while this stays where it is; do not change it.

        It is folded from the nearest state kept before it. Raises `FoldError` as the constructor.
        """
        return self._way(position, towards=position)[0]

    def _reaches(self, position: int) -> bool:
        return self._outline is not None and position <= self._outline.upto

    def _way(self, position: int, *, towards: int) -> tuple[SessionState, int]:
        """The state after `position` events and what its transcript lacks, on the way `towards` one."""
        if self._outline is not None and self._reaches(towards):
            start, earlier, state = self._outline.before(position)
            state = snapshot(state)
            for event in self.events[start:position]:
                apply(state, event)
            return state, earlier
        return self._from_checkpoint(position), 0

    def _from_checkpoint(self, position: int) -> SessionState:
        with self._lock:
            start = max(n for n in self._checkpoints if n <= position)
            if start == position:
                return self._checkpoints[start]
            state = snapshot(self._checkpoints[start])
            for n in range(start + 1, position + 1):
                apply(state, self.events[n - 1])
                if n % self._gap == 0 and n not in self._checkpoints:
                    self._checkpoints[n] = snapshot(state)
            return state

    def fill(self, cancelled: Callable[[], bool] = bool) -> None:
        """Keep all states that are worth it, so that every way is short; for a thread besides the user's.

        It pauses while another thread folds its own way. Stops when `cancelled` says yes. Raises
        `FoldError` when the events cannot follow each other.
        """
        state, position = snapshot(self._checkpoints[0]), 0
        while position < len(self.events) and not cancelled():
            # Unless it lets go by itself, a thread that paints waits for this one time and again.
            time.sleep(0)
            with self._lock:
                known = self._checkpoints.get(position + self._gap) if position % self._gap == 0 else None
            if known is not None:
                state, position = snapshot(known), position + self._gap
                continue
            for event in self.events[position : position + AT_A_TIME]:
                apply(state, event)
                position += 1
                if position % self._gap == 0:
                    with self._lock:
                        self._checkpoints.setdefault(position, snapshot(state))
                    break

    def step(self, by: int = 1) -> SessionState:
        """Go `by` events on, or back when negative."""
        return self.goto(self._position + by)


def _outlined(events: Sequence[JournalEvent]) -> Outline | None:
    """The outline of a long session whose rows are at hand."""
    plain = events.unmasked if isinstance(events, MaskedEvents) else events
    if not isinstance(plain, LazyEvents) or len(plain) < OUTLINED:
        return None
    return outline(plain.rows, events)
