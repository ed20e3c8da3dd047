"""Preparation of a recorded session for replay: read, folded and searched for marks in a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...engine.history.errors import FoldError, JournalError
from ...engine.history.fold.fold import apply, new_state
from ...engine.history.fold.replay import Replay
from ...engine.history.model.events import JournalEvent
from ...engine.history.redaction.masked_events import MaskedEvents
from ...engine.hub.api import HistoryApi
from ..terminal.gc import bulk_load
from .marks import Mark, marks_of

NOTHING = "This session has no events, so there is nothing to replay."


@dataclass(frozen=True, slots=True)
class Playable:
    """The events that can be replayed, and the problem with the rest.

    `marks` are blocks and approvals by event number. Unless `complete`, it has not been checked yet
    whether all events can be applied.
    """

    replay: Replay | None
    trouble: str | None = None
    marks: Mapping[int, Mark] = field(default_factory=dict[int, Mark])
    complete: bool = True

    @property
    def events(self) -> Sequence[JournalEvent]:
        return () if self.replay is None else self.replay.events


async def open_recorded(source: HistoryApi, session_id: str, at: int | None = None) -> Playable:
    """Read a session of `source`, prepared to be shown at event `at`.

    Raises the errors of reading.
    """
    with bulk_load():
        recorded = await source.recorded(session_id)
        return await asyncio.to_thread(playable_at, recorded, at or 1)


def playable_at(recorded: Sequence[JournalEvent], at: int) -> Playable:
    """Prepare a session's events up to number `at`."""
    try:
        with bulk_load():
            replay = Replay(recorded, at=at)
    except (FoldError, JournalError):
        return shortened(recorded)
    if not recorded:
        return Playable(None, NOTHING)
    plain = recorded.unmasked if isinstance(recorded, MaskedEvents) else recorded
    return Playable(replay, None, _marks(plain, replay.bearing), complete=replay.whole)


def _marks(plain: Sequence[JournalEvent], bearing: Sequence[int] | None) -> dict[int, Mark]:
    """Return the marks of a session; `bearing` are the only events that may have marks, if known."""
    if bearing is None:
        return marks_of(plain)
    return {bearing[n - 1]: mark for n, mark in marks_of([plain[n - 1] for n in bearing]).items()}


def playable(recorded: Sequence[JournalEvent]) -> Playable:
    """Prepare a session's events up to the first that cannot be applied."""
    if not recorded:
        return Playable(None, NOTHING)
    try:
        replay = Replay(recorded)
    except (FoldError, JournalError):
        return shortened(recorded)
    return Playable(replay, None, marks_of(replay.events))


def shortened(recorded: Sequence[JournalEvent]) -> Playable:
    """Return the events before the first that cannot be applied or read, and the problem with it."""
    state = new_state(recorded[0].session)
    for number in range(len(recorded)):
        try:
            apply(state, recorded[number])
        except (FoldError, JournalError) as error:
            problem = f"Cannot replay {error}." if isinstance(error, FoldError) else str(error)
            if not number:
                return Playable(None, f"{problem} Nothing can be shown.")
            before = Replay(recorded[:number])
            trouble = f"{problem} Shown are the {number} events before it."
            return Playable(before, trouble, marks_of(before.events))
    raise AssertionError("events that cannot be replayed can be folded")
