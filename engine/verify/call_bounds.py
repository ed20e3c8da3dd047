"""Upper bounds on calls of a tool in a session, derived from the nets, and sequences that reach them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from ..core.durations import as_typed
from .budget import SpentError
from .composition import NetProduct
from .local_net import BLOCKED, LocalNet, TooLargeError
from .machine import time_name
from .search import first_plan, plan
from .upper_bound import ALLOWANCE, POOL

MAX_PRODUCT = 300
MAX_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Pace:
    """Most calls in any period of so many seconds; `str` gives it as `3 per 1h`."""

    calls: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.calls:,} per {as_typed(self.seconds)}"


@dataclass(frozen=True, slots=True)
class Most:
    """The most calls of a tool that a session can make.

    At least `least` are possible and at most `most`; `most` is `None` if no bound is known, and
    `unlimited` says that there is none. The answer is exact if `least` equals `most`. The calls are also
    limited by each of `paces`; uses then come back with time. `each` are limits per value of a field and
    on sums, in words.
    """

    least: int
    most: int | None
    unlimited: bool = False
    paces: tuple[Pace, ...] = ()
    each: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return self.unlimited or self.least == self.most


@dataclass(frozen=True, slots=True)
class _Bound:
    """The `limited` actions together happen at most `constant + factor ×` as often as those of `by`."""

    net: int
    limited: frozenset[int]
    constant: int
    factor: int
    by: frozenset[int]


class Bounds:
    """Upper bounds on how often each action can happen, from what the nets allow and consume."""

    def __init__(self, product: NetProduct) -> None:
        self._product = product
        self._all: list[_Bound] = []
        pool = POOL
        for net, local in enumerate(product.locals):
            before = product.effort.left
            try:
                with product.effort.within(ALLOWANCE * (1 + len(local.actions)) + pool):
                    self._all += _bounds(product, net)
            except SpentError:
                pass  # A net without a bound only allows more.
            used = before - product.effort.left
            pool = max(0, pool - max(0, used - ALLOWANCE * (1 + len(local.actions))))
        self._of: dict[int, list[_Bound]] = {}
        for bound in self._all:
            for action in bound.limited:
                self._of.setdefault(action, []).append(bound)
        self._values = self._settled(self._all)

    def most(self, actions: Iterable[int], *, without: int | None = None) -> float:
        """Bound on all of `actions` together; `without` leaves out one net's own bounds."""
        group = frozenset(filter(self._product.reached.possible, actions))
        if without is None:
            return self._together(group, self._values, None)
        cone = self._cone(group, without)
        if not cone:
            return inf if group else 0
        return self._together(group, self._settled(cone), without)

    def _cone(self, group: Iterable[int], without: int) -> list[_Bound]:
        waiting = deque(group)
        seen = set(waiting)
        found: dict[int, _Bound] = {}
        while waiting:
            for bound in self._of.get(waiting.popleft(), ()):
                if bound.net != without and id(bound) not in found:
                    found[id(bound)] = bound
                    waiting.extend(bound.by - seen)
                    seen |= bound.by
        return list(found.values())

    def _together(self, group: frozenset[int], values: Sequence[float], without: int | None) -> float:
        total = sum(values[a] for a in group)
        for bound in self._of.get(next(iter(group), -1), ()):
            if bound.net != without and group <= bound.limited:
                total = min(total, _value(bound, values))
        return total

    def _settled(self, bounds: Sequence[_Bound]) -> list[float]:
        """Greatest numbers that satisfy `bounds`; calls that are never possible count 0."""
        values = [
            inf if self._product.reached.possible(a) else 0 for a in range(len(self._product.actions))
        ]
        users: dict[int, list[_Bound]] = {}
        for bound in bounds:
            for action in bound.by:
                users.setdefault(action, []).append(bound)
        waiting = deque(bounds)
        while waiting:
            bound = waiting.popleft()
            value = _value(bound, values)
            for action in bound.limited:
                if value < values[action]:
                    values[action] = value
                    waiting.extend(users.get(action, ()))
        return values


def _value(term: _Bound, values: Sequence[float]) -> float:
    return term.constant + (term.factor * sum(values[a] for a in term.by) if term.by else 0)


def _bounds(product: NetProduct, net: int) -> list[_Bound]:
    local = product.locals[net]
    if local.budget is not None:
        return _bounds_of_budget(local, net)
    states = local.explore(local.start, local.usable, 40)
    if states is None:
        return []
    alike: dict[tuple[int, ...], list[int]] = {}
    for action in local.usable:
        alike.setdefault(tuple(local.step(state, action) for state in states), []).append(action)
    found: list[_Bound] = []
    for steps, actions in alike.items():
        allowing = {state for state, to in zip(states, steps, strict=True) if to != BLOCKED}
        if any(to in allowing for to in steps):
            continue
        entering = {
            action
            for other, others in alike.items()
            for action in others
            if any(s not in allowing and to in allowing for s, to in zip(states, other, strict=True))
        }
        now = int(local.start in allowing)
        found.append(_Bound(net, frozenset(actions), now, 1, frozenset(entering)))
    return found


def _bounds_of_budget(local: LocalNet, net: int) -> list[_Bound]:
    budget = local.budget
    assert budget is not None
    marking = local.marking(local.start)
    use, *refill = [t for t in local.net.transitions if not t.structural]
    uses = {a for a in local.usable if local.names(a) & set(use.tools)}
    filling = {*refill[0].tools, time_name(refill[0])} if refill else set[str]()
    fills = {a for a in local.usable if local.names(a) & filling}
    remaining = marking[budget.budget]
    total = remaining + (0 if budget.spent is None else marking[budget.spent])
    return [_Bound(net, frozenset(uses), remaining, total, frozenset(fills))]


def paces(product: NetProduct, counted: Sequence[int]) -> tuple[Pace, ...]:
    """Paces to which sliding limits restrict the calls of `counted`, all of them together."""
    found: dict[Pace, None] = {}
    for net in sorted({net for action in counted for net in product.nets_of[action]}):
        local = product.locals[net]
        budget = local.budget
        if budget is None or budget.after is None or budget.spent is None:
            continue
        using = {tool for t in local.net.transitions for tool in t.tools}
        if all(net in product.nets_of[a] and local.names(a) & using for a in counted):
            marking = local.marking(local.start)
            found[Pace(marking[budget.budget] + marking[budget.spent], budget.after)] = None
    return tuple(found)


def most_calls(product: NetProduct, bounds: Bounds, counted: Iterable[int], effort: int) -> Most:
    """The most calls of `counted` that a session can make, all of them together."""
    goals = [a for a in counted if product.reached.possible(a)]
    if not goals:
        return Most(0, 0)
    bound = bounds.most(goals)
    best = 0
    exactly: float | None = None
    with product.effort.within(effort):
        try:
            for goal in goals:
                reached = _repeat(product, goal)
                if reached is None:
                    return Most(0, None, unlimited=True)
                best = max(best, reached)
            if best != bound:
                exactly = _count(product, goals)
        except SpentError:
            exactly = None
    if exactly == inf:
        return Most(best, None, unlimited=True)
    if exactly is not None:
        return Most(int(exactly), int(exactly))
    return Most(best, None if bound == inf else int(bound))


def _repeat(product: NetProduct, goal: int) -> int | None:
    """Follow the plan to `goal` repeatedly; return how often that worked, `None` if without end.

    Raises `SpentError`.
    """
    state = product.begin()
    times = 0
    last: list[int] = []
    for _ in range(MAX_ROUNDS):
        before = dict(state) if times else None
        try:
            planned = plan(product, state, goal) if times else first_plan(product, goal)
        except TooLargeError:
            return times
        if planned is None or product.run(state, planned[0]) is not None:
            return times
        times += 1
        if before is None:
            last = planned[0]
            continue
        moved = [net for net in before if before[net] != state[net]]
        if all(product.locals[net].no_worse(state[net], before[net]) for net in moved):
            return None
        if planned[0] == last:
            times += _leap(product, state, before, moved)
        last = planned[0]
    return times


def _leap(
    product: NetProduct, state: dict[int, int], before: dict[int, int], moved: Sequence[int]
) -> int:
    """Repeat the round that led from `before` to `state` as long as it only spends budgets.

    Returns the number of repetitions and advances `state`; the last few rounds are left to be walked.
    """
    rounds: int | None = None
    spending: list[tuple[LocalNet, int, str, str | None, int]] = []
    for net in moved:
        local = product.locals[net]
        budget = local.budget
        if budget is None:
            return 0
        now, then = local.marking(state[net]), local.marking(before[net])
        spent = then[budget.budget] - now[budget.budget]
        if spent <= 0:
            return 0
        spending.append((local, net, budget.budget, budget.spent, spent))
        possible = now[budget.budget] // spent - 2
        rounds = possible if rounds is None else min(rounds, possible)
    if rounds is None or rounds <= 0:
        return 0
    for local, net, budget_place, used_place, spent in spending:
        marking = local.marking(state[net])
        marking[budget_place] -= spent * rounds
        if used_place is not None:
            marking[used_place] += spent * rounds
        state[net] = local.state(marking)
    return rounds


def _count(product: NetProduct, goals: Sequence[int]) -> float | None:
    """Exact number of calls from the product of the relevant nets, if that is small; otherwise `None`.

    Raises `SpentError`.
    """
    nets = sorted({net for goal in goals for net in product.cone(goal)})
    if len(nets) > 40:
        return None
    actions = sorted({a for net in nets for a in product.locals[net].usable})
    known = {a: [net for net in product.nets_of[a] if net in nets] for a in actions}
    targets = set(goals)
    start = tuple(product.start[net] for net in nets)
    best = {start: 0}
    waiting = deque([start])
    while waiting:
        key = waiting.popleft()
        state = dict(zip(nets, key, strict=True))
        product.effort.charge(1 + len(actions) // 2)
        for action in actions:
            steps = {net: product.locals[net].step(state[net], action) for net in known[action]}
            if BLOCKED in steps.values():
                continue
            after = tuple({**state, **steps}.values())
            number = best[key] + (action in targets)
            if number <= best.get(after, -1):
                continue
            if after not in best and len(best) >= MAX_PRODUCT:
                return None
            if number > MAX_PRODUCT:
                return inf
            best[after] = number
            waiting.append(after)
    return max(best.values())
