"""Position of a reader in the events of a journal: the last cursor of each lane.

In a file all events are in one lane. Servers of one database number in a lane each, and lanes have no
order among each other: who follows them goes by a position in each, so that nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..database.compiled import LANE_BITS


class Positions:
    """The last cursors that a reader has seen, one a lane; of a lane that it does not know, none."""

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
        """The last cursor of a lane; the one before its first where none is known."""
        return self._last.get(lane, lane << LANE_BITS)

    def note(self, cursor: int) -> bool:
        """Move on to an event. False for one that is not new."""
        lane = cursor >> LANE_BITS
        if cursor <= self.in_lane(lane):
            return False
        self._last[lane] = cursor
        return True

    def moved(self, cursor: int) -> Positions:
        """The same with another position in the lane of `cursor`."""
        lane = cursor >> LANE_BITS
        return Positions([cursor, *(each for each in self.cursors if each >> LANE_BITS != lane)])

    @property
    def is_shared(self) -> bool:
        """Tell whether several servers may write: an only lane, that of a file, has the number 0."""
        return any(self._last)

    def copy(self) -> Positions:
        return Positions(self._last.values())
