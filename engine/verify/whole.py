"""All nets together: one system that moves when every net that knows a call lets it pass.

A call is possible when no net that knows it blocks; then all of them move at once. The nets are never
multiplied: a state of the whole is one state per net.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from ..net import SkillNet, auto_advance
from .local import BLOCKED, Action, LocalNet, TooLargeError


class Whole:
    """Nets by key, where they stand, and the calls there are.

    `markings` gives where a net stands when that is not its initial marking at rest. Nets that neither
    block nor move on any of the calls are left out. `nets_of[a]` are the places of action `a`'s nets in
    `locals`, in order; `named` gives the actions that have a name, `asking` those for which a net that
    is left out asks a person.
    """

    def __init__(
        self,
        nets: Mapping[str, SkillNet],
        actions: Sequence[Action],
        markings: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self.actions = tuple(actions)
        self.named: dict[str, list[int]] = {}
        self.asking: set[int] = set()
        self.locals: list[LocalNet] = []
        self.nets_of: list[list[int]] = [[] for _ in self.actions]
        by_name: dict[str, list[int]] = {}
        special: list[int] = []
        for number, action in enumerate(self.actions):
            for name in action.names:
                self.named.setdefault(name, []).append(number)
            if action.by_net is not None:
                special.append(number)
                continue
            for name in action.names:
                by_name.setdefault(name, []).append(number)
        for key, net in nets.items():
            gated = {tool for t in net.transitions for tool in t.tools}.difference(net.free_tools)
            numbers = {number for name in gated for number in by_name.get(name, ())}
            numbers.update(n for n in special if not gated.isdisjoint(self.actions[n].names_in(key)))
            if not numbers:
                continue
            marking = auto_advance(net, net.initial_marking) if markings is None else markings[key]
            local = LocalNet(key, net, marking, {n: self.actions[n] for n in sorted(numbers)})
            if local.inert:
                self.asking.update(n for n in local.actions if local.asks(local.start, n))
                continue
            for number in local.actions:
                self.nets_of[number].append(len(self.locals))
            self.locals.append(local)
        self.start = tuple(local.start for local in self.locals)
        self.reached = Spread(self, range(len(self.locals)))
        for local in self.locals:
            local.usable = tuple(a for a in local.actions if self.reached.possible(a))

    def cone(self, goal: int) -> list[int]:
        """The nets that can matter to `goal`: those that know it, those that know what moves these, …"""
        seen: dict[int, None] = dict.fromkeys(self.nets_of[goal])
        waiting = deque(seen)
        while waiting:
            for action in self.locals[waiting.popleft()].usable:
                for net in self.nets_of[action]:
                    if net not in seen:
                        seen[net] = None
                        waiting.append(net)
        return list(seen)

    def part(self, nets: Iterable[int], goal: int) -> tuple[Whole, int]:
        """The given nets alone with the calls they know, and the goal's number there."""
        chosen = [self.locals[net] for net in nets]
        numbers = sorted({a for local in chosen for a in local.actions} | {goal})
        markings = {local.key: local.marking(local.start) for local in chosen}
        some = Whole(
            {local.key: local.net for local in chosen}, [self.actions[n] for n in numbers], markings
        )
        return some, numbers.index(goal)

    def run(self, state: dict[int, int], word: Iterable[int]) -> int | None:
        """Move `state` in place along `word`; the first net that blocks stops it and is returned.

        `state` is changed by the calls before that one only.
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
        """The start, or `state`, to be moved by `run`."""
        return dict(enumerate(self.start if state is None else state))


class Spread:
    """What each net could reach if calls never took anything away from other nets: an upper bound.

    An action that is not `possible` can never be called while the given nets are in force. A net that
    is too large to walk through counts as allowing everything.
    """

    def __init__(self, whole: Whole, nets: Iterable[int]) -> None:
        self._whole = whole
        self._nets = list(nets)
        here = set(self._nets)
        self._states: dict[int, dict[int, None]] = {net: {} for net in self._nets}
        self._enabled: dict[int, set[int]] = {net: set() for net in self._nets}
        self._missing = Counter(action for net in self._nets for action in whole.locals[net].actions)
        self._new: deque[int] = deque()
        for net in self._nets:
            self._add(net, whole.locals[net].start)
        while self._new:
            action = self._new.popleft()
            for net in whole.nets_of[action]:
                if net in here:
                    for state in list(self._states[net]):
                        self._move(net, state, action)

    def possible(self, action: int) -> bool:
        """Whether the nets have not been found to forbid `action`."""
        return self._missing[action] == 0

    def _add(self, net: int, start: int) -> None:
        local = self._whole.locals[net]
        states = self._states[net]
        waiting = [start]
        while waiting:
            state = waiting.pop()
            if any(local.no_worse(other, state) for other in states):
                continue
            if len(states) >= 100:
                for action in local.actions:
                    self._enable(net, action)
                return
            states[state] = None
            for action in local.actions:
                after = local.step(state, action)
                if after != BLOCKED:
                    self._enable(net, action)
                    if self.possible(action):
                        waiting.append(after)

    def _move(self, net: int, state: int, action: int) -> None:
        after = self._whole.locals[net].step(state, action)
        if after != BLOCKED:
            self._add(net, after)

    def _enable(self, net: int, action: int) -> None:
        if action in self._enabled[net]:
            return
        self._enabled[net].add(action)
        self._missing[action] -= 1
        if not self._missing[action]:
            self._new.append(action)

    def against(self, goal: int) -> list[int]:
        """Nets that by themselves keep `goal` from ever being possible; not the fewest."""
        seen: dict[int, None] = {}
        asked = {goal}
        waiting = deque([goal])
        while waiting:
            action = waiting.popleft()
            nets = [n for n in self._whole.nets_of[action] if n in self._enabled]
            blocking = [n for n in nets if action not in self._enabled[n]]
            net = next((n for n in blocking if n in seen), blocking[0])
            seen[net] = None
            for other in self._whole.locals[net].actions:
                if not self.possible(other) and other not in asked:
                    asked.add(other)
                    waiting.append(other)
        return list(seen)


def plan(whole: Whole, state: Mapping[int, int], goal: int) -> tuple[list[int], int] | None:
    """Calls that each net by itself wants before `goal`, each once, those first that others wait for.

    Returns them with `goal` at the end, and how many of them every way to `goal` must contain: when all,
    and the nets agree, there is no shorter way. `None` when each waits for another, or one is out of
    reach. Raises `TooLargeError`.
    """
    order: list[int] = []
    done: set[int] = set()
    open_: set[int] = set()
    certain = {goal}
    stack: list[tuple[int, bool]] = [(goal, False)]
    while stack:
        action, leaving = stack.pop()
        if leaving:
            open_.discard(action)
            done.add(action)
            order.append(action)
            continue
        if action in done:
            continue
        if action in open_:
            return None
        open_.add(action)
        stack.append((action, True))
        before: dict[int, None] = {}
        for net in whole.nets_of[action]:
            local = whole.locals[net]
            wants = local.wants(state[net], action)
            if wants is None:
                return None
            if wants.path:
                before.update(dict.fromkeys(wants.path))
                if action in certain:
                    certain.update(wants.musts)
        for other in reversed(before):
            if other in open_:
                return None
            if other not in done:
                stack.append((other, False))
    return order, len(certain)


def distance(whole: Whole, nets: Iterable[int], state: Mapping[int, int], goal: int) -> int | None:
    """How many calls every way to and with `goal` takes at least; `None`: there is no way.

    Counts the calls no way can do without, judged net by net. `None` also when two of them each have to
    come before the other. Raises `TooLargeError`.
    """
    here = set(nets)
    done: set[int] = set()
    open_: set[int] = set()
    stack: list[tuple[int, bool]] = [(goal, False)]
    while stack:
        action, leaving = stack.pop()
        if leaving:
            open_.discard(action)
            done.add(action)
            continue
        if action in done:
            continue
        if action in open_:
            # Still being entered from another side: the same call waits twice on the stack.
            continue
        open_.add(action)
        stack.append((action, True))
        for net in whole.nets_of[action]:
            if net not in here:
                continue
            local = whole.locals[net]
            try:
                wants = local.wants(state[net], action)
            except TooLargeError:
                continue
            if wants is None:
                return None
            for other in wants.musts:
                if other in open_:
                    return None
                if other not in done:
                    stack.append((other, False))
    return len(done)
