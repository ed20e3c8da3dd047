"""Sessions with an approved plan."""

from __future__ import annotations

from typing import Any

from interlock.engine import GateDecision, GateManager
from interlock.rules import condition_of

from .helpers import registry
from .ruled import Asker, yes

ASKED = "require human-approval before plan\n"


def step(tool: str, count: int = 1, **parts: Any) -> dict[str, object]:
    """A step as an agent writes it."""
    return {"tool": tool, "count": count, **parts}


def planning(rules: str, **options: Any) -> GateManager:
    """A gate under `rules` that asks about plans and can read conditions."""
    return registry(ASKED + rules, conditions=condition_of, **options)


async def plan(decide: Asker, *steps: dict[str, object], answer: Any = None) -> GateDecision:
    """Make a plan that is approved and return its decision."""
    return await decide("plan", answer or yes(), title="Release", steps=list(steps))


async def planned(rules: str, *steps: dict[str, object], answer: Any = None, **options: Any) -> Asker:
    """A session in which a plan was approved."""
    decide = Asker(planning(rules, **options))
    decision = await plan(decide, *steps, answer=answer)
    assert decision.outcome == "allow", decision.reason
    return decide


def uses_left(gate: GateManager) -> dict[str, int]:
    """Return the remaining uses of each grant."""
    return {key: state.marking["granted"] for key, state in gate.grant_states.items()}
