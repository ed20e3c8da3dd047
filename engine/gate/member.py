"""One net with its state inside a gate, and what each tool name leads to in it.

A net's verdicts on one name are few and never change, so they are made once: classifying then looks one
up by the marking and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..net import GateState, Marking, NetError, SkillNet, Transition, auto_advance, fire, is_enabled
from . import reasons
from .types import NetVerdict, Step


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A name a net has an opinion on: free, or covered by transitions in definition order.

    `consults` says whether more than the marking may count: a person or a validator.
    """

    free: NetVerdict | None
    gated: tuple[tuple[Transition, NetVerdict], ...]
    blocked: NetVerdict
    consults: bool

    def verdict(self, marking: Marking) -> NetVerdict:
        """Free, else gated by the first enabled transition, else blocked (G-10)."""
        if self.free is not None:
            return self.free
        return self.covered(marking) or self.blocked

    def covered(self, marking: Marking) -> NetVerdict | None:
        """The verdict of the first enabled transition, whether or not the name is free."""
        for transition, verdict in self.gated:
            if is_enabled(marking, transition):
                return verdict
        return None


@dataclass(slots=True)
class Member:
    """A net that a gate holds under `key`; `order` is its place among the active ones."""

    key: str
    net: SkillNet
    state: GateState
    order: int = 0
    knows: dict[str, KnownTool] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys([*self.net.free_tools, *(n for t in self.net.transitions for n in t.tools)])
        self.knows = {name: self._known(name) for name in names}

    def _known(self, tool: str) -> KnownTool:
        key, rule = self.key, self.net.rule
        free = NetVerdict(key, "free", tool, rule=rule) if tool in self.net.free_tools else None
        gated = tuple(
            (t, NetVerdict(key, "gated", tool, (Step(key, t, tool),), rule=rule))
            for t in self.net.transitions
            if tool in t.tools
        )
        validated = self.net.validate_tool_call is not None
        consults = free is None and (validated or any(t.type == "manual" for t, _ in gated))
        return KnownTool(free, gated, self.blocked(tool, reasons.unavailable(self.net, tool)), consults)

    def blocked(self, tool: str, reason: str) -> NetVerdict:
        """A verdict against the call, in this net's name."""
        return NetVerdict(self.key, "blocked", tool, reason=reason, rule=self.net.rule)

    def abstain(self, tool: str) -> NetVerdict:
        return NetVerdict(self.key, "abstain", tool, rule=self.net.rule)

    def verdict(self, names: Sequence[str]) -> NetVerdict:
        """What the net says of a call that goes by all of `names` (G-10, G-50).

        Names are taken in order and together: what an earlier one fires at once is spent for a later
        one. Blocked if any name is blocked, else gated if any is gated, else free, else abstain.
        """
        if len(names) == 1:
            known = self.knows.get(names[0])
            return known.verdict(self.state.marking) if known else self.abstain(names[0])
        return self._joint_verdict([name for name in names if name in self.knows], names[0])

    def _joint_verdict(self, names: Sequence[str], called: str) -> NetVerdict:
        marking = self.state.marking
        gated: list[NetVerdict] = []
        free: NetVerdict | None = None
        for name in names:
            verdict = self.knows[name].verdict(marking)
            if verdict.kind == "blocked":
                return verdict
            if verdict.kind == "free":
                free = free or verdict
                continue
            gated.append(verdict)
            try:
                marking = self.after(marking, verdict.steps)
            except NetError as problem:
                return self.blocked(name, reasons.cannot_fire(self.key, problem))
        if not gated:
            return free or self.abstain(called)
        if len(gated) == 1:
            return gated[0]
        steps = tuple(step for verdict in gated for step in verdict.steps)
        return NetVerdict(self.key, "gated", gated[0].tool, steps, rule=self.net.rule)

    def after(self, marking: Marking, steps: Iterable[Step]) -> Marking:
        """The marking once the steps that fire at the call have fired; deferred ones wait.

        Raises `NetError` when one is not enabled or the net does not come to rest.
        """
        for step in steps:
            if not step.transition.deferred:
                marking = auto_advance(self.net, fire(marking, step.transition))
        return marking
