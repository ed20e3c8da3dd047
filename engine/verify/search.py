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


def plan(whole: NetProduct, state: Mapping[int, int], goal: int) -> tuple[list[int], int] | None:
    """Calls that each net by itself needs before `goal`, each once, in an order that respects these
    needs.

    Returns them with `goal` at the end, and how many of them every way to `goal` must contain: if all,
    and the nets agree, no shorter way exists. `None` if calls wait for each other, or if one is
    unreachable. Raises `TooLargeError` and `SpentError`.
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
        whole.effort.charge(1)
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


def first_plan(whole: NetProduct, goal: int) -> tuple[list[int], int] | None:
    """`plan` from the start; the last one is cached for a tool's way and its bound on calls."""
    if whole.planned is None or whole.planned[0] != goal:
        whole.planned = goal, plan(whole, whole.begin(), goal)
    return whole.planned[1]


def distance(whole: NetProduct, nets: Iterable[int], state: Mapping[int, int], goal: int) -> int | None:
    """Lower bound on the number of calls of every way to `goal`, including it; `None` if there is no way.

    Counts the calls that every way needs, judged net by net. `None` also if two of them must each come
    before the other. Raises `SpentError`.
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
            # Still being entered from another side: the same call is on the stack twice.
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


def find(whole: NetProduct, goal: int, effort: int = DEFAULT_EFFORT) -> Found:
    """The shortest way to `goal` from the current markings."""
    with whole.effort.within(effort):
        if not whole.reached.possible(goal):
            return Forbidden(_fewest(whole, goal, whole.reached.against(goal), searching=False))
        fallback: Found = SearchLimitReached()
        try:
            planned = _planned(whole, goal)
            if planned is not None and planned.shortest:
                return planned
            fallback = planned or fallback
            return _refine(whole, goal)
        except SpentError:
            return fallback


def _planned(whole: NetProduct, goal: int) -> ActionSequence | None:
    """The plan from the start, if it works and does not take too long to compute."""
    try:
        with whole.effort.within(whole.effort.left // 3):
            planned = first_plan(whole, goal)
    except (TooLargeError, SpentError):
        return None
    if planned is None or whole.run(whole.begin(), planned[0]) is not None:
        return None
    return ActionSequence(tuple(planned[0]), len(planned[0]) == planned[1])


def _refine(whole: NetProduct, goal: int) -> Found:
    """Search with few nets, adding those that block what was found. Raises `SpentError`."""
    cone = whole.cone(goal)
    chosen = [net for net in cone if net in whole.nets_of[goal]]
    while True:
        found = _decide(whole, chosen, goal)
        if found is None:
            return Forbidden(_fewest(whole, goal, _with_those_left_out(whole, chosen)))
        objecting = whole.run(whole.begin(), found)
        if objecting is None:
            return ActionSequence(tuple(found), True)
        chosen.append(objecting)


def _decide(whole: NetProduct, nets: Sequence[int], goal: int) -> list[int] | None:
    """Shortest way to `goal` under `nets` alone; `None` if there is none. Raises `SpentError`."""
    if any(whole.locals[net].budget is None and whole.locals[net].states() is None for net in nets):
        try:
            with whole.effort.within(whole.effort.left // 2):
                found = _backwards(whole, nets, goal)
                if found is None or whole.run(whole.begin(), found) not in nets:
                    return found
        except SpentError:
            pass
    return search(whole, nets, goal)


def _backwards(whole: NetProduct, nets: Sequence[int], goal: int) -> list[int] | None:
    """Like `search`, but a way may fail if a net is not monotone; that there is no way is certain."""
    at = {net: place for place, net in enumerate(nets)}
    actions = sorted({a for net in nets for a in whole.locals[net].usable} - {goal})
    known = {a: [at[net] for net in whole.nets_of[a] if net in at] for a in {*actions, goal}}
    return cover([whole.demands(net) for net in nets], known, actions, goal, whole.effort)


def _with_those_left_out(whole: NetProduct, nets: list[int]) -> list[int]:
    """`nets`, and the nets that forbid those of their calls that are known to be impossible."""
    all_of_them = dict.fromkeys(nets)
    for net in nets:
        for action in whole.locals[net].actions:
            if not whole.reached.possible(action):
                all_of_them.update(dict.fromkeys(whole.reached.against(action)))
    return list(all_of_them)


def search(
    whole: NetProduct, nets: Iterable[int], goal: int, *, refusing: int | None = None
) -> list[int] | None:
    """Shortest way to `goal` under `nets` alone, best first; `None` if there is none.

    With `refusing`, the way leads to a state in which that net, and no other, blocks `goal`. A state is
    dropped if a state that is nowhere worse was reached in no more calls. Raises `SpentError`.
    """
    effort = whole.effort
    order = list(nets)
    here = set(order)
    willing = [net for net in order if net != refusing]
    usable = {a for net in order for a in whole.locals[net].usable}
    actions = sorted(usable - {goal} if refusing is None else usable)
    known = {a: [n for n in whole.nets_of[a] if n in here] for a in {*actions, goal}}
    start = {net: whole.locals[net].start for net in order}
    first = distance(whole, willing, start, goal)
    if first is None:
        return None
    best = _Seen(whole, order, refusing)
    came: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {}
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
        if all((whole.locals[n].step(state[n], goal) == BLOCKED) == (n == refusing) for n in known[goal]):
            return [*_trace(key, came), goal]
        effort.charge(len(actions) + len(order))
        for action in actions:
            moved = _moved(whole, state, known[action], action)
            if moved is None:
                continue
            after = tuple(moved[net] for net in order)
            if depth.get(after, taken + 2) <= taken + 1 or best.has(after, taken + 1):
                continue
            further = distance(whole, willing, moved, goal)
            effort.charge(2 * len(order))
            if further is None:
                continue
            depth[after] = taken + 1
            came[after] = (key, action)
            count += 1
            heappush(heap, (taken + 1 + further, -(taken + 1), count, after))
    return None


class _Seen:
    """States that were expanded, for dropping states that can do no more."""

    COMPARED = 64

    def __init__(self, whole: NetProduct, order: list[int], refusing: int | None) -> None:
        self._effort = whole.effort
        self._locals = [whole.locals[net] for net in order]
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
    whole: NetProduct, state: dict[int, int], nets: list[int], action: int
) -> dict[int, int] | None:
    """State after `action`; `None` if it is blocked or changes nothing."""
    moved: dict[int, int] | None = None
    for net in nets:
        to = whole.locals[net].step(state[net], action)
        if to == BLOCKED:
            return None
        if to != state[net]:
            moved = dict(state) if moved is None else moved
            moved[net] = to
    return moved


def _trace(
    key: tuple[int, ...], came: Mapping[tuple[int, ...], tuple[tuple[int, ...], int]]
) -> list[int]:
    word: list[int] = []
    while key in came:
        key, action = came[key]
        word.append(action)
    return word[::-1]


def _fewest(
    whole: NetProduct, goal: int, nets: Iterable[int], *, searching: bool = True
) -> tuple[int, ...]:
    """Leave out every net without which the goal is still known to be forbidden."""
    needed = list(nets)
    for net in list(needed):
        rest = [other for other in needed if other != net]
        try:
            whole.effort.charge(SPREADING * len(rest))
            with whole.effort.within(MINIMISING):
                if _forbids(whole, rest, goal, searching=searching):
                    needed = rest
        except SpentError:
            if whole.effort.left <= 0:
                break
    return tuple(sorted(needed))


def _forbids(whole: NetProduct, nets: list[int], goal: int, *, searching: bool) -> bool:
    """True if these nets alone are known to forbid the goal. Raises `SpentError`."""
    if not Spread(whole, nets).possible(goal):
        return True
    if not searching:
        return False
    alone, here = whole.part(nets, goal)
    return _decide(alone, range(len(alone.locals)), here) is None


def redundant(whole: NetProduct, net: int, effort: Effort) -> bool:
    """True if all other nets together are known to block every call that `net` blocks.

    `False` also if the effort did not suffice.
    """
    whole.effort.left = effort.left
    try:
        return _redundant(whole, net)
    except SpentError:
        return False
    finally:
        effort.left, whole.effort.left = whole.effort.left, UNBOUNDED


def _redundant(whole: NetProduct, net: int) -> bool:
    local = whole.locals[net]
    others = {n for action in local.usable for n in whole.cone(action)} | {net}
    for goal in local.actions:
        if whole.actions[goal].wait is not None:
            continue
        if not Spread(whole, {*others, *whole.nets_of[goal]} - {net}).possible(goal):
            continue
        if search(whole, sorted(others), goal, refusing=net) is not None:
            return False
    return True
