"""A net prepared for fast stepping: markings as tuples, with the transitions of each name at hand.

Moves like the gate (G-4, G-50, G-61), and counts the cost: structural transitions can take thousands of
rounds to come to rest. Waiting is a move like a call: each timed transition has its own name,
`time_name`, which fires it or does nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from ..net.firing import LONGEST
from ..net.net import MAX_STRUCTURAL_ROUNDS, SkillNet, Transition
from .budget import Effort

_LOOKS = 20

Tokens: TypeAlias = tuple[int, ...]


def time_name(transition: Transition) -> str:
    """Name of waiting until a timed transition fires, among the names of calls; no call has it."""
    return f"\0{transition.name}"


@dataclass(frozen=True, slots=True, eq=False)
class IndexedTransition:
    """A transition over numbered places: what it needs, transfers and adds in each."""

    needs: tuple[tuple[int, int], ...]
    transfers: tuple[tuple[int, int], ...]
    gives: tuple[tuple[int, int], ...]
    deferred: bool
    manual: bool
    partial: bool
    timed: bool
    name: str
    voids: tuple[str, ...]

    def enabled(self, marking: Sequence[int]) -> bool:
        for place, need in self.needs:  # noqa: SIM110 - a generator here costs more than the check
            if marking[place] < need:
                return False
        return True

    def fire(self, marking: Sequence[int]) -> list[int]:
        """The marking after it fired, if enabled, in the order of `interlock.engine.fire`."""
        after = list(marking)
        for place, need in self.needs:
            after[place] -= need
        for source, target in self.transfers:
            moved = after[source]
            after[source] = 0
            after[target] += moved
        for place, output in self.gives:
            after[place] += output
        return after


class Machine:
    """A net over numbered places: its own, and any that only `marking` or an arc names."""

    def __init__(self, net: SkillNet, marking: Mapping[str, int]) -> None:
        arcs = (
            place
            for t in net.transitions
            for place in (*t.inputs, *t.outputs, *(p for pair in t.transfers for p in pair))
        )
        self.places = tuple(dict.fromkeys([*net.places, *marking, *arcs]))
        at = {place: number for number, place in enumerate(self.places)}
        self.covering: dict[str, list[IndexedTransition]] = {}
        structural: list[IndexedTransition] = []
        for transition in net.transitions:
            step = _step(transition, at)
            if transition.structural:
                structural.append(step)
            for name in dict.fromkeys(transition.tools):
                self.covering.setdefault(name, []).append(step)
            if step.timed:
                self.covering[time_name(transition)] = [step]
        for name in net.free_tools:
            self.covering.pop(name, None)
        self.structural = tuple(structural)
        self._cost = 3 + (len(self.places) + 2 * len(structural)) // 16

    def gated(self, names: Iterable[str]) -> list[list[IndexedTransition]]:
        """For each name that the net gates, the transitions that cover it."""
        return [self.covering[name] for name in names if name in self.covering]

    def advance(
        self, marking: Tokens, names: Iterable[str], effort: Effort, *, succeeds: bool = True
    ) -> tuple[Tokens, int] | None:
        """The marking after a finished call, and how many people must approve; `None` if the net blocks
        it.

        Names are applied in order and together (G-50); deferred transitions fire last, if the call
        succeeds. A transition after which the net would not come to rest blocks the call; if deferred, it
        is dropped.
        """
        waiting: list[IndexedTransition] = []
        people = 0
        effort.charge(self._cost)
        for covering in self.gated(names):
            chosen = next((step for step in covering if step.enabled(marking)), None)
            effort.charge(1 + len(covering) // 4)
            if chosen is None:
                if covering[0].timed:
                    continue
                return None
            questions = int(chosen.manual)
            if chosen.partial:
                chained = self._chained(marking, chosen, covering, effort)
                if chained is None:
                    return None
                marking, chosen, questions = chained
            people = max(people, questions)
            if chosen.deferred:
                waiting.append(chosen)
                continue
            after = self.settle(chosen.fire(marking), effort)
            if after is None:
                return None
            marking = after
        voided = {name for step in waiting for name in step.voids}
        for step in waiting if succeeds else ():
            if step.name in voided:
                continue
            if step.enabled(marking):
                after = self.settle(step.fire(marking), effort)
                # The gate drops a result after which the net does not come to rest, and leaves the net
                # unchanged.
                marking = marking if after is None else after
        return marking, people

    def _chained(
        self,
        marking: Tokens,
        chosen: IndexedTransition,
        covering: Sequence[IndexedTransition],
        effort: Effort,
    ) -> tuple[Tokens, IndexedTransition, int] | None:
        """`passage` from a partial transition on: the marking, the last transition, people to approve."""
        markings = {marking}
        people = int(chosen.manual)
        while chosen.partial:
            if len(markings) > LONGEST:
                return None
            effort.charge(self._cost + len(covering) // 4)
            after = self.settle(chosen.fire(marking), effort)
            if after is None or after in markings:
                return None
            marking = after
            markings.add(marking)
            following = next((step for step in covering if step.enabled(marking)), None)
            if following is None:
                return None
            chosen = following
            people += chosen.manual
        return marking, chosen, people

    def settle(self, marking: Sequence[int], effort: Effort) -> Tokens | None:
        """`auto_advance`; `None` if the net does not come to rest."""
        now = tuple(marking)
        if not any(step.enabled(now) for step in self.structural):
            return now
        markings = {now}
        for _ in range(MAX_STRUCTURAL_ROUNDS):
            effort.charge(self._cost)
            ready = _without_conflicts(now, [s for s in self.structural if s.enabled(now)])
            if not ready:
                return now
            moving: Sequence[int] = now
            for step in ready:
                if step.enabled(moving):
                    moving = step.fire(moving)
            now = tuple(moving)
            if now in markings:
                return now
            markings.add(now)
        return None

    def alive(
        self, start: Tokens, names: Iterable[str]
    ) -> tuple[set[IndexedTransition], tuple[float, ...]]:
        """Transitions that may ever fire from `start` on by calls of `names`, and bounds of places.

        A place to which no transition adds more than it takes holds at most its initial tokens. This is
        repeated a few times, because a transition that can no longer fire adds nothing.
        """
        alive = {step for name in names for step in self.covering.get(name, ())} | {*self.structural}
        bounds: list[float] = [inf] * len(start)
        for _ in range(_LOOKS):
            grows: set[int] = set()
            for step in alive:
                needs = dict(step.needs)
                grows.update(p for p, output in step.gives if output > needs.get(p, 0))
                grows.update(t for s, t in step.transfers if s != t and bounds[s] > 0)
            bounds = [inf if p in grows else tokens for p, tokens in enumerate(start)]
            firing = {step for step in alive if all(bounds[p] >= need for p, need in step.needs)}
            if len(firing) == len(alive):
                break
            alive = firing
        return alive, tuple(bounds)


def _step(transition: Transition, at: Mapping[str, int]) -> IndexedTransition:
    return IndexedTransition(
        tuple((at[place], need) for place, need in transition.needs),
        tuple((at[source], at[target]) for source, target in transition.transfers),
        tuple((at[place], output) for place, output in _gives(transition).items()),
        transition.deferred,
        transition.type == "manual",
        transition.partial,
        transition.after is not None,
        transition.name,
        transition.voids,
    )


def _gives(transition: Transition) -> Counter[str]:
    outputs, amount = Counter(transition.outputs), transition.amount
    if amount is not None and amount.target is not None:
        outputs[amount.target] += amount.units
    return outputs


def _without_conflicts(marking: Tokens, enabled: list[IndexedTransition]) -> list[IndexedTransition]:
    """Those of `enabled` that do not compete for more tokens than their places hold."""
    if len(enabled) == 1:
        return enabled
    demand: dict[int, int] = {}
    consumers: dict[int, int] = {}
    for step in enabled:
        for place, need in step.needs:
            demand[place] = demand.get(place, 0) + need
            consumers[place] = consumers.get(place, 0) + 1
    contested = {p for p, n in demand.items() if consumers[p] > 1 and n > marking[p]}
    return [s for s in enabled if all(p not in contested for p, _ in s.needs)]
