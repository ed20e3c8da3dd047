"""One net as a machine over calls: the state to which each call leads, and which states are no worse.

Nets interact only through the calls that they share, so each is walked alone and its steps are cached. A
state is a marking at rest, identified by a number. States are created when they are visited, so a budget
of a million costs nothing until it is spent.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import ge

from ..net.net import Marking, SkillNet, Transition
from .budget import Effort
from .machine import Machine, Tokens
from .reachability import Budget, budget_of

BLOCKED = -1
MAX_LOCAL_STATES = 200
"""A net with more states than this is not walked through; its behaviour is then only estimated."""

MAX_COMPARED_STATES = 40

MAX_TRIES = 6
"""Walks from different states that may exceed the limit of states before a goal is given up."""


@dataclass(frozen=True, slots=True)
class TimedFiring:
    """Wait until a timed transition of the net with this key fires, if it can."""

    key: str
    transition: Transition


@dataclass(frozen=True, slots=True)
class Action:
    """A call as the nets see it: all its names, the most specific first (G-50), and whether it succeeds.

    `by_net` overrides the names for some nets, by the net's key: a net whose condition does not hold
    knows the call by fewer names or none. Such nets are also in `outside` if the call is one of several
    that an agent may choose from. An action with `wait` is not a call.
    """

    names: tuple[str, ...]
    succeeds: bool = True
    by_net: Mapping[str, tuple[str, ...]] | None = None
    outside: tuple[str, ...] = ()
    wait: TimedFiring | None = None

    def names_in(self, key: str) -> tuple[str, ...]:
        return self.names if self.by_net is None else self.by_net.get(key, self.names)


@dataclass(frozen=True, slots=True)
class ShortestCalls:
    """Calls of a shortest path in one net, each once, and those that every path contains."""

    path: tuple[int, ...]
    musts: tuple[int, ...]


class LocalNet:
    """One net over numbered actions; `start` is its current state.

    `actions` are those that it can block or that can move it. `usable` may be narrowed to those that can
    ever be called, before paths are requested. Everything that is not cached is charged to `effort`.
    """

    def __init__(
        self,
        key: str,
        net: SkillNet,
        marking: Mapping[str, int],
        actions: Mapping[int, Action],
        effort: Effort,
    ) -> None:
        self.key = key
        self.net = net
        self.effort = effort
        effort.charge(10 + 2 * len(net.transitions))
        self.machine = Machine(net, marking)
        self.manual = any(t.type == "manual" for t in net.transitions)
        self._markings: list[Tokens] = []
        self._ids: dict[Tokens, int] = {}
        self._steps: dict[tuple[int, int], int] = {}
        self._wants: dict[tuple[int, int], ShortestCalls | None] = {}
        self._too_large: Counter[int] = Counter()
        self._simulated: set[tuple[int, int]] | None = None
        self._endless = False
        self._monotone: bool | None = None
        self._compared: dict[int, Dominance] = {}
        self._states: tuple[tuple[int, ...], list[int] | None] | None = None
        self._budget = _plain_budget(net)
        self._actions = actions
        self.start = self.state(marking)
        self.actions: tuple[int, ...] = tuple(actions)
        self.usable = self.actions

    @property
    def budget(self) -> Budget | None:
        """The net as a budget net, if it is one."""
        return self._budget

    def marking(self, state: int) -> Marking:
        return dict(zip(self.machine.places, self._markings[state], strict=True))

    def tokens(self, state: int) -> Tokens:
        """The marking as numbers, in the order of the machine's places."""
        return self._markings[state]

    def state(self, marking: Mapping[str, int]) -> int:
        """Number of a marking."""
        return self._id(tuple(marking.get(p, 0) for p in self.machine.places))

    def _id(self, tokens: Tokens) -> int:
        known = self._ids.get(tokens)
        if known is None:
            known = self._ids[tokens] = len(self._markings)
            self._markings.append(tokens)
        return known

    def call(self, action: int) -> tuple[tuple[str, ...], bool]:
        """Names that the net sees in a call, and whether the call succeeds."""
        call = self._actions[action]
        return call.names_in(self.key), call.succeeds

    def names(self, action: int) -> set[str]:
        """All names that the net sees in a call."""
        return set(self.call(action)[0])

    def step(self, state: int, action: int) -> int:
        """State after the call, or `BLOCKED`."""
        key = (state, action)
        after = self._steps.get(key)
        if after is None:
            moved = self._advance(state, action)
            after = self._steps[key] = BLOCKED if moved is None else self._id(moved[0])
        return after

    def _advance(self, state: int, action: int) -> tuple[Tokens, int] | None:
        names, succeeds = self.call(action)
        return self.machine.advance(self._markings[state], names, self.effort, succeeds=succeeds)

    def asks(self, state: int, action: int) -> int:
        """Number of people who must approve the call in this state."""
        if not self.manual:
            return 0
        moved = self._advance(state, action)
        return 0 if moved is None else moved[1]

    def no_worse(self, state: int, other: int) -> bool:
        """True if every sequence of calls possible from `other` is also possible from `state`."""
        if state == other:
            return True
        if self._budget is not None:
            return self._budget.no_worse(self.marking(state), self.marking(other))
        if self._simulated is None:
            self._simulated = self._simulation()
        if (state, other) in self._simulated:
            return True
        markings = self._markings
        return self._endless and self.monotone and all(map(ge, markings[state], markings[other]))

    def comparing(self, state: int) -> Dominance:
        """Cached table from other states to whether each is no worse than `state`."""
        known = self._compared.get(state)
        if known is None:
            known = self._compared[state] = Dominance(self, state)
        return known

    @property
    def monotone(self) -> bool:
        """True if more tokens never allow less, from the net's current marking on.

        This holds if no structural transition can fire any more, if at most one transition that can fire
        covers each name, and if no call with several of the net's names has a deferred transition for one
        of them. Otherwise the first enabled transition would take precedence (a partial one alone lets
        nothing pass), or another name could have disabled the deferred one.
        """
        if self._monotone is None:
            names = {name for action in self.actions for name in self.call(action)[0]}
            alive = self.machine.alive(self._markings[self.start], names)[0]
            single = all(
                sum(step in alive for step in covering) <= 1
                for name, covering in self.machine.covering.items()
                if name in names
            )
            self._monotone = single and alive.isdisjoint(self.machine.structural)
            for action in self.actions if self._monotone else ():
                covering = self.machine.gated(self.call(action)[0])
                if len(covering) > 1 and any(s.deferred for steps in covering for s in steps):
                    self._monotone = False
        return self._monotone

    def _simulation(self) -> set[tuple[int, int]]:
        """Greatest simulation: pairs of states of which the first can do all that the second can."""
        states = self.explore(self.start, self.actions, MAX_COMPARED_STATES)
        if states is None:
            self._endless = True
            return set()
        pairs = {(a, b) for a in states for b in states if a != b}
        before: dict[int, set[int]] = {state: set() for state in states}
        for state in states:
            for action in self.actions:
                if (after := self.step(state, action)) != BLOCKED:
                    before[after].add(state)

        def holds(better: int, worse: int) -> bool:
            for action in self.actions:
                after = self.step(worse, action)
                if after == BLOCKED:
                    continue
                mine = self.step(better, action)
                if mine == BLOCKED or (mine != after and (mine, after) not in pairs):
                    return False
            return True

        # A pair must be checked again only if a pair to which it leads is gone.
        waiting = list(pairs)
        while waiting:
            self.effort.charge(len(waiting) * (1 + len(self.actions) // 3))
            refuted = {pair for pair in waiting if pair in pairs and not holds(*pair)}
            pairs -= refuted
            waiting = list({(a, b) for x, y in refuted for a in before[x] for b in before[y]} & pairs)
        return pairs

    def states(self) -> list[int] | None:
        """All states that the net reaches by usable calls; `None` if there are too many to walk."""
        if self._states is None or self._states[0] != self.usable:
            self._states = self.usable, self.explore(self.start, self.usable, MAX_LOCAL_STATES)
        return self._states[1]

    def explore(self, start: int, actions: Collection[int], limit: int) -> list[int] | None:
        """All states reachable from `start` by `actions`; `None` if there are more than `limit`."""
        reached = {start: None}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            self.effort.charge(1 + len(actions) // 4)
            for action in actions:
                after = self.step(state, action)
                if after != BLOCKED and after not in reached:
                    if len(reached) >= limit:
                        return None
                    reached[after] = None
                    waiting.append(after)
        return list(reached)

    def wants(self, state: int, goal: int) -> ShortestCalls | None:
        """Calls that must come before the net allows `goal`; `None` if no calls lead there.

        Raises `TooLargeError` if the net has too many states to decide this.
        """
        key = (state, goal)
        if key in self._wants:
            return self._wants[key]
        if self._too_large[goal] >= MAX_TRIES:
            raise TooLargeError(self.key)
        try:
            path = self._path(state, goal, without=None)
            known = None
            if path is not None:
                steps = tuple(dict.fromkeys(path))
                musts = tuple(b for b in steps if self._path(state, goal, without=b) is None)
                known = ShortestCalls(steps, musts)
        except TooLargeError:
            self._too_large[goal] += 1
            raise
        self._wants[key] = known
        return known

    def _path(self, state: int, goal: int, without: int | None) -> tuple[int, ...] | None:
        if self.step(state, goal) != BLOCKED:
            return ()
        predecessors: dict[int, tuple[int, int] | None] = {state: None}
        waiting = deque([state])
        while waiting:
            at = waiting.popleft()
            self.effort.charge(1 + len(self.usable) // 3)
            for action in self.usable:
                if action in (goal, without):
                    continue
                after = self.step(at, action)
                if after == BLOCKED or self._covered(after, predecessors):
                    continue
                if len(predecessors) >= MAX_LOCAL_STATES:
                    raise TooLargeError(self.key)
                predecessors[after] = (at, action)
                if self.step(after, goal) != BLOCKED:
                    return _back(after, predecessors.__getitem__)
                waiting.append(after)
        return None

    def _covered(self, state: int, states: Collection[int]) -> bool:
        if state in states:
            return True
        # Comparing beyond equality only pays for budgets, which are long enough.
        if self._budget is None:
            return False
        self.effort.charge(len(states) // 2)
        return any(self.no_worse(other, state) for other in states)


class Dominance(dict[int, bool]):
    """Table by state, true for those that are no worse than one state of a net; filled on demand."""

    def __init__(self, local: LocalNet, state: int) -> None:
        super().__init__()
        self._local = local
        self._state = state

    def __missing__(self, other: int) -> bool:
        self._local.effort.charge(1)
        known = self[other] = self._local.no_worse(other, self._state)
        return known


def _plain_budget(net: SkillNet) -> Budget | None:
    """`net` as a budget net, if every use takes effect at once and no call both uses and refills.

    Only under these conditions is more budget never worse.
    """
    tools = [tool for t in net.transitions for tool in t.tools]
    if net.free_tools or len(tools) != len(set(tools)):
        return None
    budget = budget_of(net)
    return None if budget is None or net.transitions[1].deferred else budget


class TooLargeError(Exception):
    """A net with more states than are walked through; its key is the argument."""


def _back(state: int, predecessor: Callable[[int], tuple[int, int] | None]) -> tuple[int, ...]:
    steps: list[int] = []
    while (before := predecessor(state)) is not None:
        state, action = before
        steps.append(action)
    return tuple(reversed(steps))
