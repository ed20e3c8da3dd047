"""Upper bound on the calls that can ever happen, judged net by net, at low cost."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from .budget import Effort, SpentError
from .coverability import cover
from .demands import Tokenwise
from .local_net import BLOCKED, LocalNet

T = TypeVar("T")

WALKED = 100
"""Most states of one net that are visited; a net with more is analysed by backward search."""

ALLOWANCE = 100
"""Steps, per action, that every net may take regardless of the others."""

POOL = 200_000
"""Steps that all nets together may take beyond that: a fifth of a second."""


class System(Protocol):
    """Nets that interact through numbered actions; `nets_of` has the indices of an action's nets."""

    effort: Effort

    @property
    def locals(self) -> Sequence[LocalNet]: ...

    @property
    def nets_of(self) -> Sequence[Sequence[int]]: ...

    def unnarrowed(self, net: int) -> Tokenwise:
        """Backward view of the net by tokens, with all of its actions."""
        ...


class Spread:
    """States that each net could reach if calls never took tokens from other nets: an upper bound.

    An action that is not `possible` can never be called while the given nets are in force. A net that
    costs too much is assumed to allow everything.
    """

    def __init__(self, product: System, nets: Iterable[int]) -> None:
        self._product = product
        self._nets = list(nets)
        numbers = set(self._nets)
        self._states: dict[int, dict[int, None]] = {net: {} for net in self._nets}
        self._enabled: dict[int, set[int]] = {net: set() for net in self._nets}
        self._missing = Counter(action for net in self._nets for action in product.locals[net].actions)
        self._new: deque[int] = deque()
        self._large: dict[int, tuple[int, ...] | None] = {}
        self._own = {net: ALLOWANCE * (1 + len(product.locals[net].actions)) for net in self._nets}
        self._pool = POOL
        for net in self._nets:
            self._pay(net, self._walk, [product.locals[net].start])
        while self._new or self._looked_again():
            while self._new:
                action = self._new.popleft()
                for net in product.nets_of[action]:
                    if net in numbers and net not in self._large and self._states[net]:
                        self._pay(net, self._move, action)

    def possible(self, action: int) -> bool:
        """True if the nets have not been found to forbid `action`."""
        return self._missing[action] == 0

    def _pay(self, net: int, work: Callable[[int, T], None], argument: T) -> None:
        """Work on one net, charged to its own allowance first; if it runs out, it allows everything."""
        effort = self._product.effort
        before = effort.left
        try:
            with effort.within(self._own[net] + self._pool):
                work(net, argument)
        except SpentError:
            self._large.pop(net, None)
            self._states[net] = {}
            self._enable(net, self._product.locals[net].actions)
        self._own[net] -= before - effort.left
        if self._own[net] < 0:
            self._pool = max(0, self._pool + self._own[net])
            self._own[net] = 0

    def _move(self, net: int, action: int) -> None:
        local = self._product.locals[net]
        after = (local.step(state, action) for state in list(self._states[net]))
        self._walk(net, [state for state in after if state != BLOCKED])

    def _walk(self, net: int, waiting: list[int]) -> None:
        local = self._product.locals[net]
        states = self._states[net]
        while waiting:
            state = waiting.pop()
            if state in states or any(local.no_worse(other, state) for other in states):
                continue
            local.effort.charge(1 + len(states) // 8 + len(local.actions) // 8)
            if len(states) >= WALKED:
                self._large[net] = None
                return
            states[state] = None
            for action in local.actions:
                after = local.step(state, action)
                if after != BLOCKED:
                    self._enable(net, [action])
                    if self.possible(action):
                        waiting.append(after)

    def _looked_again(self) -> bool:
        """Analyse large nets with the actions that have become possible; true if that adds any."""
        for net, previous in list(self._large.items()):
            possible = tuple(a for a in self._product.locals[net].actions if self.possible(a))
            if possible != previous:
                self._large[net] = possible
                self._pay(net, self._look, possible)
        return bool(self._new)

    def _look(self, net: int, possible: tuple[int, ...]) -> None:
        demands = [self._product.unnarrowed(net)]
        actions = self._product.locals[net].actions
        known = dict.fromkeys(actions, (0,))
        for action in actions:
            if action in self._enabled[net]:
                continue
            if cover(demands, known, possible, action, self._product.effort) is not None:
                self._enable(net, [action])

    def _enable(self, net: int, actions: Iterable[int]) -> None:
        for action in actions:
            if action in self._enabled[net]:
                continue
            self._enabled[net].add(action)
            self._missing[action] -= 1
            if not self._missing[action]:
                self._new.append(action)

    def against(self, goal: int) -> list[int]:
        """Nets that by themselves keep `goal` from ever being possible; not necessarily the fewest."""
        seen: dict[int, None] = {}
        goals = {goal}
        waiting = deque([goal])
        while waiting:
            action = waiting.popleft()
            nets = [n for n in self._product.nets_of[action] if n in self._enabled]
            blocking = [n for n in nets if action not in self._enabled[n]]
            net = next((n for n in blocking if n in seen), blocking[0])
            seen[net] = None
            for other in self._product.locals[net].actions:
                if not self.possible(other) and other not in goals:
                    goals.add(other)
                    waiting.append(other)
        return list(seen)
