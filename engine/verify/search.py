"""The shortest way to a call, or the nets that forbid it, or that it was too much to tell.

Where each call is wanted once the answer is read off the nets (`plan`). Otherwise a search starts with
the nets that know the call, tries what it finds on all nets of the cone, adds the net that objects and
searches again; when nothing is left to search, the nets it had to add are the explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

from .local import BLOCKED, TooLargeError
from .whole import Spread, Whole, distance, plan

DEFAULT_EFFORT = 300_000
"""Steps of single nets a question may cost: about a second."""

MINIMISING = 20_000
"""What it may cost to see whether an explanation can do without one of its nets."""


@dataclass(frozen=True, slots=True)
class Word:
    """Actions that lead to the goal, the goal last; `shortest` when no fewer do."""

    actions: tuple[int, ...]
    shortest: bool


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The goal can never be called while the nets at these places are in force; no smaller part of them
    was found to be enough."""

    nets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The effort was spent before there was an answer."""


Found: TypeAlias = Word | Forbidden | GaveUp


@dataclass(slots=True)
class Effort:
    """What is left to spend on one question."""

    left: int

    def spend(self, steps: int) -> bool:
        """Take `steps`; says whether there was enough."""
        self.left -= steps
        return self.left >= 0


def find(whole: Whole, goal: int, effort: int = DEFAULT_EFFORT) -> Found:
    """The shortest way to `goal` from where the nets stand."""
    if not whole.reached.possible(goal):
        return Forbidden(_fewest(whole, goal, whole.reached.against(goal), Effort(0)))
    state = whole.begin()
    try:
        planned = plan(whole, state, goal)
    except TooLargeError:
        planned = None
    fallback: Found = GaveUp()
    if planned is not None and whole.run(state, planned[0]) is None:
        word = tuple(planned[0])
        if len(word) == planned[1]:
            return Word(word, True)
        fallback = Word(word, False)
    found = _refine(whole, goal, Effort(effort))
    return fallback if isinstance(found, GaveUp) else found


def _refine(whole: Whole, goal: int, effort: Effort) -> Found:
    """Search with few nets, adding those that object to what was found."""
    cone = whole.cone(goal)
    chosen = [net for net in cone if net in whole.nets_of[goal]]
    while True:
        found = search(whole, chosen, goal, effort)
        if isinstance(found, GaveUp):
            return found
        if found is None:
            return Forbidden(_fewest(whole, goal, _with_those_left_out(whole, chosen), effort))
        objecting = whole.run(whole.begin(), found)
        if objecting is None:
            return Word(tuple(found), True)
        chosen.append(objecting)


def _with_those_left_out(whole: Whole, nets: list[int]) -> list[int]:
    """`nets` and what forbids the calls of theirs that were not even tried."""
    all_of_them = dict.fromkeys(nets)
    for net in nets:
        for action in whole.locals[net].actions:
            if not whole.reached.possible(action):
                all_of_them.update(dict.fromkeys(whole.reached.against(action)))
    return list(all_of_them)


def search(
    whole: Whole, nets: Iterable[int], goal: int, effort: Effort, *, refusing: int | None = None
) -> list[int] | GaveUp | None:
    """The shortest way to `goal` under `nets` alone, best first; `None` when there is none.

    With `refusing` the way is to where that net, alone of all, blocks `goal`. A state is dropped when one
    that is nowhere worse was reached in no more calls.
    """
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
        if _allows(whole, state, known[goal], goal, refusing):
            return [*_trace(key, came), goal]
        if not effort.spend(len(actions) + len(order)):
            return GaveUp()
        for action in actions:
            moved = _moved(whole, state, known[action], action)
            if moved is None:
                continue
            after = tuple(moved[net] for net in order)
            if depth.get(after, taken + 2) <= taken + 1 or best.has(after, taken + 1):
                continue
            further = distance(whole, willing, moved, goal)
            if not effort.spend(2 * len(order)):
                return GaveUp()
            if further is None:
                continue
            depth[after] = taken + 1
            came[after] = (key, action)
            count += 1
            heappush(heap, (taken + 1 + further, -(taken + 1), count, after))
    return None


class _Seen:
    """States that were gone on from, to drop those that can do no more."""

    COMPARED = 64

    def __init__(self, whole: Whole, order: list[int], refusing: int | None) -> None:
        self._locals = [whole.locals[net] for net in order]
        self._exact = None if refusing is None else order.index(refusing)
        self._states: list[tuple[tuple[int, ...], int]] = []

    def has(self, key: tuple[int, ...], taken: int) -> bool:
        """Whether a state that is nowhere worse was gone on from after no more than `taken` calls."""
        # Only the latest are compared with: a drop is a saving, never needed for a right answer.
        return any(
            calls <= taken
            and (self._exact is None or other[self._exact] == key[self._exact])
            and all(map(lambda local, a, b: local.no_worse(a, b), self._locals, other, key))
            for other, calls in self._states[-self.COMPARED :]
        )

    def take(self, key: tuple[int, ...], taken: int) -> bool:
        """Go on from a state, unless `has` says it is of no use."""
        if self.has(key, taken):
            return False
        self._states.append((key, taken))
        return True


def _allows(
    whole: Whole, state: Mapping[int, int], nets: Iterable[int], action: int, refusing: int | None
) -> bool:
    """Whether all nets let `action` pass, but the refusing one, which must not."""
    return all(
        (whole.locals[net].step(state[net], action) == BLOCKED) == (net == refusing) for net in nets
    )


def _moved(whole: Whole, state: dict[int, int], nets: list[int], action: int) -> dict[int, int] | None:
    """The state after `action`; `None` when it is blocked or changes nothing."""
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


def _fewest(whole: Whole, goal: int, nets: Iterable[int], effort: Effort) -> tuple[int, ...]:
    """Leave out every net without which the goal is still known to be forbidden."""
    needed = list(nets)
    for net in list(needed):
        rest = [other for other in needed if other != net]
        if _forbids(whole, rest, goal, Effort(max(0, min(MINIMISING, effort.left)))):
            needed = rest
    return tuple(sorted(needed))


def _forbids(whole: Whole, nets: list[int], goal: int, effort: Effort) -> bool:
    """Whether these nets alone are known to forbid the goal."""
    if not Spread(whole, nets).possible(goal):
        return True
    if not effort.left:
        return False
    alone, here = whole.part(nets, goal)
    return search(alone, range(len(alone.locals)), here, effort) is None


def redundant(whole: Whole, net: int, effort: Effort) -> bool:
    """Whether all other nets together are known to block whatever `net` blocks.

    `False` also when the effort did not suffice to know.
    """
    local = whole.locals[net]
    others = {n for action in local.usable for n in whole.cone(action)} | {net}
    for goal in local.actions:
        if not Spread(whole, others - {net}).possible(goal):
            continue
        if search(whole, sorted(others), goal, effort, refusing=net) is not None:
            return False
    return True
