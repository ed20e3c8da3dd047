"""Waiting as a step on the way to a call.

Between calls time may pass as far as wanted: a timed transition may fire whenever it is enabled, and is
never made to. What can then never be called can never be called at all. Where a token that ages away is
needed, a way may have to be taken in less time than other nets want on it; no net of a rule is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..net.net import NetError, SkillNet, Transition, auto_advance, fire, is_enabled
from ..net.timed import arrivals
from .local_net import Action, TimedFiring
from .machine import time_name


def waits(nets: Mapping[str, SkillNet]) -> list[Action]:
    """One action for each timed transition: time passes until it fires."""
    return [
        Action((), by_net={key: (time_name(timed),)}, wait=TimedFiring(key, timed))
        for key, net in nets.items()
        for timed in net.timed
    ]


def seconds_of(
    fired: Iterable[TimedFiring], nets: Mapping[str, SkillNet], markings: Mapping[str, Mapping[str, int]]
) -> float:
    """The longest time until all of `fired` have fired, in this order, from these markings, in seconds.

    Nets wait at the same time; a token that is there already is taken to have come just now.
    """
    by_net: dict[str, list[Transition]] = {}
    for wait in fired:
        by_net.setdefault(wait.key, []).append(wait.transition)
    return max(_longest(nets[key], markings[key], each) for key, each in by_net.items())


def _longest(net: SkillNet, marking: Mapping[str, int], fired: Sequence[Transition]) -> float:
    now = {**dict.fromkeys(net.places, 0), **marking}
    known = arrivals(net, {}, now, now, 0.0)
    longest = 0.0
    for transition in fired:
        if transition.after is None or not is_enabled(now, transition):
            continue
        place, need = transition.needs[0]
        when = max(known[place][:need]) + transition.after
        try:
            after = auto_advance(net, fire(now, transition))
        except NetError:
            continue
        known = arrivals(net, known, now, after, when)
        now = after
        longest = max(longest, when)
    return longest
