"""One net as a machine over calls: where each call leads it, and which of its states are no worse.

Nets meet only in the calls they share, so each is walked alone and its steps are remembered. A state is a
marking at rest, known by a number; states appear as they are visited, so a budget of a million costs
nothing until it is spent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ..net import Marking, NetError, SkillNet, Transition, auto_advance, fire, is_enabled
from .reach import Budget, budget_of

BLOCKED = -1
MAX_LOCAL_STATES = 200
"""A net with more states than this is not walked through: what it can do is then only guessed at."""

MAX_COMPARED_STATES = 40


@dataclass(frozen=True, slots=True)
class Action:
    """A call as the nets see it: all its names, the most specific first (G-50), and how it ends.

    `by_net` overrides the names for nets that know the call otherwise, by the net's key.
    """

    names: tuple[str, ...]
    succeeds: bool = True
    by_net: Mapping[str, tuple[str, ...]] | None = None

    def names_in(self, key: str) -> tuple[str, ...]:
        return self.names if self.by_net is None else self.by_net.get(key, ())


@dataclass(frozen=True, slots=True)
class Wants:
    """The calls of a shortest path in one net, each once, and those that no path does without."""

    path: tuple[int, ...]
    musts: tuple[int, ...]


def advance(
    net: SkillNet, marking: Marking, names: Sequence[str], *, succeeds: bool = True
) -> tuple[Marking, bool] | None:
    """The net's marking after a finished call, and whether a person was asked; `None` when it blocks.

    Names are taken in order and together (G-50); deferred transitions fire last, if the call succeeds.
    """
    waiting: list[Transition] = []
    asks = False
    for name in names:
        if name in net.free_tools:
            continue
        covering = [t for t in net.transitions if name in t.tools]
        if not covering:
            continue
        chosen = next((t for t in covering if is_enabled(marking, t)), None)
        if chosen is None:
            return None
        asks = asks or chosen.type == "manual"
        if chosen.deferred:
            waiting.append(chosen)
            continue
        try:
            marking = auto_advance(net, fire(marking, chosen))
        except NetError:
            return None
    for transition in waiting if succeeds else ():
        if is_enabled(marking, transition):
            try:
                marking = auto_advance(net, fire(marking, transition))
            except NetError:
                continue  # The gate drops such a result and leaves the net where it is.
    return marking, asks


class LocalNet:
    """One net over numbered actions; `start` is the state it is in now.

    `actions` are those it can block or that can move it. `usable` may be narrowed to those that can
    ever be called, before paths are asked for.
    """

    def __init__(
        self, key: str, net: SkillNet, marking: Mapping[str, int], actions: Mapping[int, Action]
    ) -> None:
        self.key = key
        self.net = net
        self._places = tuple(dict.fromkeys([*net.places, *marking]))
        self._markings: list[tuple[int, ...]] = []
        self._ids: dict[tuple[int, ...], int] = {}
        self._steps: dict[tuple[int, int], int] = {}
        self._wants: dict[tuple[int, int], Wants | None] = {}
        self._simulated: set[tuple[int, int]] | None = None
        self._budget = _plain_budget(net)
        self._actions = actions
        self._manual = any(t.type == "manual" for t in net.transitions)
        self.start = self._id({p: marking.get(p, 0) for p in self._places})
        self.actions: tuple[int, ...] = tuple(actions)
        self.usable = self.actions

    @property
    def budget(self) -> Budget | None:
        """The net as a budget net, if it is one."""
        return self._budget

    def marking(self, state: int) -> Marking:
        return dict(zip(self._places, self._markings[state], strict=True))

    def state(self, marking: Mapping[str, int]) -> int:
        """The number of a marking."""
        return self._id({p: marking.get(p, 0) for p in self._places})

    def _id(self, marking: Marking) -> int:
        key = tuple(marking[p] for p in self._places)
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._markings)
            self._markings.append(key)
        return known

    def names(self, action: int) -> set[str]:
        """All names the net sees in a call."""
        return set(self._actions[action].names_in(self.key))

    def step(self, state: int, action: int) -> int:
        """The state after the call, or `BLOCKED`."""
        key = (state, action)
        after = self._steps.get(key)
        if after is None:
            after = self._steps[key] = self._step(state, action)
        return after

    def _step(self, state: int, action: int) -> int:
        call = self._actions[action]
        moved = advance(self.net, self.marking(state), call.names_in(self.key), succeeds=call.succeeds)
        return BLOCKED if moved is None else self._id(moved[0])

    def asks(self, state: int, action: int) -> bool:
        """Whether the call asks a person here."""
        if not self._manual:
            return False
        call = self._actions[action]
        moved = advance(self.net, self.marking(state), call.names_in(self.key), succeeds=call.succeeds)
        return moved is not None and moved[1]

    @property
    def inert(self) -> bool:
        """Whether the net never blocks and never moves, wherever it stands now."""
        return all(self.step(self.start, action) == self.start for action in self.actions)

    def no_worse(self, state: int, other: int) -> bool:
        """Whether whatever can be called from `other` on can be called from `state` on as well."""
        if state == other:
            return True
        if self._budget is not None:
            return self._budget.no_worse(self.marking(state), self.marking(other))
        if self._simulated is None:
            self._simulated = self._simulation()
        return (state, other) in self._simulated

    def _simulation(self) -> set[tuple[int, int]]:
        """Pairs of states of which the first can do all the second can: the greatest simulation."""
        states = self.explore(self.start, self.actions, MAX_COMPARED_STATES)
        if states is None:
            return set()
        pairs = {(a, b) for a in states for b in states if a != b}

        def holds(better: int, worse: int) -> bool:
            for action in self.actions:
                after = self.step(worse, action)
                if after == BLOCKED:
                    continue
                mine = self.step(better, action)
                if mine == BLOCKED or (mine != after and (mine, after) not in pairs):
                    return False
            return True

        while wrong := [pair for pair in pairs if not holds(*pair)]:
            pairs.difference_update(wrong)
        return pairs

    def explore(self, start: int, actions: Collection[int], limit: int) -> list[int] | None:
        """All states from `start` on by `actions`; `None` when there are more than `limit`."""
        seen = {start: None}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            for action in actions:
                after = self.step(state, action)
                if after != BLOCKED and after not in seen:
                    if len(seen) >= limit:
                        return None
                    seen[after] = None
                    waiting.append(after)
        return list(seen)

    def wants(self, state: int, goal: int) -> Wants | None:
        """What has to be called before the net allows `goal`; `None`: nothing helps.

        Raises `TooLargeError` when the net has too many states to tell.
        """
        key = (state, goal)
        if key in self._wants:
            return self._wants[key]
        path = self._path(state, goal, without=None)
        known = None
        if path is not None:
            steps = tuple(dict.fromkeys(path))
            musts = tuple(b for b in steps if self._path(state, goal, without=b) is None)
            known = Wants(steps, musts)
        self._wants[key] = known
        return known

    def _path(self, state: int, goal: int, without: int | None) -> tuple[int, ...] | None:
        if self.step(state, goal) != BLOCKED:
            return ()
        came: dict[int, tuple[int, int] | None] = {state: None}
        waiting = deque([state])
        while waiting:
            at = waiting.popleft()
            for action in self.usable:
                if action in (goal, without):
                    continue
                after = self.step(at, action)
                if after == BLOCKED or self._covered(after, came):
                    continue
                if len(came) >= MAX_LOCAL_STATES:
                    raise TooLargeError(self.key)
                came[after] = (at, action)
                if self.step(after, goal) != BLOCKED:
                    return _back(after, came.__getitem__)
                waiting.append(after)
        return None

    def _covered(self, state: int, seen: Collection[int]) -> bool:
        if state in seen:
            return True
        # Only a budget is long enough for it to pay to look further than equality.
        return self._budget is not None and any(self.no_worse(other, state) for other in seen)


def _plain_budget(net: SkillNet) -> Budget | None:
    """`net` as a budget net in which every use is paid at once and no call both uses and refills.

    Only then is more budget never worse.
    """
    named = [tool for t in net.transitions for tool in t.tools]
    if net.free_tools or len(named) != len(set(named)):
        return None
    budget = budget_of(net)
    return None if budget is None or net.transitions[1].deferred else budget


class TooLargeError(Exception):
    """A net with more states than are walked through; its key is the argument."""


def _back(state: int, came: Callable[[int], tuple[int, int] | None]) -> tuple[int, ...]:
    steps: list[int] = []
    while (before := came(state)) is not None:
        state, action = before
        steps.append(action)
    return tuple(reversed(steps))
