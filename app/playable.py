"""A recorded session made ready to be replayed: read, folded and looked through beside the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..engine.history.errors import FoldError
from ..engine.history.events import JournalEvent
from ..engine.history.fold import apply, new_state
from ..engine.history.masked import MaskedEvents
from ..engine.history.replay import Replay
from .collector import bulk_load
from .history_source import HistorySource
from .widgets.scrubber import Mark, marks_of

NOTHING = "This session has no events, so there is nothing to replay."


@dataclass(frozen=True, slots=True)
class Playable:
    """The events that follow from each other, and what is wrong with the rest.

    `marks` says by event number where the session was blocked or asked. Unless it is `complete` nobody
    has looked yet whether all events can follow.
    """

    replay: Replay | None
    trouble: str | None = None
    marks: Mapping[int, Mark] = field(default_factory=dict[int, Mark])
    complete: bool = True

    @property
    def events(self) -> Sequence[JournalEvent]:
        return () if self.replay is None else self.replay.events


async def open_recorded(source: HistorySource, session_id: str, at: int | None = None) -> Playable:
    """Read a session of `source`, ready to be shown at its event `at` and to be completed from there.

    Raises what reading raises.
    """
    with bulk_load():
        recorded = await source.recorded(session_id)
        return await asyncio.to_thread(begun, recorded, at or 1)


def begun(recorded: Sequence[JournalEvent], at: int) -> Playable:
    """A session's events made ready up to number `at`."""
    try:
        replay = Replay(recorded, at=at)
    except FoldError:
        return playable(recorded)
    if not recorded:
        return Playable(None, NOTHING)
    plain = recorded.unmasked if isinstance(recorded, MaskedEvents) else recorded
    return Playable(replay, None, marks_of(plain), complete=False)


def playable(recorded: Sequence[JournalEvent]) -> Playable:
    """A session's events made ready, up to the first that cannot follow from those before it."""
    if not recorded:
        return Playable(None, NOTHING)
    try:
        replay, trouble = Replay(recorded), None
    except FoldError:
        replay, trouble = _possible(recorded)
    return Playable(replay, trouble, {} if replay is None else marks_of(replay.events))


def _possible(recorded: Sequence[JournalEvent]) -> tuple[Replay | None, str]:
    state = new_state(recorded[0].session)
    for number, event in enumerate(recorded):
        try:
            apply(state, event)
        except FoldError as error:
            rest = f"Shown are the {number} events before it." if number else "Nothing can be shown."
            return (Replay(recorded[:number]) if number else None), f"Cannot replay {error}. {rest}"
    raise AssertionError("events that cannot be replayed can be folded")
