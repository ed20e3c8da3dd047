"""LAWS of plans: the gate is compared with one without the plan whose approver decides call by call.

A call covered by the plan would pass with a single approval of that call. No more calls are covered than
the step has or the forecast said. All other calls have the same outcome as without the plan.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from interlock.engine import ApprovalAnswer, GateContext, GateManager, ToolCall, ToolResult
from interlock.engine.core.condition import NOWHERE, holds
from interlock.engine.core.plan import PlanStep, read_plan
from interlock.engine.core.rule import ApprovalRule
from interlock.engine.gate import GateDecision
from interlock.engine.gate.types import ApprovalRequest
from interlock.rules import condition_of

from ....support.laws import examples
from ..support.planning import planning

ASKING = (
    "require human-approval before deploy",
    'require human-approval before deploy when input.env = "prod"',
    'require human-approval before deploy when input.env = "test"',
    "require human-approval before deploy no grants",
    "require human-approval before deploy by 1 of ops",
    "require human-approval before deploy not by author",
    "require human-approval before push",
    "require human-approval before push risk high",
    "require human-approval before push with passkey",
    "require 2 human-approvals before push",
    "require human-approval before bash",
    "map bash.command ./deploy as deploy\nrequire human-approval before deploy",
    "map bash.command push as push\nrequire human-approval before push",
)
OTHERS = (
    "require human-approval before anything-else",
    "require human-approval before unclear",
    "after test require human-approval before deploy",
    "block deploy after test until human-approval",
    "require test before deploy",
    "limit deploy to 2 per session",
    "limit push to 1 per test",
    "limit bash to 3 per session",
    'block deploy when input.env = "prod"',
    "block push",
    "map bash.command ./deploy as deploy",
    "map bash.command push as push",
)
TOOLS = ("deploy", "deploy", "deploy", "push", "bash", "bash", "test", "Deploy", "other")
COMMANDS = ("./deploy", "./deploy x; push y", "push y", "push y > f", "$(x)", "ls", "deploy", "push; ls")
WHENS = (
    'input.env = "prod"',
    'input.env = "test"',
    'not input.env = "prod"',
    'input.command = "./deploy"',
    'input.command contains "deploy"',
)

ENVS = ("prod", "test", None)

Call: TypeAlias = tuple[str, dict[str, object], bool, str]
"""A call: tool, input, whether it fails, and the prefix of its id."""


def some_step(random: Random) -> dict[str, Any]:
    """Return a step; some have a condition or effects."""
    tool = random.choice(TOOLS)
    made: dict[str, Any] = {"tool": tool, "count": random.randint(1, 3)}
    if random.random() < 0.3:
        made["when"] = random.choice(WHENS[-2:] if tool == "bash" else WHENS[:-2])
    if random.random() < 0.5:
        made["effects"] = random.sample(("deploy", "push"), random.randint(1, 2))
    return made


def some_call(random: Random, tools: Sequence[str]) -> Call:
    """Return a call, mostly of a tool in the plan."""
    tool = random.choice(tools)
    value: dict[str, object] = {}
    if (env := random.choice(ENVS)) is not None:
        value["env"] = env
    if tool == "bash" or random.random() < 0.1:
        value["command"] = random.choice(COMMANDS)
    return tool, value, random.random() < 0.3, "child/" if random.random() < 0.1 else ""


@dataclass
class Person:
    """An approver who allows everything or nothing alone; `asked` holds the requests of one call."""

    approves: bool
    groups: tuple[str, ...]

    def __post_init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return ApprovalAnswer(self.approves, by="maria", groups={"maria": self.groups})

    @property
    def context(self) -> GateContext:
        return GateContext(confirm=self)


def is_for_one(request: ApprovalRequest) -> bool:
    """Return whether one approver of a plan may stand for an answer to this request."""
    rule, terms = request.rule, request.approvers
    strict = isinstance(rule, ApprovalRule) and (not rule.may_grant or rule.risk == "high")
    return request.people == 1 and not strict and terms.author and not terms.passkey


def is_of(step: PlanStep, call: ToolCall, names: tuple[str, ...]) -> bool:
    """Return whether a call belongs to a step."""
    meets = step.when is None or holds(step.when, call.input, NOWHERE) is True
    return call.tool_name == step.tool and {*names} <= step.names and meets


def markings(gate: GateManager) -> dict[str, dict[str, int]]:
    return {key: dict(state.marking) for key, state in gate.states.items()}


def settle(gate: GateManager, decision: GateDecision, *, fails: bool) -> None:
    call = decision.call
    gate.handle_tool_result(ToolResult(call.tool_call_id, call.tool_name, call.input, fails))


async def law(rules: str, plan: dict[str, Any], calls: Sequence[Call], groups: tuple[str, ...]) -> int:
    """Run `calls` with and without the plan; return the number of calls that the plan covered."""
    gate, plain = planning(rules), planning(rules)
    made = ToolCall("plan-call", "plan", plan)
    foreseen: Counter[str] = Counter()
    for each in gate.plan_forecast(plan):
        foreseen[each.step.tool] += each.most
    decisions = [
        await each.handle_tool_call(made, Person(True, groups).context) for each in (gate, plain)
    ]
    assert decisions[0].gave == decisions[1].gave
    plain.restore(grants=[])
    steps = gate.grants
    used: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for number, (tool, value, fails, origin) in enumerate(calls):
        call = ToolCall(f"{origin}c{number}", tool, value)
        decision = await gate.handle_tool_call(call, Person(False, groups).context)
        person = Person(bool(decision.granted), groups)
        other = await plain.handle_tool_call(call, person.context)
        assert other.outcome == decision.outcome, (decision, other)
        assert markings(gate) == markings(plain)
        if decision.outcome == "allow":
            if decision.granted:
                assert not origin
                assert person.asked
                assert all(map(is_for_one, person.asked))
                for key in decision.granted:
                    step = steps[key]
                    own = PlanStep(
                        tool, step.terms.uses or 0, step.planned and step.planned.when, step.names
                    )
                    assert is_of(own, call, decision.names)
                assert any(is_of(s, call, decision.names) for s in read_plan(plan, condition_of).steps)
                passed[tool] += 1
            used.update(decision.granted)
            settle(gate, decision, fails=fails)
            settle(plain, other, fails=fails)
        assert all(used[key] <= (steps[key].terms.uses or 0) for key in used)
        left = {key: state.marking["granted"] for key, state in gate.grant_states.items()}
        assert left == {key: (steps[key].terms.uses or 0) - used[key] for key in steps}
    most = read_plan(plan, condition_of).calls
    assert all(passed[tool] <= min(most.get(tool, 0), foreseen[tool]) for tool in passed)
    return sum(passed.values())


class TestLaws:
    def test_plan_allows_only_what_its_approver_could(self) -> None:
        """LAW (G-109): the comparison holds for random rules, plans and calls."""
        passed = 0
        tried = examples(4_000, usual=160)
        for seed in range(tried):
            random = Random(seed)
            lines = random.sample(ASKING, random.randint(1, 4)) + random.sample(
                OTHERS, random.randint(0, 2)
            )
            steps = [some_step(random) for _ in range(random.randint(1, 3))]
            tools = (*(step["tool"] for step in steps), *TOOLS)
            calls = [some_call(random, tools) for _ in range(16)]
            rules = "".join(f"{line}\n" for line in lines)
            groups = random.choice(((), ("ops",)))
            try:
                passed += asyncio.run(law(rules, {"title": "x", "steps": steps}, calls, groups))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {rules}{steps}") from error
        assert passed > tried // 8, "plans that let nothing pass prove nothing"
