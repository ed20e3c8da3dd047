"""The shortest way to a call, or the nets that forbid it, or that the effort did not suffice.

If each call is needed only once, the answer follows from the nets directly (`plan`). Otherwise the search
starts with the nets that know the call and tries each result on all nets of the cone. It adds the net
that blocks the result and searches again. If nothing is left to search, the nets used are the
explanation. If one of these nets has many states, a backward search comes first, which also ends for
infinitely many states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import getitem
from typing import TypeAlias

from .budget import UNBOUNDED, Effort, SpentError
from .composition import NetProduct
from .coverability import cover
from .local_net import BLOCKED, TooLargeError
from .upper_bound import Spread

# Needed calls, judged net by net: a plan of them, and how many there must be at least.


def plan(product: NetProduct, state: Mapping[int, int], goal: int) -> tuple[list[int], int] | None:
    """Calls that each net by itself needs before `goal`, each once, in an order that respects these
    needs.

    Returns them with `goal` at the end, and how many of them every way to `goal` must contain: if all,
    and the nets agree, no shorter way exists. `None` if calls wait for each other, or if one is
    unreachable. Raises `TooLargeError` and `SpentError`.
    """
    order: list[int] = []
    planned: set[int] = set()
    open_: set[int] = set()
    certain = {goal}
    stack: list[tuple[int, bool]] = [(goal, False)]
    while stack:
        action, leaving = stack.pop()
        if leaving:
            open_.discard(action)
            planned.add(action)
            order.append(action)
            continue
        if action in planned:
            continue
        if action in open_:
            return None
        open_.add(action)
        stack.append((action, True))
        before: dict[int, None] = {}
        product.effort.charge(1)
        for net in product.nets_of[action]:
            local = product.locals[net]
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
            if other not in planned:
                stack.append((other, False))
    return order, len(certain)


def first_plan(product: NetProduct, goal: int) -> tuple[list[int], int] | None:
    """`plan` from the start; the last one is cached for a tool's way and its bound on calls."""
    if product.planned is None or product.planned[0] != goal:
        product.planned = goal, plan(product, product.begin(), goal)
    return product.planned[1]


def distance(product: NetProduct, nets: Iterable[int], state: Mapping[int, int], goal: int) -> int | None:
    """Lower bound on the number of calls of every way to `goal`, including it; `None` if there is no way.

    Counts the calls that every way needs, judged net by net. `None` also if two of them must each come
    before the other. Raises `SpentError`.
    """
    in_nets = set(nets)
    counted: set[int] = set()
    open_: set[int] = set()
    stack: list[tuple[int, bool]] = [(goal, False)]
    while stack:
        action, leaving = stack.pop()
        if leaving:
            open_.discard(action)
            counted.add(action)
            continue
        if action in counted:
            continue
        if action in open_:
            # Still being entered from another side: the same call is on the stack twice.
            continue
        open_.add(action)
        stack.append((action, True))
        for net in product.nets_of[action]:
            if net not in in_nets:
                continue
            local = product.locals[net]
            try:
                wants = local.wants(state[net], action)
            except TooLargeError:
                continue
            if wants is None:
                return None
            for other in wants.musts:
                if other in open_:
                    return None
                if other not in counted:
                    stack.append((other, False))
    return len(counted)


DEFAULT_EFFORT = 800_000
"""Steps of single nets that a question may cost: about a second."""

MINIMISING = 30_000
"""Steps that may be spent on finding out whether a net can be left out of an explanation."""

SPREADING = 8
"""Steps charged per net for computing how far calls spread among plain nets."""


@dataclass(frozen=True, slots=True)
class ActionSequence:
    """Actions that lead to the goal, the goal last; `shortest` if no fewer do."""

    actions: tuple[int, ...]
    shortest: bool


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The goal can never be called while the nets at these indices are in force.

    No smaller set of them was found to suffice.
    """

    nets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchLimitReached:
    """The effort was spent before there was an answer."""


Found: TypeAlias = ActionSequence | Forbidden | SearchLimitReached


def find(product: NetProduct, goal: int, effort: int = DEFAULT_EFFORT) -> Found:
    """The shortest way to `goal` from the current markings."""
    with product.effort.within(effort):
        if not product.reached.possible(goal):
            return Forbidden(_fewest(product, goal, product.reached.against(goal), searching=False))
        fallback: Found = SearchLimitReached()
        try:
            planned = _planned(product, goal)
            if planned is not None and planned.shortest:
                return planned
            fallback = planned or fallback
            return _refine(product, goal)
        except SpentError:
            return fallback


def _planned(product: NetProduct, goal: int) -> ActionSequence | None:
    """The plan from the start, if it works and does not take too long to compute."""
    try:
        with product.effort.within(product.effort.left // 3):
            planned = first_plan(product, goal)
    except (TooLargeError, SpentError):
        return None
    if planned is None or product.run(product.begin(), planned[0]) is not None:
        return None
    return ActionSequence(tuple(planned[0]), len(planned[0]) == planned[1])


def _refine(product: NetProduct, goal: int) -> Found:
    """Search with few nets, adding those that block what was found. Raises `SpentError`."""
    cone = product.cone(goal)
    chosen = [net for net in cone if net in product.nets_of[goal]]
    while True:
        found = _decide(product, chosen, goal)
        if found is None:
            return Forbidden(_fewest(product, goal, _with_those_left_out(product, chosen)))
        objecting = product.run(product.begin(), found)
        if objecting is None:
            return ActionSequence(tuple(found), True)
        chosen.append(objecting)


def _decide(product: NetProduct, nets: Sequence[int], goal: int) -> list[int] | None:
    """Shortest way to `goal` under `nets` alone; `None` if there is none. Raises `SpentError`."""
    if any(product.locals[net].budget is None and product.locals[net].states() is None for net in nets):
        try:
            with product.effort.within(product.effort.left // 2):
                found = _backwards(product, nets, goal)
                if found is None or product.run(product.begin(), found) not in nets:
                    return found
        except SpentError:
            pass
    return search(product, nets, goal)


def _backwards(product: NetProduct, nets: Sequence[int], goal: int) -> list[int] | None:
    """Like `search`, but a way may fail if a net is not monotone; that there is no way is certain."""
    at = {net: place for place, net in enumerate(nets)}
    actions = sorted({a for net in nets for a in product.locals[net].usable} - {goal})
    known = {a: [at[net] for net in product.nets_of[a] if net in at] for a in {*actions, goal}}
    return cover([product.demands(net) for net in nets], known, actions, goal, product.effort)


def _with_those_left_out(product: NetProduct, nets: list[int]) -> list[int]:
    """`nets`, and the nets that forbid those of their calls that are known to be impossible."""
    all_of_them = dict.fromkeys(nets)
    for net in nets:
        for action in product.locals[net].actions:
            if not product.reached.possible(action):
                all_of_them.update(dict.fromkeys(product.reached.against(action)))
    return list(all_of_them)


def search(
    product: NetProduct, nets: Iterable[int], goal: int, *, refusing: int | None = None
) -> list[int] | None:
    """Shortest way to `goal` under `nets` alone, best first; `None` if there is none.

    With `refusing`, the way leads to a state in which that net, and no other, blocks `goal`. A state is
    dropped if a state that is nowhere worse was reached in no more calls. Raises `SpentError`.
    """
    effort = product.effort
    order = list(nets)
    searched = set(order)
    willing = [net for net in order if net != refusing]
    usable = {a for net in order for a in product.locals[net].usable}
    actions = sorted(usable - {goal} if refusing is None else usable)
    known = {a: [n for n in product.nets_of[a] if n in searched] for a in {*actions, goal}}
    start = {net: product.locals[net].start for net in order}
    first = distance(product, willing, start, goal)
    if first is None:
        return None
    best = _Seen(product, order, refusing)
    predecessors: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {}
    depth = {tuple(start.values()): 0}
    heap = [(first, 0, 0, tuple(start.values()))]
    count = 0
    while heap:
        _, negative, _, key = heappop(heap)
        taken = -negative
        if depth[key] != taken or not best.take(key, taken):
            continue
        state = dict(zip(order, key, strict=True))
        # All nets must let the goal pass, except the refusing one, which must not.
        if all(
            (product.locals[n].step(state[n], goal) == BLOCKED) == (n == refusing) for n in known[goal]
        ):
            return [*_trace(key, predecessors), goal]
        effort.charge(len(actions) + len(order))
        for action in actions:
            moved = _moved(product, state, known[action], action)
            if moved is None:
                continue
            after = tuple(moved[net] for net in order)
            if depth.get(after, taken + 2) <= taken + 1 or best.has(after, taken + 1):
                continue
            further = distance(product, willing, moved, goal)
            effort.charge(2 * len(order))
            if further is None:
                continue
            depth[after] = taken + 1
            predecessors[after] = (key, action)
            count += 1
            heappush(heap, (taken + 1 + further, -(taken + 1), count, after))
    return None


class _Seen:
    """States that were expanded, for dropping states that can do no more."""

    COMPARED = 64

    def __init__(self, product: NetProduct, order: list[int], refusing: int | None) -> None:
        self._effort = product.effort
        self._locals = [product.locals[net] for net in order]
        self._exact = None if refusing is None else order.index(refusing)
        self._states: list[tuple[tuple[int, ...], int]] = []

    def has(self, key: tuple[int, ...], length: int) -> bool:
        """True if a state that is nowhere worse was expanded after at most `length` calls."""
        latest = self._states[-self.COMPARED :]
        self._effort.charge(1 + len(latest) // 16)
        compared = [local.comparing(state) for local, state in zip(self._locals, key, strict=True)]
        # Only the latest states are compared: dropping saves effort and is never needed for a correct
        # answer.
        return any(
            calls <= length
            and (self._exact is None or other[self._exact] == key[self._exact])
            and all(map(getitem, compared, other))
            for other, calls in latest
        )

    def take(self, key: tuple[int, ...], calls: int) -> bool:
        """Record a state as expanded, unless `has` finds it useless; return whether it was recorded."""
        if self.has(key, calls):
            return False
        self._states.append((key, calls))
        return True


def _moved(
    product: NetProduct, state: dict[int, int], nets: list[int], action: int
) -> dict[int, int] | None:
    """State after `action`; `None` if it is blocked or changes nothing."""
    moved: dict[int, int] | None = None
    for net in nets:
        to = product.locals[net].step(state[net], action)
        if to == BLOCKED:
            return None
        if to != state[net]:
            moved = dict(state) if moved is None else moved
            moved[net] = to
    return moved


def _trace(
    key: tuple[int, ...], predecessors: Mapping[tuple[int, ...], tuple[tuple[int, ...], int]]
) -> list[int]:
    word: list[int] = []
    while key in predecessors:
        key, action = predecessors[key]
        word.append(action)
    return word[::-1]


def _fewest(
    product: NetProduct, goal: int, nets: Iterable[int], *, searching: bool = True
) -> tuple[int, ...]:
    """Leave out every net without which the goal is still known to be forbidden."""
    needed = list(nets)
    for net in list(needed):
        others = [other for other in needed if other != net]
        try:
            product.effort.charge(SPREADING * len(others))
            with product.effort.within(MINIMISING):
                if _forbids(product, others, goal, searching=searching):
                    needed = others
        except SpentError:
            if product.effort.left <= 0:
                break
    return tuple(sorted(needed))


def _forbids(product: NetProduct, nets: list[int], goal: int, *, searching: bool) -> bool:
    """True if these nets alone are known to forbid the goal. Raises `SpentError`."""
    if not Spread(product, nets).possible(goal):
        return True
    if not searching:
        return False
    alone, action = product.part(nets, goal)
    return _decide(alone, range(len(alone.locals)), action) is None


def redundant(product: NetProduct, net: int, effort: Effort) -> bool:
    """True if all other nets together are known to block every call that `net` blocks.

    `False` also if the effort did not suffice.
    """
    product.effort.left = effort.left
    try:
        return _redundant(product, net)
    except SpentError:
        return False
    finally:
        effort.left, product.effort.left = product.effort.left, UNBOUNDED


def _redundant(product: NetProduct, net: int) -> bool:
    local = product.locals[net]
    others = {n for action in local.usable for n in product.cone(action)} | {net}
    for goal in local.actions:
        if product.actions[goal].wait is not None:
            continue
        if not Spread(product, {*others, *product.nets_of[goal]} - {net}).possible(goal):
            continue
        if search(product, sorted(others), goal, refusing=net) is not None:
            return False
    return True
