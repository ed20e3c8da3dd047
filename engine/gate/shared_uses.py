"""Uses of limits that hold over many sessions, counted over all gates of a server or program (G-93)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import NamedTuple, TypeAlias

from ..core.shared_limit import SharedLimit


class Use(NamedTuple):
    """One call's use of a limit, at a time in seconds since 1970."""

    at: float
    session: str
    call_id: str
    net: str


RecordedUses: TypeAlias = Callable[[float], Iterable[tuple[str, str, str, str, float]]]
"""Gives the uses of the last seconds by a record: session, call, net, counter and time."""


def no_record(window: float) -> Iterable[tuple[str, str, str, str, float]]:
    """The record of a program that keeps none."""
    del window
    return ()


class SharedUses:
    """Uses by counter, see `SharedLimit.counter`; one for all gates whose calls count together.

    All those gates take `lock` for each of their phases, so that no two of them take the last use. Uses
    are kept for as long as the longest limit needs, and taken from `recorded` as far back as that.
    """

    def __init__(self, recorded: RecordedUses = no_record) -> None:
        self.lock = RLock()
        self._recorded = recorded
        self._window = 0.0
        self._uses: dict[str, list[Use]] = {}
        self._of_call: dict[tuple[str, str], dict[str, str]] = {}

    def of_session(self, session: str) -> SessionUses:
        """The uses as one session's gate takes them."""
        return SessionUses(self, session)

    def keep_for(self, limits: Iterable[SharedLimit]) -> None:
        """Keep uses long enough for these limits. Raises what reading the record raises."""
        window = max((limit.window for limit in limits), default=0.0)
        with self.lock:
            if window <= self._window:
                return
            recorded = list(self._recorded(window))
            self._window = window
            for session, call_id, net, counter, at in recorded:
                self.add(counter, Use(at, session, call_id, net))

    def add(self, counter: str, use: Use) -> None:
        """Count a use; one that is counted already counts once."""
        with self.lock:
            known = self._of_call.setdefault((use.session, use.call_id), {})
            if use.net in known:
                return
            known[use.net] = counter
            uses = self._uses.setdefault(counter, [])
            insort(uses, use)
            self._forget(uses, uses[-1].at - self._window)

    def _forget(self, uses: list[Use], until: float) -> None:
        """Forget the uses until this time, oldest first."""
        old = bisect_right(uses, (until, "\U0010ffff", "", ""))
        for use in uses[:old]:
            known = self._of_call.get((use.session, use.call_id), {})
            known.pop(use.net, None)
            if not known:
                self._of_call.pop((use.session, use.call_id), None)
        del uses[:old]

    def remove(self, session: str, call_id: str, nets: Iterable[str]) -> None:
        """Forget the uses of a call that never ran, in these nets."""
        with self.lock:
            known = self._of_call.get((session, call_id), {})
            for net in nets:
                counter = known.pop(net, None)
                if counter is not None:
                    uses = self._uses[counter]
                    own = (session, call_id, net)
                    self._uses[counter] = [use for use in uses if use[1:] != own]
            if not known:
                self._of_call.pop((session, call_id), None)

    def of_call(self, session: str, call_id: str) -> dict[str, str]:
        """The counters of a call's uses, by net."""
        with self.lock:
            return dict(self._of_call.get((session, call_id), {}))

    def left(
        self, counter: str, limit: SharedLimit, most: int, own: int, session: str, now: float
    ) -> int:
        """Number of uses left of `most` at the time `now`; of its own tokens a session's net has `own`.

        A net that is new in its session, under a changed rule, has all of its own.
        """
        with self.lock:
            uses = self._uses.get(counter, ())
            used = len(uses) - bisect_right(uses, (now - limit.window, "\U0010ffff", "", ""))
        return max(0, min(own, most - used))


@dataclass(frozen=True, slots=True)
class SessionUses:
    """Uses as one session's gate counts them."""

    uses: SharedUses
    session: str

    def left(self, counter: str, limit: SharedLimit, most: int, own: int, now: float) -> int:
        """Number of uses left; see `SharedUses.left`."""
        return self.uses.left(counter, limit, most, own, self.session, now)

    def take(self, call_id: str, counters: Mapping[str, str], at: float) -> None:
        """Count a call's uses, given as counters by net."""
        for net, counter in counters.items():
            self.uses.add(counter, Use(at, self.session, call_id, net))

    def give_back(self, call_id: str, nets: Iterable[str]) -> None:
        """Forget the uses of a call that never ran."""
        self.uses.remove(self.session, call_id, nets)

    def of_call(self, call_id: str) -> dict[str, str]:
        """The counters of a call's uses, by net."""
        return self.uses.of_call(self.session, call_id)
