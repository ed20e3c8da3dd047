"""From the subagents of a spec to tools of its agent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..engine.agents import Agent, AgentError, LitellmModel, Model, Runtime, Tool, task_tool
from .agent_spec import AgentSpec, AgentSpecError, SubagentSpec
from .agent_tools import named_tools

MAX_STEPS = 50
"""A task is smaller than what a person asks for: fewer steps than an agent has."""


@dataclass(frozen=True, slots=True)
class Subagent:
    """A subagent whose model and tools are there; without a model it gets that of the agent."""

    name: str
    spec: SubagentSpec
    model: Model | None
    tools: tuple[Tool, ...]

    def as_tool(self, model: Model, runtime: Runtime) -> Tool:
        """The tool by which an agent with `model` and `runtime` has this one do tasks."""
        agent = Agent(
            self.model or model,
            name=self.name,
            system_prompt=self.spec.system_prompt,
            tools=self.tools,
            runtime=runtime,
            max_steps=self.spec.limits.max_steps or MAX_STEPS,
            max_cost=self.spec.limits.max_cost,
        )
        return task_tool(agent, description=self.spec.description)


def prepare_subagents(spec: AgentSpec) -> tuple[Subagent, ...]:
    """The subagents of `spec`. Raises `AgentSpecError` with every problem of theirs."""
    problems: list[str] = []
    made: list[Subagent] = []
    for name, each in spec.subagents.items():
        where = f"subagents.{name}"
        model: Model | None = None
        tools: tuple[Tool, ...] = ()
        try:
            model = _model(each)
        except AgentError as error:
            problems.append(f"{where}.model: {error}")
        try:
            tools = named_tools(
                each.tools, spec.import_from, where=f"{where}.tools", private=spec.web_fetch.private
            )
        except AgentSpecError as error:
            problems.extend(error.problems)
        made.append(Subagent(name, each, model, tools))
    if problems:
        raise AgentSpecError(problems)
    return tuple(made)


def clashes(spec: AgentSpec, tools: Iterable[str]) -> list[str]:
    """A problem for each of an agent's tools that has the name of a subagent's."""
    subagents = {f"task_{name}": name for name in spec.subagents}
    return [
        f"subagents.{subagents[tool]}: the agent has a tool {tool} already; "
        "take it out of the agent's tools, or rename the subagent"
        for tool in tools
        if tool in subagents
    ]


def _model(spec: SubagentSpec) -> Model | None:
    if spec.model is None:
        return None
    model = LitellmModel(spec.model, api_base=spec.api_base)
    model.check_environment()
    return model
