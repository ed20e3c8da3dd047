"""Tokens that age: transitions that fire by themselves some time after a token came.

Pure, as `net` is: the caller gives the time, in seconds since 1970. Only places that a timed transition
empties have their tokens' arrivals kept; within such a place the oldest token goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .net import Marking, NetError, Since, SkillNet, Transition, auto_advance, fire

MOST_FIRINGS = 2_000_000


@dataclass(frozen=True, slots=True)
class Aged:
    """State of a net at a time: the transitions that fired until then, in order, and what holds then."""

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
    """Arrival times of the tokens, once the net has moved from `before` to `after` at `now`.

    A token that was taken and put back has not moved.
    """
    moved: Since = {}
    for place in timed_places(net):
        came = _came(since, place, before.get(place, 0), now)
        change = after.get(place, 0) - before.get(place, 0)
        moved[place] = came[-change:] if change < 0 else _joined(came, now, change)
    return moved


def arrivals_by(
    net: SkillNet,
    since: Mapping[str, tuple[float, ...]],
    before: Mapping[str, int],
    transition: Transition,
    after: Mapping[str, int],
    now: float,
) -> Since:
    """Arrival times once `transition` and then structural ones have moved the net, at `now`.

    What structural transitions put back where it was taken has come anew.
    """
    if not net.structural:
        return arrivals(net, since, before, after, now)
    between = fire(before, transition)
    return arrivals(net, arrivals(net, since, before, between, now), between, after, now)


def moved_times(net: SkillNet, before: Since, after: Since) -> Since | None:
    """The times of the tokens that a call's transitions took from places, or brought there.

    `None` where a place lost some and got others.
    """
    times: Since = {}
    for place in timed_places(net):
        was, now = before.get(place, ()), after.get(place, ())
        taken, came = max(len(was) - len(now), 0), max(len(now) - len(was), 0)
        if was[taken:] != now[: len(now) - came]:
            return None
        if taken or came:
            times[place] = was[:taken] or now[len(was) :]
    return times


def arrivals_before(
    net: SkillNet,
    since: Mapping[str, tuple[float, ...]],
    before: Mapping[str, int],
    after: Mapping[str, int],
    times: Mapping[str, tuple[float, ...]],
) -> Since | None:
    """Arrival times of the tokens, once what moved the net from `before` to `after` is taken back.

    `times` are those of the tokens that go with it, or return: see `moved_times`. `None` where tokens
    that should go are there no more.
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
            left = list(since.get(place, ()))
            if any(left.count(time) < moved.count(time) for time in moved):
                return None
            for time in moved:
                left.remove(time)
            back[place] = tuple(left)
    return back


def _joined(came: Sequence[float], now: float, count: int) -> tuple[float, ...]:
    """The times with those of `count` more tokens, the oldest first."""
    joined = (*came, *(now,) * count)
    return joined if not came or came[-1] <= now else tuple(sorted(joined))


def timed_places(net: SkillNet) -> Iterator[str]:
    """The places whose tokens' arrivals are kept, each once."""
    return iter(dict.fromkeys(t.inputs[0] for t in net.timed))


def _came(
    since: Mapping[str, tuple[float, ...]], place: str, tokens: int, now: float
) -> tuple[float, ...]:
    """One time for each token; one whose arrival was not noted counts from now on."""
    came = since.get(place, ())[:tokens]
    return (*came, *(now,) * (tokens - len(came)))


def next_due(
    net: SkillNet, marking: Mapping[str, int], since: Mapping[str, tuple[float, ...]], now: float
) -> tuple[float, Transition] | None:
    """Time of the next timed firing, be it in the past, and its transition; `None` when none will be."""
    return _soonest(net, {p: _came(since, p, marking.get(p, 0), now) for p in timed_places(net)})


def aged(net: SkillNet, marking: Marking, since: Mapping[str, tuple[float, ...]], now: float) -> Aged:
    """State of the net at `now`: everything that was due has fired, each at its own time.

    The time it takes grows with what fires, not with how many tokens there are. Raises `NetError` when
    the net does not come to rest.
    """
    if (first := next_due(net, marking, since, now)) is None or first[0] > now:
        return Aged((), marking, dict(since))
    queues = {p: deque(_came(since, p, marking.get(p, 0), now)) for p in timed_places(net)}
    fired: list[Transition] = []
    while (due := _soonest(net, queues)) is not None and due[0] <= now:
        when, transition = due
        if len(fired) == MOST_FIRINGS:
            raise NetError(f"net '{net.name}': timed transitions do not come to rest")
        after = auto_advance(net, fire(marking, transition))
        for place, queue in list(queues.items()):
            change = after.get(place, 0) - marking.get(place, 0)
            for _ in range(-change):
                queue.popleft()
            if change > 0:
                queues[place] = deque(_joined(queue, when, change))
        marking = after
        fired.append(transition)
    return Aged(tuple(fired), marking, {place: tuple(queue) for place, queue in queues.items()})


def _soonest(net: SkillNet, queues: Mapping[str, Sequence[float]]) -> tuple[float, Transition] | None:
    """Time and transition of the next firing, for places whose tokens came at these times."""
    soonest: tuple[float, Transition] | None = None
    for transition in net.timed:
        came = queues[transition.inputs[0]]
        need = transition.needs[0][1]
        if len(came) < need or transition.after is None:
            continue
        # With more than one token needed, the youngest of those it takes must be old enough.
        when = came[need - 1] + transition.after
        if soonest is None or when < soonest[0]:
            soonest = when, transition
    return soonest
