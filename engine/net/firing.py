"""Transitions that a call by one name fires in a net: one, or a chain that begins with partial ones.

Pure, like `net`. The gate and verification both use it, so that what is proved is what happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .net import Marking, NetError, SkillNet, Transition, auto_advance, fire, is_enabled

LONGEST = 1_000
"""Most partial transitions that one call may fire in a row; a longer chain blocks the call."""


def passage(net: SkillNet, marking: Mapping[str, int], name: str) -> tuple[Transition, ...] | None:
    """Transitions that a call by `name` fires at `marking`, in order; `None` if the net blocks it.

    The first enabled transition for the name is chosen. While the chosen one is partial, it fires,
    structural transitions follow, and the first enabled one is chosen again; so only the last is not
    partial. `None` if nothing is enabled then, if a marking repeats, if the net does not come to rest, or
    beyond `LONGEST`.
    """
    return chain(net, marking, [t for t in net.transitions if name in t.tools])


def chain(
    net: SkillNet, marking: Mapping[str, int], covering: Sequence[Transition]
) -> tuple[Transition, ...] | None:
    """Like `passage`, given the transitions for the name in definition order."""
    chosen = _first(marking, covering)
    if chosen is None:
        return None
    if not chosen.partial:
        return (chosen,)
    now: Marking = {**dict.fromkeys(net.places, 0), **marking}
    markings = {tuple(now.values())}
    steps = [chosen]
    while chosen.partial:
        if len(steps) > LONGEST:
            return None
        try:
            now = auto_advance(net, fire(now, chosen))
        except NetError:
            return None
        key = tuple(now.values())
        if key in markings:
            return None
        markings.add(key)
        chosen = _first(now, covering)
        if chosen is None:
            return None
        steps.append(chosen)
    return tuple(steps)


def _first(marking: Mapping[str, int], covering: Sequence[Transition]) -> Transition | None:
    for transition in covering:
        if is_enabled(marking, transition):
            return transition
    return None
