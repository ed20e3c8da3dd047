"""Uses of limits that hold over many sessions, counted over all gates of a server or program (G-93)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import NamedTuple, TypeAlias

from ..core.shared_limit import SharedLimit

FEW_USES = 1_000
"""As many are kept without a look for those that are over."""


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
    are kept for as long as the longest limit needs, and taken from `recorded` as far back as that. A
    call that several limits count by one counter uses that once.
    """

    def __init__(self, recorded: RecordedUses = no_record) -> None:
        self.lock = RLock()
        self._recorded = recorded
        self._window = 0.0
        self._uses: dict[str, list[Use]] = {}
        self._of_call: dict[tuple[str, str], dict[str, tuple[str, float]]] = {}
        self._count = self._kept = 0

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
            is_new = all(other != counter for other, _ in known.values())
            known[use.net] = counter, use.at
            if not is_new:
                return
            uses = self._uses.setdefault(counter, [])
            insort(uses, use)
            self._count += 1
            self._forget(counter, uses[-1].at - self._window)
            if self._count > max(FEW_USES, 2 * self._kept):
                for other in list(self._uses):
                    self._forget(other, use.at - self._window)
                self._kept = self._count

    def _forget(self, counter: str, until: float) -> None:
        """Forget the uses of a counter until this time, oldest first."""
        uses = self._uses[counter]
        old = bisect_right(uses, (until, "\U0010ffff", "", ""))
        for use in uses[:old]:
            known = self._of_call.get((use.session, use.call_id), {})
            for net in [net for net, counted in known.items() if counted == (counter, use.at)]:
                del known[net]
            if not known:
                self._of_call.pop((use.session, use.call_id), None)
        del uses[:old]
        self._count -= old
        if not uses:
            del self._uses[counter]

    def call_begins(self, session: str, call_id: str) -> None:
        """Tell an earlier call of this id, which stays counted, from the one that begins."""
        with self.lock:
            self._of_call.pop((session, call_id), None)

    def remove(self, session: str, call_id: str, nets: Iterable[str]) -> None:
        """Forget the uses of a call that never ran, in these nets."""
        with self.lock:
            known = self._of_call.get((session, call_id), {})
            for net in nets:
                counted = known.pop(net, None)
                if counted is None or any(other == counted[0] for other, _ in known.values()):
                    continue
                counter, at = counted
                every = self._uses[counter]
                left = [use for use in every if use[:3] != (at, session, call_id)]
                self._count -= len(every) - len(left)
                self._uses[counter] = left
            if not known:
                self._of_call.pop((session, call_id), None)

    def of_call(self, session: str, call_id: str) -> dict[str, str]:
        """The counters of a call's uses, by net."""
        with self.lock:
            known = self._of_call.get((session, call_id), {})
            return {net: counter for net, (counter, _) in known.items()}

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
        self.uses.call_begins(self.session, call_id)
        for net, counter in counters.items():
            self.uses.add(counter, Use(at, self.session, call_id, net))

    def give_back(self, call_id: str, nets: Iterable[str]) -> None:
        """Forget the uses of a call that never ran."""
        self.uses.remove(self.session, call_id, nets)

    def of_call(self, call_id: str) -> dict[str, str]:
        """The counters of a call's uses, by net."""
        return self.uses.of_call(self.session, call_id)
