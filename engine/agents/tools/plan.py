"""The `plan` tool: the calls that an agent intends to make, for people to approve together.

It has no effect of its own. Its call passes the gate like any other. An approved plan allows calls for
which the rules would otherwise have required approval one by one (G-108).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from ...core.plan import (
    FIELD_TEXTS,
    LONGEST_CONDITION,
    LONGEST_NAME,
    LONGEST_TITLE,
    MOST_CALLS,
    MOST_EFFECTS,
    MOST_STEPS,
    PLAN,
    PLAN_DESCRIPTION,
    PLAN_NOTED,
)
from ...net.net import SkillNet
from ..tool import Tool, ToolContext, ToolInput, ToolOutput, define_tool

_Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class StepInput(ToolInput):
    """A tool, how often it will be called, and a condition that the calls meet."""

    tool: Annotated[_Name, Field(description=FIELD_TEXTS["tool"])]
    count: Annotated[int, Field(ge=1, le=MOST_CALLS, description=FIELD_TEXTS["count"])] = 1
    when: Annotated[str | None, Field(max_length=LONGEST_CONDITION, description=FIELD_TEXTS["when"])] = (
        None
    )
    effects: Annotated[
        tuple[_Name, ...], Field(max_length=MOST_EFFECTS, description=FIELD_TEXTS["effects"])
    ] = ()


class PlanInput(ToolInput):
    """A title, and the steps in their order."""

    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE, description=FIELD_TEXTS["title"])]
    steps: Annotated[list[StepInput], Field(min_length=1, max_length=MOST_STEPS)]


async def _run(args: PlanInput, ctx: ToolContext) -> ToolOutput:
    return ToolOutput(PLAN_NOTED)


PlanTool = define_tool(PLAN, PLAN_DESCRIPTION, PlanInput, _run)


def asks_about_plans(nets: Iterable[SkillNet]) -> bool:
    """Return whether a net requires approval of `plan`; only then can an approved plan allow anything."""
    return any(t.type == "manual" and PLAN in t.tools for net in nets for t in net.transitions)


def with_plan_tool(tools: Sequence[Tool], nets: Iterable[SkillNet]) -> tuple[Tool, ...]:
    """Return an agent's tools, with a tool for plans added if the nets require approval of plans.

    The tool is never removed: a model that was shown it reads in its answer what a plan counts for.
    """
    if any(each.name == PLAN for each in tools) or not asks_about_plans(nets):
        return tuple(tools)
    return (*tools, PlanTool)
