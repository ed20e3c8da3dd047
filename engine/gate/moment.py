"""What a verdict rests on beside the nets: the time, and where the calls run."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import cast

from ..condition import NOWHERE, Surroundings
from ..net import Marking, Since, SkillNet
from ..timed import Aged, aged, arrivals, moved_times, timed_places
from .member import Member


class Timekeeper:
    """A gate's clock, in seconds since 1970, which never goes back: what was over stays over."""

    def __init__(self, clock: Callable[[], float], around: Surroundings = NOWHERE) -> None:
        self._clock = clock
        self.around = around
        self._latest = -inf

    def moment(self) -> Moment:
        return Moment(self, self.around)

    def read(self) -> float:
        """The time. Raises what the clock raises, and `ValueError` when it does not say a time."""
        time = cast("object", self._clock())
        if not isinstance(time, int | float) or not isfinite(time):
            raise ValueError(f"it says {time!r}, expected seconds since 1970")
        self._latest = max(self._latest, float(time))
        return self._latest

    def begin_at(self, latest: float) -> None:
        """Let another record's time count, be it earlier; it had come to `latest`."""
        self._latest = latest


class Moment:
    """One point in time, taken when something first depends on it; `clock` is `None` until then."""

    __slots__ = ("_aged", "_timekeeper", "around", "clock", "moved")

    def __init__(self, timekeeper: Timekeeper, around: Surroundings) -> None:
        self.around = around
        self.clock: float | None = None
        self.moved: dict[str, Since] | None = None
        """By net: when the tokens came that a commit took away or brought; see `timed.moved_times`."""
        self._timekeeper = timekeeper
        self._aged: dict[str, Aged] | None = None

    def now(self) -> float:
        """Raises as `Timekeeper.read` does."""
        if self.clock is None:
            self.clock = self._timekeeper.read()
        return self.clock

    def since(self, net: SkillNet, marking: Marking, told: Since) -> Since:
        """When a net's tokens came: as `told`, and those of which it is not told now.

        Raises as `Timekeeper.read` does.
        """
        if any(marking.get(p, 0) > len(told.get(p, ())) for p in timed_places(net)):
            return arrivals(net, told, marking, marking, self.now())
        return told

    def note_moved(self, member: Member, before: Since, after: Since) -> None:
        """Remember what a commit did to the tokens of a net that time moves."""
        times = moved_times(member.net, before, after)
        if times is not None:
            self.moved = {**(self.moved or {}), member.key: times}

    def aged(self, member: Member) -> Aged:
        """Where time has brought a net by now; the same answer until `Moment` ends.

        Raises what the clock raises, and `NetError` for a net that does not come to rest.
        """
        if self._aged is None:
            self._aged = {}
        found = self._aged.get(member.key)
        if found is None:
            state = member.state
            found = aged(member.net, state.marking, state.since, self.now())
            self._aged[member.key] = found
        return found

    def marking(self, member: Member) -> Marking:
        """Where the net stands by now. Raises as `aged` does."""
        return self.aged(member).marking if member.net.timed else member.state.marking
