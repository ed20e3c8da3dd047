"""A plain gate without the real one: calls with inputs, chains, and arbitrary passing of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from interlock.engine.core.condition import Input, holds
from interlock.engine.net.firing import passage
from interlock.engine.net.net import (
    Marking,
    NetError,
    SkillNet,
    Transition,
    auto_advance,
    fire,
    is_enabled,
)

from .walks import Walks

State = tuple[tuple[int, ...], ...]

VALUES: tuple[Input, ...] = tuple(
    {name: value for name, value in zip("xy", pair, strict=True) if value is not None}
    for pair in product((None, 1, 2), repeat=2)
)
"""All inputs that the conditions of the tests distinguish."""


@dataclass(frozen=True)
class Call:
    """A call with some names and one input, successful or not."""

    names: tuple[str, ...]
    input: Input = field(default_factory=dict, hash=False)
    succeeds: bool = True


@dataclass
class Explored(Walks[State]):
    """Waiting counts as a step. Not `complete` if there are more states than the limit."""

    complete: bool = True


def seen_by(net: SkillNet, call: Call) -> list[str]:
    """Return the names of a call that a net governs."""
    outside = net.condition is not None and holds(net.condition, call.input) is False
    known = {name for t in net.transitions for name in t.tools} - {*net.free_tools}
    return [n for n in call.names if n in known and not (outside and n in net.governs)]


def made(net: SkillNet, marking: Marking, call: Call) -> Marking | None:
    """Return the marking of one net after a call; `None` if the net blocks it."""
    waiting: list[Transition] = []
    for name in seen_by(net, call):
        steps = passage(net, marking, name)
        if steps is None:
            return None
        for step in steps:
            if step.deferred:
                waiting.append(step)
                continue
            try:
                marking = auto_advance(net, fire(marking, step))
            except NetError:
                return None
    for step in waiting if call.succeeds else ():
        if is_enabled(marking, step):
            try:
                marking = auto_advance(net, fire(marking, step))
            except NetError:
                continue
    return marking


def explored(nets: Mapping[str, SkillNet], calls: Sequence[Call], limit: int = 300) -> Explored:
    """Explore the states that calls and time lead to, breadth first, up to `limit`."""
    each = list(nets.values())
    start = tuple(_state(net, auto_advance(net, net.initial_marking)) for net in each)
    found = Explored(start)
    depth = {start: 0}

    # Nets are moved separately, because each has far fewer markings than all of them together.
    @cache
    def moved(place: int, tokens: tuple[int, ...], number: int) -> tuple[int, ...] | None:
        net = each[place]
        after = made(net, _marking(net, tokens), calls[number])
        return None if after is None else _state(net, after)

    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        edges = found.edges[here] = list[tuple[int, State]]()
        for number in range(len(calls)):
            after = [moved(place, tokens, number) for place, tokens in enumerate(here)]
            if None in after:
                continue
            found.fewest.setdefault(number, depth[here] + 1)
            edges.append((number, tuple(tokens or () for tokens in after)))
        for place, net in enumerate(each):
            for timed in net.timed:
                marking = _marking(net, here[place])
                if not is_enabled(marking, timed):
                    continue
                try:
                    later = auto_advance(net, fire(marking, timed))
                except NetError:
                    continue
                edges.append((-1, (*here[:place], _state(net, later), *here[place + 1 :])))
        for _, after in edges:
            if after not in depth:
                if len(depth) >= limit:
                    found.complete = False
                    return found
                depth[after] = depth[here] + 1
                waiting.append(after)
    return found


def _marking(net: SkillNet, tokens: tuple[int, ...]) -> Marking:
    return dict(zip(net.places, tokens, strict=True))


def _state(net: SkillNet, marking: Marking) -> tuple[int, ...]:
    return tuple(marking.get(place, 0) for place in net.places)
