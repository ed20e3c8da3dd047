"""What tools say of themselves, as nets: one that wants to be approved is, whatever the rules say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from .agents import Agent, Tool
from .agents.subagents import TaskTool
from .agents.tool import wants_approval
from .net import CallNames, SkillNet, ToolCall, Transition, define_skill_net
from .records import json_input


def with_hints(registry: Mapping[str, SkillNet], agent: Agent) -> dict[str, SkillNet]:
    """`with_wishes` of all tools of `agent` and of its subagents."""
    return with_wishes(registry, _tools(agent, set()))


def with_wishes(registry: Mapping[str, SkillNet], tools: Iterable[Tool]) -> dict[str, SkillNet]:
    """`registry`, and a net for each of `tools` that has `needs_approval`.

    Its name is that of the rule `require human-approval before TOOL`; where the registry has that, it
    suffices. A hint that depends on the input gates only calls for which it holds, or which it cannot
    judge.
    """
    nets = dict(registry)
    for tool in tools:
        key = f"approve-before-{tool.name}"
        if key not in nets and getattr(tool, "needs_approval", False):
            nets[key] = _net(key, tool)
    return nets


def hinted(registry: Mapping[str, SkillNet], nets: Mapping[str, SkillNet]) -> tuple[str, ...]:
    """The keys that `with_hints` has added."""
    return tuple(key for key in nets if key not in registry)


def _tools(agent: Agent, seen: set[int]) -> Iterator[Tool]:
    if id(agent) in seen:
        return
    seen.add(id(agent))
    for tool in agent.tools:
        yield tool
        if isinstance(tool, TaskTool) and tool.agent is not None:
            yield from _tools(tool.agent, seen)


def _net(key: str, tool: Tool) -> SkillNet:
    conditional = callable(getattr(tool, "needs_approval", False))
    asking = f"{tool.name} (wants approval)" if conditional else tool.name
    return define_skill_net(
        key,
        places=("ready",),
        transitions=(Transition("approve", ("ready",), ("ready",), (asking,), type="manual"),),
        initial_marking={"ready": 1},
        call_names=_namer(tool, asking) if conditional else None,
    )


def _namer(tool: Tool, asking: str) -> CallNames:
    def names(call: ToolCall) -> tuple[str, ...]:
        if call.tool_name != tool.name:
            return (call.tool_name,)
        args: dict[str, JsonValue] = json_input(call.input)
        return (asking, tool.name) if wants_approval(tool, args) else (tool.name,)

    return names
