"""Managers of rules with conditions, approvers and times, made without the rules language."""

from __future__ import annotations

from typing import Any

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    GateDecision,
    GateManager,
    SkillNet,
    create_gate_manager,
)
from interlock.engine.core.condition import Compare, Condition
from interlock.engine.core.rule import ApprovalRule, BlockRule, LimitRule, Rule, RuleSource, SequenceRule
from interlock.engine.gate import GrantTerms
from interlock.engine.net.net import CallNames
from interlock.rules.nets import build_net

from .helpers import Operator, call

HOUR = 3600.0


class Clock:
    """A clock that moves only when told to, and counts its reads."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now


def is_(name: str, value: Any) -> Compare:
    return Compare((name,), "=", value)


def approval(tool: str = "deploy", **parts: Any) -> ApprovalRule:
    return ApprovalRule(tool, **parts)


def block(tool: str, when: Condition | None = None) -> BlockRule:
    return BlockRule(tool, when=when)


def limit(tool: str, count: int, window: float | None = HOUR, when: Condition | None = None) -> LimitRule:
    return LimitRule(tool, count, "1h" if window else "session", window=window, when=when)


def sequence(first: str, then: str, when: Condition | None = None) -> SequenceRule:
    return SequenceRule(first, then, when=when)


def at(line: int) -> RuleSource:
    return RuleSource("deploy.rules", line, 1, "…")


def nets_of(*rules: Rule, names: CallNames | None = None) -> list[SkillNet]:
    return [build_net(rule, names) for rule in rules]


def gate_of(*rules: Rule, names: CallNames | None = None, **options: Any) -> GateManager:
    """A static manager of the nets of rules."""
    return create_gate_manager(nets_of(*rules, names=names), **options)


def yes(by: str | None = "maria", **parts: Any) -> ApprovalAnswer:
    return ApprovalAnswer(True, by=by, **parts)


def granting(
    scope: Any = "names", uses: int | None = None, seconds: float | None = None
) -> ApprovalAnswer:
    return yes(grant=GrantTerms(scope, uses, seconds))


class Asker:
    """Decide calls one after the other, each under a new id, with prepared answers.

    `asked` holds the requests of the last call.
    """

    def __init__(self, gate: GateManager) -> None:
        self.gate = gate
        self.asked: list[ApprovalRequest] = []
        self._count = 0

    async def __call__(self, tool: str, *answers: bool | ApprovalAnswer, **value: object) -> GateDecision:
        self._count += 1
        operator = Operator(*answers) if answers else Operator(ApprovalAnswer(False, "nobody answers"))
        self.asked = operator.asked
        return await self.gate.handle_tool_call(call(tool, f"c{self._count}", **value), operator.context)
