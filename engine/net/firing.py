"""Transitions that a call by one name fires in a net: one, or a chain that begins with partial ones.

Pure, as `net` is. The gate and verification both go by it, so that what is proved is what happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .net import Marking, NetError, SkillNet, Transition, auto_advance, fire, is_enabled

LONGEST = 1_000
"""Partial transitions that one call may fire one after the other; a longer chain lets nothing pass."""


def passage(net: SkillNet, marking: Mapping[str, int], name: str) -> tuple[Transition, ...] | None:
    """The transitions a call by `name` fires at `marking`, in order; `None` when the net blocks it.

    The first enabled transition for the name is taken. While that is partial it fires, structural ones
    follow, and the first enabled one is taken again, so only the last is not partial. `None` when nothing
    is enabled then, when a marking comes back, when the net does not come to rest, or beyond `LONGEST`.
    """
    return chain(net, marking, [t for t in net.transitions if name in t.tools])


def chain(
    net: SkillNet, marking: Mapping[str, int], covering: Sequence[Transition]
) -> tuple[Transition, ...] | None:
    """As `passage`, with the transitions for the name, in definition order, at hand."""
    chosen = _first(marking, covering)
    if chosen is None:
        return None
    if not chosen.partial:
        return (chosen,)
    now: Marking = {**dict.fromkeys(net.places, 0), **marking}
    seen = {tuple(now.values())}
    steps = [chosen]
    while chosen.partial:
        if len(steps) > LONGEST:
            return None
        try:
            now = auto_advance(net, fire(now, chosen))
        except NetError:
            return None
        key = tuple(now.values())
        if key in seen:
            return None
        seen.add(key)
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
