"""Any moment of a recorded session, and steps between moments."""

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
"""Number of events from which a session is outlined, if its rows are available."""
AT_A_TIME = 32
"""Events folded in the background before the user's thread gets its turn."""


class Replay:
    """A session's events with a position among them.

    `position` counts the events applied: 0 before the first, `len(replay)` at the end, where it starts
    unless `at` is given. Some states along the events are kept, so that a change of position replays only
    a part. A returned state does not change when the replay moves on; callers must not change it.

    For a long session read from a journal the states lack the older part of the transcript, and those of
    `calls` that can no longer change: `earlier` entries are left out, at least `WINDOW` are present.
    """

    def __init__(self, events: Iterable[JournalEvent], *, at: int | None = None) -> None:
        """Raises `FoldError` if the events up to `at` cannot follow each other."""
        self.events: Sequence[JournalEvent] = (
            events if isinstance(events, MaskedEvents | LazyEvents) else tuple(events)
        )
        self._outline = _outline_of(self.events)
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
        """The number of events applied, which is that of the event just shown."""
        return self._position

    @property
    def event(self) -> JournalEvent | None:
        """The event that led to `state`; `None` at the very beginning."""
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
        """The number of entries that the transcripts of `before` and `state` lack at the beginning."""
        return self._earlier

    @property
    def whole(self) -> bool:
        """Return whether all events are known to be valid and near a checkpoint: `fill` is not needed."""
        return self._outline is not None and self._outline.upto == len(self.events)

    @property
    def bearing(self) -> Sequence[int] | None:
        """Numbers of events in which a call may have been blocked or approval requested, if known."""
        return self._outline.bearing if self._outline is not None and self.whole else None

    @property
    def changes(self) -> list[str]:
        """The changes by `event` as text; none at the very beginning."""
        return changes(self._before, self.event, self._state) if self.event is not None else []

    def goto(self, position: int) -> SessionState:
        """Go to an event by its number; a number outside of the events means the nearest end."""
        position = min(max(position, 0), len(self.events))
        if position == 0:
            self._position, self._earlier = 0, 0
            self._before = self._state = self._checkpoints[0]
        elif position != self._position:
            is_near = position == self._position + 1 and (not self._earlier or self._reaches(position))
            before, earlier = (
                (self._state, self._earlier) if is_near else self._way(position - 1, towards=position)
            )
            state = snapshot(before)
            apply(state, self.events[position - 1])
            self._position, self._earlier, self._before, self._state = position, earlier, before, state
        return self._state

    def at(self, position: int) -> SessionState:
        """Return the state after `position` events without moving there; do not change it.

        It is folded from the nearest kept state before it. Raises `FoldError` as the constructor does.
        """
        return self._way(position, towards=position)[0]

    def _reaches(self, position: int) -> bool:
        return self._outline is not None and position <= self._outline.upto

    def _way(self, position: int, *, towards: int) -> tuple[SessionState, int]:
        """Return the state after `position` events and its missing entries, on the way to `towards`."""
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
        """Keep states along all events, so that every position is near one; for a background thread.

        It pauses while another thread folds. It stops when `cancelled` returns true. Raises `FoldError`
        if the events cannot follow each other.
        """
        state, position = snapshot(self._checkpoints[0]), 0
        while position < len(self.events) and not cancelled():
            # Otherwise a thread that paints would wait for this one repeatedly.
            time.sleep(0)
            with self._lock:
                checkpoint = (
                    self._checkpoints.get(position + self._gap) if position % self._gap == 0 else None
                )
            if checkpoint is not None:
                state, position = snapshot(checkpoint), position + self._gap
                continue
            for event in self.events[position : position + AT_A_TIME]:
                apply(state, event)
                position += 1
                if position % self._gap == 0:
                    with self._lock:
                        self._checkpoints.setdefault(position, snapshot(state))
                    break

    def step(self, by: int = 1) -> SessionState:
        """Go `by` events forward, or back if negative."""
        return self.goto(self._position + by)


def _outline_of(events: Sequence[JournalEvent]) -> Outline | None:
    """Return the outline of a long session whose rows are available, else `None`."""
    unmasked_events = events.unmasked if isinstance(events, MaskedEvents) else events
    if not isinstance(unmasked_events, LazyEvents) or len(unmasked_events) < OUTLINED:
        return None
    return outline(unmasked_events.rows, events)
