"""Waiting as a step on the way to a call.

Any amount of time may pass between calls: a timed transition may fire whenever it is enabled, but need
not. What can then never be called can never be called at all. If a way needs a token that expires, it may
have to take less time than the waits that other nets require; no rule compiles to such a net.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..net.net import NetError, SkillNet, Transition, auto_advance, fire, is_enabled
from ..net.timed import arrivals
from .local_net import Action, TimedFiring
from .machine import time_name


def waits(nets: Mapping[str, SkillNet]) -> list[Action]:
    """One action for each timed transition: wait until it fires."""
    return [
        Action((), by_net={key: (time_name(timed),)}, wait=TimedFiring(key, timed))
        for key, net in nets.items()
        for timed in net.timed
    ]


def seconds_of(
    fired: Iterable[TimedFiring], nets: Mapping[str, SkillNet], markings: Mapping[str, Mapping[str, int]]
) -> float:
    """Longest time until all of `fired` have fired, in this order, from these markings, in seconds.

    Nets wait at the same time; tokens that are already there are assumed to have just arrived.
    """
    by_net: dict[str, list[Transition]] = {}
    for wait in fired:
        by_net.setdefault(wait.key, []).append(wait.transition)
    return max(_longest(nets[key], markings[key], each) for key, each in by_net.items())


def _longest(net: SkillNet, marking: Mapping[str, int], fired: Sequence[Transition]) -> float:
    now = {**dict.fromkeys(net.places, 0), **marking}
    times = arrivals(net, {}, now, now, 0.0)
    longest = 0.0
    for transition in fired:
        if transition.after is None or not is_enabled(now, transition):
            continue
        place, need = transition.needs[0]
        due = max(times[place][:need]) + transition.after
        try:
            after = auto_advance(net, fire(now, transition))
        except NetError:
            continue
        times = arrivals(net, times, now, after, due)
        now = after
        longest = max(longest, due)
    return longest
