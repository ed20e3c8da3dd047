"""Dense sets of hand-built nets, for proofs that enumeration cannot provide."""

from __future__ import annotations

import random

from interlock.engine import SkillNet, Transition, define_skill_net

NETS = 50


def dense(chance: random.Random) -> dict[str, SkillNet]:
    """Return interdependent nets: an unlock is needed for each use, and refilling requires spending.

    Their product has far too many states to enumerate.
    """
    tools = [f"t{i}" for i in range(chance.choice([10, 15, 20, 25]))]
    upward = chance.choice([0.85, 0.97, 1.0])
    nets: dict[str, SkillNet] = {}
    while len(nets) < NETS:
        first, then = sorted(chance.sample(range(len(tools)), 2))
        if chance.random() > upward:
            first, then = then, first
        kind, count = chance.random(), chance.randint(1, 5)
        name = f"n{len(nets)}"
        if kind < 0.7:
            nets[name] = _exchange(name, tools[first], tools[then])
        else:
            nets[name] = _budget(name, tools[first], count, tools[then] if kind > 0.8 else None)
    return nets


def _exchange(name: str, first: str, then: str) -> SkillNet:
    return define_skill_net(
        name,
        places=["shut", "open"],
        transitions=[
            Transition("unlock", ("shut",), ("open",), (first,), deferred=True),
            Transition("use", ("open",), ("shut",), (then,)),
        ],
        initial_marking={"shut": 1},
    )


def _budget(name: str, tool: str, count: int, refill: str | None) -> SkillNet:
    spent = ("spent",) if refill else ()
    back = [Transition("refill", ("spent",), ("left",), (refill,))] if refill else []
    return define_skill_net(
        name,
        places=["left", *spent],
        transitions=[Transition("use", ("left",), spent, (tool,)), *back],
        initial_marking={"left": count},
    )
