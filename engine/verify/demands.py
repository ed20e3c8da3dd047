"""Demands on a net, one step back: the tokens that it must hold so that a call passes and leads to a
state.

A demand represents every state that meets it. For a net with few states, a demand is an exact set of
states. For any other net it is a number of tokens per place, and a state with more tokens meets it too.
Such a net is assumed to choose freely among its transitions and to fire structural ones at any time. It
then does everything that the gate's net does and perhaps more, so what it can never do never happens. For
a monotone net it does no more. Before the last transition of a chain it fires any partial ones of that
name, any number of times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from operator import le
from typing import Protocol, TypeAlias

from .local_net import BLOCKED, LocalNet
from .machine import IndexedTransition, Tokens

Demand: TypeAlias = int | Tokens
"""A set of states as bits, or the tokens that each place must hold."""

MAX_VARIANTS = 64
"""Most ways for a call to fire in one net; beyond that, the call is assumed to meet every demand."""


@dataclass(frozen=True, slots=True)
class _Back:
    """A transition that fires, or must only be enabled; and the partial ones that may precede it."""

    step: IndexedTransition
    fires: bool
    partial: tuple[IndexedTransition, ...] = ()


class Demands(Protocol):
    """Backward view of one net."""

    def before(self, action: int, after: Demand | None) -> list[Demand | None]:
        """Weakest demands under which the call passes and leads to `after`; `None` is no demand."""
        ...

    def met(self, demand: Demand) -> bool:
        """True if the net meets the demand at its current marking."""
        ...

    def weaker(self, demand: Demand, other: Demand) -> bool:
        """True if every state that meets `other` also meets `demand`."""
        ...


def demands_of(local: LocalNet) -> Demands:
    """Backward view over a net's usable calls: by states if there are few, otherwise by tokens."""
    states = None if local.budget is not None else local.states()
    return Tokenwise(local, local.usable) if states is None else Statewise(local, states)


class Statewise:
    """Backward view of a net with few states: a demand is a set of them, one bit each."""

    def __init__(self, local: LocalNet, states: list[int]) -> None:
        self._local = local
        self._bits = {state: 1 << number for number, state in enumerate(states)}
        self._all = (1 << len(states)) - 1
        self._before: dict[tuple[int, int], list[Demand | None]] = {}

    def before(self, action: int, after: Demand | None) -> list[Demand | None]:
        demand = self._all if after is None else after
        assert isinstance(demand, int)
        key = (action, demand)
        known = self._before.get(key)
        if known is None:
            known = self._before[key] = self._look(action, demand)
        return known

    def _look(self, action: int, demand: int) -> list[Demand | None]:
        self._local.effort.charge(2 + len(self._bits) // 4)
        found = 0
        for state, bit in self._bits.items():
            after = self._local.step(state, action)
            if after != BLOCKED and self._bits[after] & demand:
                found |= bit
        if not found:
            return []
        return [None if found == self._all else found]

    def met(self, demand: Demand) -> bool:
        assert isinstance(demand, int)
        return bool(demand & self._bits[self._local.start])

    def weaker(self, demand: Demand, other: Demand) -> bool:
        assert isinstance(demand, int)
        assert isinstance(other, int)
        return demand & other == other


class Tokenwise:
    """Backward view of a net with many states, of which only `actions` are called.

    A demand is a number of tokens for each place.
    """

    def __init__(self, local: LocalNet, actions: Iterable[int]) -> None:
        self._local = local
        self._start = local.tokens(local.start)
        self._nothing = (0,) * len(self._start)
        names = {name for action in actions for name in local.call(action)[0]}
        self._alive, self._bounds = local.machine.alive(self._start, names)
        self._structural = [step for step in local.machine.structural if step in self._alive]
        self._variants: dict[int, list[list[_Back]] | None] = {}
        self._before: dict[tuple[int, Tokens], list[Demand | None]] = {}

    def met(self, demand: Demand) -> bool:
        assert isinstance(demand, tuple)
        return all(map(le, demand, self._start))

    def weaker(self, demand: Demand, other: Demand) -> bool:
        assert isinstance(demand, tuple)
        assert isinstance(other, tuple)
        return all(map(le, demand, other))

    def before(self, action: int, after: Demand | None) -> list[Demand | None]:
        demand = self._nothing if after is None else after
        assert isinstance(demand, tuple)
        key = (action, demand)
        known = self._before.get(key)
        if known is None:
            known = self._before[key] = self._look(action, demand)
        return known

    def _look(self, action: int, target: Tokens) -> list[Demand | None]:
        if action not in self._variants:
            self._variants[action] = self._ways(action)
        variants = self._variants[action]
        if variants is None:
            return [None]
        found: list[Tokens] = []
        for variant in variants:
            demands = [target]
            for back in reversed(variant):
                if back.fires:
                    demands = self._fired(back.step, self._settled(demands))
                else:
                    demands = self._least(_at_least(demand, back.step) for demand in demands)
                if back.partial:
                    demands = self._settled(demands, back.partial)
            found.extend(demands)
        return [demand if any(demand) else None for demand in self._least(found)]

    def _ways(self, action: int) -> list[list[_Back]] | None:
        """Ways in which the call may fire: its names in order, deferred transitions last.

        A deferred transition may be disabled by then, or the net may not come to rest; it is then
        dropped.
        """
        names, succeeds = self._local.call(action)
        covering = [[s for s in steps if s in self._alive] for steps in self._local.machine.gated(names)]
        partial = [tuple(s for s in steps if s.partial) for steps in covering]
        choices = [[s for s in steps if not s.partial] for steps in covering]
        droppable = len(choices) > 1 or bool(self._structural)
        ways: list[list[_Back]] = []
        for chosen in product(*choices):
            waiting = [step for step in chosen if step.deferred and succeeds]
            now = [_Back(s, not s.deferred, p) for s, p in zip(chosen, partial, strict=True)]
            for fires in product(*([(True, False) if droppable else (True,)] * len(waiting))):
                timed = [_Back(step, True) for step, yes in zip(waiting, fires, strict=True) if yes]
                ways.append([*now, *timed])
                if len(ways) > MAX_VARIANTS:
                    return None
        return ways

    def _settled(
        self, demands: list[Tokens], partial: tuple[IndexedTransition, ...] = ()
    ) -> list[Tokens]:
        """Demands that lead to `demands` after structural transitions have fired any number of times.

        Transitions in `partial` may fire as well.
        """
        firing = (*self._structural, *partial)
        if not firing:
            return demands
        found = self._least(demands)
        waiting = list(found)
        while waiting:
            demand = waiting.pop()
            for step in firing:
                for earlier in self._fired(step, [demand]):
                    self._local.effort.charge(1 + len(found) // 2)
                    if not any(self.weaker(other, earlier) for other in found):
                        found = [other for other in found if not self.weaker(earlier, other)]
                        found.append(earlier)
                        waiting.append(earlier)
        return found

    def _fired(self, step: IndexedTransition, demands: Iterable[Tokens]) -> list[Tokens]:
        """Fewest tokens from which `step` leads to one of the demands, within the bounds."""
        found: list[Tokens] = []
        for demand in demands:
            self._local.effort.charge(4 + len(demand) // 6)
            before = list(demand)
            for place, output in step.gives:
                before[place] = max(0, before[place] - output)
            for split in self._gathered(before, step):
                for place, need in step.needs:
                    split[place] += need
                if all(map(le, split, self._bounds)):
                    found.append(tuple(split))
        return self._least(found)

    def _gathered(self, demand: list[int], step: IndexedTransition) -> list[list[int]]:
        """Demands before the step's transfers: tokens in a target may have come from either place."""
        splits = [demand]
        for source, target in reversed(step.transfers):
            if source == target:
                continue
            earlier: list[list[int]] = []
            for split in splits:
                if split[source]:
                    continue
                tokens = split[target]
                self._local.effort.charge(1 + tokens)
                for moved in range(tokens + 1):
                    one = list(split)
                    one[source], one[target] = moved, tokens - moved
                    earlier.append(one)
            splits = earlier
        return splits

    def _least(self, demands: Iterable[Tokens]) -> list[Tokens]:
        """The demands without those for which a weaker one is present."""
        found = list(dict.fromkeys(demands))
        if len(found) < 2:
            return found
        self._local.effort.charge(1 + len(found) * len(found) // 3)
        return [
            demand
            for demand in found
            if not any(other is not demand and self.weaker(other, demand) for other in found)
        ]


def _at_least(demand: Tokens, step: IndexedTransition) -> Tokens:
    held = list(demand)
    for place, need in step.needs:
        held[place] = max(held[place], need)
    return tuple(held)
