"""Tools by their names in specs: built-in ones, and those of imported modules."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ...engine.agents import Agent, AgentError, LitellmModel, Model, Runtime, Tool, task_tool, tool
from ...engine.agents import tools as ready_made
from ...engine.agents.tool import tool_table
from ..config.paths import is_list, is_table
from .imports import ImportFailedError, import_object
from .spec import AgentSpec, AgentSpecError, SubagentSpec


def ready_made_tools(*, private: bool = False) -> dict[str, Tool]:
    """Return Interlock's built-in tools, by the name that an agent uses.

    With `private`, `web_fetch` may also reach this machine and its network (A-127).
    """
    exported = (getattr(ready_made, name) for name in ready_made.__all__)
    table = tool_table([each for each in exported if hasattr(each, "execute")])
    return {**table, "web_fetch": ready_made.create_web_fetch_tool(private=private)}


def named_tools(
    names: Sequence[str], import_from: Sequence[Path], *, where: str = "tools", private: bool = False
) -> tuple[Tool, ...]:
    """Return the tools called `names`, with `import_from` first on the module path.

    `private` is passed to `ready_made_tools`. Raises `AgentSpecError` with every problem, each prefixed
    with `where`, the place of the names.
    """
    available = ready_made_tools(private=private)
    problems: list[str] = []
    found: list[Tool] = []
    unknown = [name for name in names if ":" not in name and name not in available]
    if unknown:
        those = ", ".join(available)
        problems.append(
            f"{where}: unknown {', '.join(unknown)}; known: {those}, or package.module:function"
        )
    for name in names:
        if name in available:
            found.append(available[name])
        elif ":" in name:
            try:
                found.append(_imported_tool(name, import_from))
            except ValueError as error:
                problems.append(f"{where}: {error}")
    if problems:
        raise AgentSpecError(problems)
    try:
        return tuple(tool_table(found).values())
    except ValueError as error:
        raise AgentSpecError([f"{where}: {error}"]) from error


def _imported_tool(name: str, import_from: Sequence[Path]) -> Tool:
    thing = import_object(name, import_from)
    if all(hasattr(thing, attribute) for attribute in ("name", "description", "parameters", "execute")):
        return cast("Tool", thing)
    if not inspect.isfunction(thing):
        raise ImportFailedError(
            f"{name}: expected a function or a tool made with @tool, found {type(thing).__name__}"
        )
    try:
        return tool(thing)
    except TypeError as error:
        raise ImportFailedError(f"{name}: {error}") from error


# Subagents of a spec as tools of its agent.


MAX_STEPS = 50
"""A task is smaller than a person's request, so a subagent gets fewer steps than an agent."""


@dataclass(frozen=True, slots=True)
class Subagent:
    """A subagent with its tools and its model; without a model it uses the agent's."""

    name: str
    spec: SubagentSpec
    model: Model | None
    tools: tuple[Tool, ...]

    def as_tool(self, model: Model, runtime: Runtime, *, tell_rules: bool = True) -> Tool:
        """Return the tool through which an agent with `model` and `runtime` gives this subagent tasks."""
        agent = Agent(
            self.model or model,
            name=self.name,
            system_prompt=self.spec.system_prompt,
            tools=self.tools,
            runtime=runtime,
            tell_rules=tell_rules,
            max_steps=self.spec.limits.max_steps or MAX_STEPS,
            max_cost=self.spec.limits.max_cost,
        )
        return task_tool(agent, description=self.spec.description)


def prepare_subagents(spec: AgentSpec) -> tuple[Subagent, ...]:
    """Prepare the subagents of `spec`. Raises `AgentSpecError` with all of their problems."""
    problems: list[str] = []
    subagents: list[Subagent] = []
    for name, each in spec.subagents.items():
        place = f"subagents.{name}"
        model: Model | None = None
        tools: tuple[Tool, ...] = ()
        try:
            model = named_model(each.model, each.api_base)
        except AgentError as error:
            problems.append(f"{place}.model: {error}")
        try:
            tools = named_tools(
                each.tools, spec.import_from, where=f"{place}.tools", private=spec.web_fetch.private
            )
        except AgentSpecError as error:
            problems.extend(error.problems)
        subagents.append(Subagent(name, each, model, tools))
    if problems:
        raise AgentSpecError(problems)
    return tuple(subagents)


def clashes(spec: AgentSpec, tools: Iterable[str]) -> list[str]:
    """Return a problem for each of an agent's tools that has the name of a subagent's tool."""
    subagents = {f"task_{name}": name for name in spec.subagents}
    return [
        f"subagents.{subagents[tool]}: the agent has a tool {tool} already; "
        "take it out of the agent's tools, or rename the subagent"
        for tool in tools
        if tool in subagents
    ]


def named_model(name: str | None, api_base: str | None) -> Model | None:
    """Return the model called `name`, whose key is in the environment. Raises `AgentError`."""
    if name is None:
        return None
    model = LitellmModel(name, api_base=api_base)
    model.check_environment()
    return model


# Tools as named on the command line: `a,b,c`, or a JSON file.


class ToolsError(ValueError):
    """A list of tools that cannot be read; the message says what was expected."""


def known_tools(text: str) -> list[str]:
    """Return the names in `a,b,c`, or those in a `.json` file.

    The file holds a list of names or tool descriptions (`{"name": …}`, `{"function": {"name": …}}`), or
    such a list under `tools`. Raises `ToolsError`.
    """
    if not text.lower().endswith(".json"):
        names = [name.strip() for name in text.split(",")]
        return [name for name in dict.fromkeys(names) if name]
    try:
        found: object = json.loads(Path(text).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolsError(f"cannot read the tools in {text}: {reason}") from error
    if is_table(found) and "tools" in found:
        found = found["tools"]
    if not is_list(found):
        raise ToolsError(f'{text} is not a list of tools; write ["bash", "read"]')
    return list(dict.fromkeys(_tool_name(tool, text) for tool in found))


def _tool_name(tool: object, file: str) -> str:
    described = tool
    if is_table(tool):
        inner = tool.get("function")
        described = (inner if is_table(inner) else tool).get("name")
    if not isinstance(described, str) or not described:
        raise ToolsError(f"{file} lists {tool!r:.80}, expected a tool's name or a description with one")
    return described
