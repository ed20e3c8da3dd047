"""Synchronous product of all nets: one system that moves when every net that knows a call lets it pass.

A call is possible if no net that knows it blocks; all of them then move at once. The product is never
built: a state of the product is one state per net.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from ..net.net import SkillNet, auto_advance
from .budget import Effort, SpentError
from .demands import Demands, Tokenwise, demands_of
from .local_net import BLOCKED, Action, LocalNet
from .machine import time_name
from .upper_bound import Spread

INERT = 2_000
"""Steps that may be spent on finding out that a net never does anything."""


class NetProduct:
    """Nets by key, their markings, and the possible calls.

    `markings` has a net's marking if it is not its initial one at rest. Nets that neither block nor move
    on any of the calls are left out. `nets_of[a]` are the indices in `locals` of the nets of action `a`,
    in order. `named` has the actions with a name; `asking` the number of people whose approval the
    left-out nets require for an action; `manual` whether any other net may require approval. Work on the
    nets is charged to `effort`.
    """

    def __init__(
        self,
        nets: Mapping[str, SkillNet],
        actions: Sequence[Action],
        markings: Mapping[str, Mapping[str, int]] | None = None,
        effort: Effort | None = None,
    ) -> None:
        self.effort = effort or Effort()
        self.actions = tuple(actions)
        self.named: dict[str, list[int]] = {}
        self.asking: dict[int, int] = {}
        self.locals: list[LocalNet] = []
        self.nets_of: list[list[int]] = [[] for _ in self.actions]
        special: dict[str, dict[int, tuple[str, ...]]] = {}
        for number, action in enumerate(self.actions):
            for name in action.names:
                self.named.setdefault(name, []).append(number)
            for key, known in (action.by_net or {}).items():
                special.setdefault(key, {})[number] = known
        for key, net in nets.items():
            gated = {tool for t in net.transitions for tool in t.tools}.difference(net.free_tools)
            numbers = {number for name in gated for number in self.named.get(name, ())}
            if key in special:
                gated.update(map(time_name, net.timed))
                numbers.difference_update(special[key])
                numbers.update(n for n, known in special[key].items() if not gated.isdisjoint(known))
            if not numbers:
                continue
            marking = auto_advance(net, net.initial_marking) if markings is None else markings[key]
            local = LocalNet(
                key, net, marking, {n: self.actions[n] for n in sorted(numbers)}, self.effort
            )
            if _inert(local):
                for number in local.actions:
                    people = local.asks(local.start, number)
                    if people > self.asking.get(number, 0):
                        self.asking[number] = people
                continue
            for number in local.actions:
                self.nets_of[number].append(len(self.locals))
            self.locals.append(local)
        self.manual = any(local.manual for local in self.locals)
        self.planned: tuple[int, tuple[list[int], int] | None] | None = None
        self._demands: dict[int, Demands] = {}
        self._unnarrowed: dict[int, Tokenwise] = {}
        self.start = tuple(local.start for local in self.locals)
        self.reached = Spread(self, range(len(self.locals)))
        for local in self.locals:
            local.usable = tuple(a for a in local.actions if self.reached.possible(a))

    def cone(self, goal: int) -> list[int]:
        """Nets that can affect `goal`: those that know it, those that know calls that move these, …"""
        seen: dict[int, None] = dict.fromkeys(self.nets_of[goal])
        waiting = deque(seen)
        while waiting:
            for action in self.locals[waiting.popleft()].usable:
                for net in self.nets_of[action]:
                    if net not in seen:
                        seen[net] = None
                        waiting.append(net)
        return list(seen)

    def demands(self, net: int) -> Demands:
        """Backward view of a net over its usable actions."""
        if net not in self._demands:
            self._demands[net] = demands_of(self.locals[net])
        return self._demands[net]

    def unnarrowed(self, net: int) -> Tokenwise:
        """Backward view of a net by tokens, over all of its actions."""
        if net not in self._unnarrowed:
            local = self.locals[net]
            self._unnarrowed[net] = Tokenwise(local, local.actions)
        return self._unnarrowed[net]

    def part(self, places: Iterable[int], goal: int) -> tuple[NetProduct, int]:
        """Product of the given nets alone with the calls that they know, and the goal's number there."""
        chosen = [self.locals[net] for net in places]
        numbers = sorted({a for local in chosen for a in local.actions} | {goal})
        markings = {local.key: local.marking(local.start) for local in chosen}
        nets = {local.key: local.net for local in chosen}
        some = NetProduct(nets, [self.actions[n] for n in numbers], markings, self.effort)
        return some, numbers.index(goal)

    def run(self, state: dict[int, int], word: Iterable[int]) -> int | None:
        """Move `state` in place along `word`; stop at the first net that blocks, and return it.

        `state` is then changed only by the calls before the blocked one.
        """
        for action in word:
            after: list[tuple[int, int]] = []
            for net in self.nets_of[action]:
                to = self.locals[net].step(state[net], action)
                if to == BLOCKED:
                    return net
                after.append((net, to))
            state.update(after)
        return None

    def begin(self, state: Sequence[int] | None = None) -> dict[int, int]:
        """The start, or `state`, in the form that `run` moves."""
        return dict(enumerate(self.start if state is None else state))


def _inert(local: LocalNet) -> bool:
    """Return whether the net never blocks and never moves; false if that takes too long to find out."""
    try:
        with local.effort.within(INERT):
            return all(local.step(local.start, action) == local.start for action in local.actions)
    except SpentError:
        return False
