"""Tokens that age: transitions that fire by themselves some time after a token arrived.

Pure, like `net`: the caller passes the time, in seconds since 1970. Arrival times are kept only for
places that a timed transition empties. Within such a place the oldest token is taken first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .net import Marking, NetError, Since, SkillNet, Transition, auto_advance, fire

MOST_FIRINGS = 2_000_000


@dataclass(frozen=True, slots=True)
class Aged:
    """State of a net at a time: the transitions that had fired by then, in order, and the marking."""

    fired: tuple[Transition, ...]
    marking: Marking
    since: Since


def arrivals(
    net: SkillNet,
    since: Mapping[str, tuple[float, ...]],
    before: Mapping[str, int],
    after: Mapping[str, int],
    now: float,
) -> Since:
    """Arrival times of the tokens after the net has moved from `before` to `after` at `now`.

    A token that was taken and put back keeps its time.
    """
    moved: Since = {}
    for place in timed_places(net):
        times = _came(since, place, before.get(place, 0), now)
        change = after.get(place, 0) - before.get(place, 0)
        moved[place] = times[-change:] if change < 0 else _joined(times, now, change)
    return moved


def arrivals_by(
    net: SkillNet,
    since: Mapping[str, tuple[float, ...]],
    before: Mapping[str, int],
    transition: Transition,
    after: Mapping[str, int],
    now: float,
) -> Since:
    """Arrival times after `transition` and then structural ones have moved the net, at `now`.

    Tokens that structural transitions put back where they were taken get a new time.
    """
    if not net.structural:
        return arrivals(net, since, before, after, now)
    between = fire(before, transition)
    return arrivals(net, arrivals(net, since, before, between, now), between, after, now)


def moved_times(net: SkillNet, before: Since, after: Since) -> Since | None:
    """Arrival times of the tokens that a call's transitions took from places or added to them.

    `None` if a place lost some tokens and got others.
    """
    times: Since = {}
    for place in timed_places(net):
        was, now = before.get(place, ()), after.get(place, ())
        removed, added = max(len(was) - len(now), 0), max(len(now) - len(was), 0)
        if was[removed:] != now[: len(now) - added]:
            return None
        if removed or added:
            times[place] = was[:removed] or now[len(was) :]
    return times


def arrivals_before(
    net: SkillNet,
    since: Mapping[str, tuple[float, ...]],
    before: Mapping[str, int],
    after: Mapping[str, int],
    times: Mapping[str, tuple[float, ...]],
) -> Since | None:
    """Arrival times of the tokens after the move of the net from `before` to `after` is taken back.

    `times` are those of the tokens that are removed or returned with it: see `moved_times`. `None` if
    tokens that should be removed are no longer there.
    """
    back: Since = {**since}
    for place in timed_places(net):
        change = after.get(place, 0) - before.get(place, 0)
        moved = times.get(place, ())
        if len(moved) != abs(change):
            return None
        if change < 0:
            back[place] = tuple(sorted((*since.get(place, ()), *moved)))
        elif change > 0:
            remaining = list(since.get(place, ()))
            if any(remaining.count(time) < moved.count(time) for time in moved):
                return None
            for time in moved:
                remaining.remove(time)
            back[place] = tuple(remaining)
    return back


def _joined(times: Sequence[float], now: float, count: int) -> tuple[float, ...]:
    """The times together with those of `count` more tokens, oldest first."""
    joined = (*times, *(now,) * count)
    return joined if not times or times[-1] <= now else tuple(sorted(joined))


def timed_places(net: SkillNet) -> Iterator[str]:
    """Places whose tokens' arrival times are kept, each once."""
    return iter(dict.fromkeys(t.inputs[0] for t in net.timed))


def _came(
    since: Mapping[str, tuple[float, ...]], place: str, tokens: int, now: float
) -> tuple[float, ...]:
    """One time for each token; a token whose arrival was not recorded counts from now on."""
    times = since.get(place, ())[:tokens]
    return (*times, *(now,) * (tokens - len(times)))


def next_due(
    net: SkillNet, marking: Mapping[str, int], since: Mapping[str, tuple[float, ...]], now: float
) -> tuple[float, Transition] | None:
    """Time of the next timed firing, possibly past, with its transition; `None` if there is none."""
    return _soonest(net, {p: _came(since, p, marking.get(p, 0), now) for p in timed_places(net)})


def aged(net: SkillNet, marking: Marking, since: Mapping[str, tuple[float, ...]], now: float) -> Aged:
    """State of the net at `now`: everything that was due has fired, each at its own time.

    The cost grows with what fires, not with the number of tokens. Raises `NetError` if the net does not
    come to rest.
    """
    if (first := next_due(net, marking, since, now)) is None or first[0] > now:
        return Aged((), marking, dict(since))
    queues = {p: deque(_came(since, p, marking.get(p, 0), now)) for p in timed_places(net)}
    fired: list[Transition] = []
    while (soonest := _soonest(net, queues)) is not None and soonest[0] <= now:
        due, transition = soonest
        if len(fired) == MOST_FIRINGS:
            raise NetError(f"net '{net.name}': timed transitions do not come to rest")
        after = auto_advance(net, fire(marking, transition))
        for place, queue in list(queues.items()):
            change = after.get(place, 0) - marking.get(place, 0)
            for _ in range(-change):
                queue.popleft()
            if change > 0:
                queues[place] = deque(_joined(queue, due, change))
        marking = after
        fired.append(transition)
    return Aged(tuple(fired), marking, {place: tuple(queue) for place, queue in queues.items()})


def _soonest(net: SkillNet, queues: Mapping[str, Sequence[float]]) -> tuple[float, Transition] | None:
    """Time and transition of the next firing, for places whose tokens arrived at these times."""
    soonest: tuple[float, Transition] | None = None
    for transition in net.timed:
        times = queues[transition.inputs[0]]
        need = transition.needs[0][1]
        if len(times) < need or transition.after is None:
            continue
        # If more than one token is needed, the youngest token taken must be old enough.
        due = times[need - 1] + transition.after
        if soonest is None or due < soonest[0]:
            soonest = due, transition
    return soonest
