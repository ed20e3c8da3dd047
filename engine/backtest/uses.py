"""Uses of limits over sessions while recorded calls are judged: first counted, then looked up by time.

Sessions are judged one after the other, although they ran concurrently. So all are judged twice: first
each by itself, to find out when its calls use a limit, then with the uses of the others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable

from ..core.shared_limit import SharedLimit, Use
from ..gate.shared_uses import SharedUses


class TrialUses(SharedUses):
    """Uses of all judged sessions; counted while `counting` is true, and looked up afterwards.

    While `dry` is true, a call is only tried. `session` is the one being judged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counting = True
        self.dry = False
        self.session = ""
        self._counters: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        self._times: dict[str, list[float]] = defaultdict(list)
        self._times_in: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._use_times: dict[tuple[str, str, str], float] = {}

    def add(self, counter: str, use: Use) -> None:
        """Count a use of the session being judged."""
        if not self.counting or self.dry:
            return
        counters_by_net = self._counters[self.session, use.call_id]
        is_new = counter not in counters_by_net.values()
        counters_by_net[use.net] = counter
        if not is_new:
            return
        self._use_times[self.session, use.call_id, counter] = use.at
        insort(self._times[counter], use.at)
        insort(self._times_in[counter, self.session], use.at)

    def remove(self, session: str, call_id: str, nets: Iterable[str]) -> None:
        """Forget the uses of a call that never ran."""
        if not self.counting or self.dry:
            return
        counters_by_net = self._counters[self.session, call_id]
        for net in nets:
            counter = counters_by_net.pop(net, None)
            if counter is not None and counter not in counters_by_net.values():
                at = self._use_times.pop((self.session, call_id, counter))
                self._times[counter].remove(at)
                self._times_in[counter, self.session].remove(at)

    def left(
        self, counter: str, limit: SharedLimit, most: int, own: int, session: str, now: float
    ) -> int:
        """Uses left: the session's own, less those of other sessions within the window before now."""
        if self.counting:
            return own
        all_times, session_times = self._times[counter], self._times_in[counter, self.session]
        first, last = now - limit.window, now
        others = _between(all_times, first, last) - _between(session_times, first, last)
        return max(0, own - others)


def _between(times: list[float], after: float, before: float) -> int:
    """Number of times after one and before another."""
    return max(0, bisect_left(times, before) - bisect_right(times, after))
