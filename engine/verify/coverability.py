"""Backward coverability: the demands before a call, then before the calls that meet these, and so on.

Only the weakest demands are kept. There are finitely many of these, so the search ends even for nets with
infinitely many states, including those with transfers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from .budget import Effort
from .demands import Demand, Demands

Joint: TypeAlias = tuple[Demand | None, ...]
"""One demand for each net."""


@dataclass(frozen=True, slots=True)
class _CoverStep:
    """Demand that must be met so that `action` leads on to `then`."""

    demand: Joint
    action: int
    then: _CoverStep | None


def cover(
    nets: Sequence[Demands],
    nets_of: Mapping[int, Sequence[int]],
    actions: Collection[int],
    goal: int,
    effort: Effort,
) -> list[int] | None:
    """Shortest way to `goal`, including it, that the nets' demands admit; `None` if there is none.

    `nets_of` has the positions of each action's nets; `actions` may be called before the goal. Raises
    `SpentError`.
    """
    using: dict[int, list[int]] = {}
    for action in actions:
        for net in nets_of[action] if action != goal else ():
            using.setdefault(net, []).append(action)
    weakest: list[Joint] = []
    waiting: deque[_CoverStep] = deque()

    def add(demands: Iterable[Joint], action: int, following: _CoverStep | None) -> _CoverStep | None:
        for demand in demands:
            effort.charge(4 + len(weakest))
            if any(_weaker(nets, other, demand) for other in weakest):
                continue
            found = _CoverStep(demand, action, following)
            if all(d is None or net.met(d) for net, d in zip(nets, demand, strict=True)):
                return found
            # Waiting demands are still expanded: a stronger demand may be met in fewer calls.
            weakest[:] = [other for other in weakest if not _weaker(nets, demand, other)]
            weakest.append(demand)
            waiting.append(found)
        return None

    reached = add(_before(nets, nets_of[goal], goal, (None,) * len(nets), effort), goal, None)
    while waiting and reached is None:
        at = waiting.popleft()
        concerned = [net for net, demand in enumerate(at.demand) if demand is not None]
        useful = dict.fromkeys(action for net in concerned for action in using.get(net, ()))
        effort.charge(1 + len(useful))
        for action in useful:
            reached = add(_before(nets, nets_of[action], action, at.demand, effort), action, at)
            if reached is not None:
                break
    if reached is None:
        return None
    word: list[int] = []
    step: _CoverStep | None = reached
    while step is not None:
        word.append(step.action)
        step = step.then
    return word


def _before(
    nets: Sequence[Demands], concerned: Sequence[int], action: int, after: Joint, effort: Effort
) -> list[Joint]:
    """Joint demands before a call that moves several nets at once."""
    choices: list[list[Demand | None]] = []
    count = 1
    for net in concerned:
        demands = nets[net].before(action, after[net])
        if not demands:
            return []
        choices.append(demands)
        count *= len(demands)
    effort.charge(count * (2 + len(nets) // 8))
    found: list[Joint] = []
    for chosen in product(*choices):
        joint = list(after)
        for net, demand in zip(concerned, chosen, strict=True):
            joint[net] = demand
        found.append(tuple(joint))
    return found


def _weaker(nets: Sequence[Demands], demand: Joint, other: Joint) -> bool:
    """True if every state that meets `other` also meets `demand`."""
    for net, mine, theirs in zip(nets, demand, other, strict=True):
        if mine is None or mine == theirs:
            continue
        if theirs is None or not net.weaker(mine, theirs):
            return False
    return True
