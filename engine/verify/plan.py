"""Where calls are wanted, judged net by net: a plan of them, and how many there must be at least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .local import TooLargeError
from .whole import Whole


def plan(whole: Whole, state: Mapping[int, int], goal: int) -> tuple[list[int], int] | None:
    """Calls that each net by itself wants before `goal`, each once, those first that others wait for.

    Returns them with `goal` at the end, and how many of them every way to `goal` must contain: when all,
    and the nets agree, there is no shorter way. `None` when each waits for another, or one is out of
    reach. Raises `TooLargeError` and `SpentError`.
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


def first_plan(whole: Whole, goal: int) -> tuple[list[int], int] | None:
    """`plan` from the start; the last one is remembered: a tool's way and its most ask for the same."""
    if whole.planned is None or whole.planned[0] != goal:
        whole.planned = goal, plan(whole, whole.begin(), goal)
    return whole.planned[1]


def distance(whole: Whole, nets: Iterable[int], state: Mapping[int, int], goal: int) -> int | None:
    """How many calls every way to and with `goal` takes at least; `None`: there is no way.

    Counts the calls no way can do without, judged net by net. `None` also when two of them each have to
    come before the other. Raises `SpentError`.
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
