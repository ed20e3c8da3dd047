"""Tools' own wishes for approval, as nets: calls of a tool that wants approval need it under any rules.

A rule replaces a tool's own wish where it wants approval of each call of that tool, by the name that the
tool has itself. One with a condition does so for the calls that it asks about; any other call needs
approval by the wish. A rule on a name that a map gives some calls, or on `tool.action`, counts for that
name alone. Switching off a rule that replaces a wish switches off both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from pydantic import JsonValue

from ..agents import Tool
from ..agents.session.subagents import TaskTool
from ..agents.tool import wants_approval
from ..core.condition import And, Compare, Condition, Input, Not, Or, comparisons, holds
from ..core.rule import ApprovalRule, always
from ..net.net import SkillNet, ToolCall, Transition, define_skill_net
from ..recording.records import json_input

if TYPE_CHECKING:
    from ..agents import Agent


def with_hints(registry: Mapping[str, SkillNet], agent: Agent) -> dict[str, SkillNet]:
    """`with_wishes` of all tools of `agent` and of its subagents."""
    return with_wishes(registry, _tools(agent, set()))


def with_wishes(registry: Mapping[str, SkillNet], tools: Iterable[Tool]) -> dict[str, SkillNet]:
    """`registry`, and a net for each of `tools` that has `needs_approval` and no rule in its place.

    Its name is that of the rule `require human-approval before TOOL`, and its key that of another such
    rule (G-43). A hint that depends on the input gates only calls for which it holds, or which it cannot
    judge; of tools of one name the wish of any counts.
    """
    nets = dict(registry)
    wishing: dict[str, list[Tool]] = {}
    for tool in tools:
        if getattr(tool, "needs_approval", False):
            wishing.setdefault(tool.name, []).append(tool)
    for name, each in wishing.items():
        if not has_approval_rule(registry, name):
            nets[_free(f"approve-before-{name}", nets)] = _net(
                name, each, approval_conditions(registry, name)
            )
    return nets


def hinted(registry: Mapping[str, SkillNet], nets: Mapping[str, SkillNet]) -> tuple[str, ...]:
    """The keys that `with_hints` has added."""
    return tuple(key for key in nets if key not in registry)


def has_approval_rule(registry: Mapping[str, SkillNet], name: str) -> bool:
    """True if a rule wants approval of each call of the tool `name`, or a net made by hand does."""
    return any(_asks_always(net, name) for net in registry.values())


def approval_conditions(registry: Mapping[str, SkillNet], name: str) -> tuple[Condition, ...]:
    """The conditions of the rules that ask about some calls of the tool `name`."""
    rules = [net.rule for net in registry.values()]
    found = [rule for rule in rules if isinstance(rule, ApprovalRule) and rule.tool == name]
    return tuple(rule.when for rule in found if rule.when is not None and rule.after is None)


def surely_needs_approval(conditions: Iterable[Condition], call: ToolCall) -> bool:
    """True if a rule with one of `conditions` is sure to want approval of `call`.

    It does unless its condition may not hold: where the call's paths lead, what was said, who calls and
    what a server claims of the tool only the session knows.
    """
    return any(False not in _answers(each, call.input) for each in conditions)


def _answers(condition: Condition, value: Input) -> frozenset[bool | None]:
    """Every answer that a condition may have for an input, in any session."""
    match condition:
        case Compare(operator="under" | "from") | Compare(root="session" | "hint"):
            return frozenset((True, False, None))
        case Compare():
            return frozenset((holds(condition, value),))
        case Not(inner=inner):
            return frozenset(None if each is None else not each for each in _answers(inner, value))
        case And(parts=parts):
            return _joined_answers(parts, value, decisive=False)
        case Or(parts=parts):
            return _joined_answers(parts, value, decisive=True)
        case _:
            assert_never(condition)


def _joined_answers(
    parts: Iterable[Condition], value: Input, *, decisive: bool
) -> frozenset[bool | None]:
    """The answers of `and` (`decisive` is false) or `or` (true), as `condition.holds` joins them."""
    found: frozenset[bool | None] = frozenset((not decisive,))
    for part in parts:
        each = _answers(part, value)
        found = frozenset(
            decisive if decisive in (one, other) else None if None in (one, other) else not decisive
            for one in found
            for other in each
        )
    return found


def _asks_always(net: SkillNet, name: str) -> bool:
    if net.rule is not None:
        return isinstance(net.rule, ApprovalRule) and net.rule.tool == name and always(net.rule)
    if net.tool_mapper is not None or net.call_names is not None or net.condition is not None:
        return False
    covering = [each for each in net.transitions if name in each.tools]
    return bool(covering) and name not in net.free_tools and all(t.type == "manual" for t in covering)


def _free(key: str, nets: Mapping[str, SkillNet]) -> str:
    number, found = 1, key
    while found in nets:
        number += 1
        found = f"{key}#{number}"
    return found


def _tools(agent: Agent, visited: set[int]) -> Iterator[Tool]:
    if id(agent) in visited:
        return
    visited.add(id(agent))
    for tool in agent.tools:
        yield tool
        if isinstance(tool, TaskTool) and tool.agent is not None:
            yield from _tools(tool.agent, visited)


def _net(name: str, tools: Sequence[Tool], conditions: Sequence[Condition]) -> SkillNet:
    """The net for the wishes of `tools`, all called `name`, besides rules with `conditions`."""
    always = any(not callable(getattr(tool, "needs_approval", False)) for tool in tools)
    asking = name if always and not conditions else f"{name} (wants approval)"
    on_paths = tuple(
        each for each in conditions if any(part.operator == "under" for part in comparisons(each))
    )
    net = define_skill_net(
        f"approve-before-{name}",
        places=("ready",),
        transitions=(Transition("approve", ("ready",), ("ready",), (asking,), type="manual"),),
        initial_marking={"ready": 1},
        call_names=None if asking == name else _Wished(name, asking, tools, conditions),
        # The gate knows where paths lead: it leaves those calls to the rules.
        condition=Not(on_paths[0] if len(on_paths) == 1 else Or(on_paths)) if on_paths else None,
        governs=(asking,) if on_paths else (),
    )
    return replace(net, wish=True)


class _Wished:
    """Gives calls of the tools called `name` the name `asking` where one of them wants approval."""

    def __init__(
        self, name: str, asking: str, tools: Sequence[Tool], conditions: Sequence[Condition]
    ) -> None:
        self._name, self._asking = name, asking
        self._tools, self._conditions = tools, conditions
        self.renames = frozenset({name})

    def __call__(self, call: ToolCall) -> tuple[str, ...]:
        name = self._name
        if call.tool_name != name:
            return (call.tool_name,)
        args: dict[str, JsonValue] = json_input(call.input)
        wished = any(wants_approval(tool, args) for tool in self._tools)
        return (
            (self._asking, name)
            if wished and not surely_needs_approval(self._conditions, call)
            else (name,)
        )
