"""Position of a reader in the events of a journal: the last cursor of each lane.

A file has one lane. Each server of a database assigns cursors in a lane of its own, and lanes have no
order among each other. A reader therefore keeps a position per lane, so that it skips no event.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..database.compiled import LANE_BITS


class Positions:
    """The last cursor that a reader has seen in each lane; lanes not seen yet have no entry."""

    def __init__(self, cursors: Iterable[int] = ()) -> None:
        self._last = {cursor >> LANE_BITS: cursor for cursor in sorted(cursors)}

    @property
    def cursors(self) -> tuple[int, ...]:
        """The last cursor of each lane, in the order of the lanes."""
        return tuple(self._last[lane] for lane in sorted(self._last))

    @property
    def by_lane(self) -> dict[int, int]:
        """The last cursor of each lane, by the lane."""
        return dict(self._last)

    def in_lane(self, lane: int) -> int:
        """Return the last cursor of a lane; for an unknown lane the cursor before its first."""
        return self._last.get(lane, lane << LANE_BITS)

    def note(self, cursor: int) -> bool:
        """Move on to an event. Return false if it was seen already."""
        lane = cursor >> LANE_BITS
        if cursor <= self.in_lane(lane):
            return False
        self._last[lane] = cursor
        return True

    def moved(self, cursor: int) -> Positions:
        """Return a copy with the position in the lane of `cursor` changed to `cursor`."""
        lane = cursor >> LANE_BITS
        return Positions([cursor, *(each for each in self.cursors if each >> LANE_BITS != lane)])

    @property
    def is_shared(self) -> bool:
        """Return whether several servers may write: the only lane of a file has the number 0."""
        return any(self._last)

    def copy(self) -> Positions:
        return Positions(self._last.values())
