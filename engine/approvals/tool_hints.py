"""Tools' own need for approval, as nets: their calls need approval under any rules.

A rule replaces a tool's own need if it requires approval for each call of the tool by the tool's own
name. A rule with a condition does so only for the calls that need approval under it; other calls need
approval by the tool. A rule for a name that a map gives some calls, or for `tool.action`, counts for that
name only. Switching off a rule that replaces a tool's own need switches off both.
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
    """Apply `with_wishes` for all tools of `agent` and of its subagents."""
    return with_wishes(registry, _tools(agent, set()))


def with_wishes(registry: Mapping[str, SkillNet], tools: Iterable[Tool]) -> dict[str, SkillNet]:
    """Return `registry` with a net for each of `tools` that has `needs_approval` and no rule for it.

    The net has the name of the rule `require human-approval before TOOL`, and the key of another such
    rule (G-43). A `needs_approval` that depends on the input gates only calls for which it is true, or
    which it cannot judge. If several tools have the same name, any of them is enough.
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
    """Return the keys that `with_hints` has added."""
    return tuple(key for key in nets if key not in registry)


def has_approval_rule(registry: Mapping[str, SkillNet], name: str) -> bool:
    """True if a rule, or a net without a rule, requires approval for each call of the tool `name`."""
    return any(_asks_always(net, name) for net in registry.values())


def approval_conditions(registry: Mapping[str, SkillNet], name: str) -> tuple[Condition, ...]:
    """Return the conditions of the rules that require approval for some calls of the tool `name`."""
    rules = [net.rule for net in registry.values()]
    found = [rule for rule in rules if isinstance(rule, ApprovalRule) and rule.tool == name]
    return tuple(rule.when for rule in found if rule.when is not None and rule.after is None)


def surely_needs_approval(conditions: Iterable[Condition], call: ToolCall) -> bool:
    """True if a rule with one of `conditions` certainly requires approval of `call`.

    It does unless its condition may be false. Only the session knows where the call's paths lead, what
    was said, who calls, and what a server claims about the tool.
    """
    return any(False not in _answers(each, call.input) for each in conditions)


def _answers(condition: Condition, value: Input) -> frozenset[bool | None]:
    """Return every result that a condition may have for an input, in any session."""
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
    """Return the results of `and` (`decisive` is false) or `or` (true), like `condition.holds`."""
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
    """Return the net for `tools`, all called `name`, for calls not covered by rules with `conditions`."""
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
    """Adds the name `asking` to calls of the tools called `name` if one of them needs approval."""

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
