"""Agents as nodes: their prompts, models and tools (sections 8 and 9 of the specification)."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, TypeVar, cast

from pydantic import BaseModel

from ...agents.models.base import Model
from ...agents.tool import Tool
from ..context import Context
from ..errors import BuildError

I = TypeVar("I", bound=BaseModel)  # noqa: E741 - input and output, as in the specification
O = TypeVar("O", bound=BaseModel)  # noqa: E741


@dataclass(frozen=True)
class AgentConfig:
    """Prompt, model, tools and limits of an agent.

    `model` is a URL (`openai://gpt-4o`), a name as used by litellm, or a model object. Without `tools`,
    the model answers with the output as JSON; with tools, it submits the output with a further tool named
    `exit_name`. `on_text` handles plain text in place of a call: the model is reminded, or the step
    fails. With `tool_errors="raise"`, a tool's failure ends the step instead of going to the model. An
    output that does not fit goes back to the model up to `max_output_retries` times, and so does text.
    After `turn_budget` model calls there is one more, in which the model can only submit its result.
    `tool_budget` limits by name how often each tool runs.
    """

    preamble: str
    model: str | Model
    tools: Sequence[Tool] = ()
    on_text: Literal["retry", "error"] = "retry"
    tool_errors: Literal["result", "raise"] = "result"
    exit_name: str = "submit"
    max_output_retries: int = 2
    turn_budget: int | None = None
    tool_budget: Mapping[str, int] = field(default_factory=dict[str, int])

    def problems(self) -> list[str]:
        """Faults: no model, a tool with the name of the exit, or two with the same name (P-40, P-41)."""
        names = [tool.name for tool in self.tools]
        unknown = [name for name in self.tool_budget if name not in names]
        return [
            *([] if self.model else ["model is empty"]),
            *([f"tool name '{self.exit_name}' is reserved"] if self.exit_name in names else []),
            *(f"duplicate tool name '{n}'" for n in dict.fromkeys(names) if names.count(n) > 1),
            *(f"tool_budget names '{n}', which is not one of its tools" for n in unknown),
            *(
                f"tool_budget of '{n}' is {budget}, expected a number from 0"
                for n, budget in self.tool_budget.items()
                if budget < 0
            ),
            *(
                [f"turn_budget is {self.turn_budget}, expected a number from 1"]
                if self.turn_budget is not None and self.turn_budget < 1
                else []
            ),
        ]


class AgentNode(Generic[I, O]):
    """A node whose work is done by a model; its key is the name of its input.

    Example: `class Summarise(AgentNode[Request, Points])` with a `config`, or with a `configure` that
    returns one for the current value. `configure` is called before every model call and should return the
    same each time.
    """

    config: ClassVar[AgentConfig | None] = None

    def configure(self, value: I, ctx: Context) -> AgentConfig:
        """Return the config for this value."""
        assert self.config is not None
        return self.config

    @classmethod
    def types(cls) -> tuple[type[I], type[O]]:
        """Input and output types, from `AgentNode[…, …]` in its bases. Raises `BuildError`."""
        for base in cls.__mro__:
            for generic_base in getattr(base, "__orig_bases__", ()):
                type_arguments = typing.get_args(generic_base)
                is_agent_node = typing.get_origin(generic_base) is AgentNode
                if is_agent_node and not any(isinstance(each, TypeVar) for each in type_arguments):
                    return cast("tuple[type[I], type[O]]", type_arguments)
        raise BuildError(f"agent '{cls.__name__}': write its types, as in AgentNode[Request, Points]")

    @classmethod
    def configures(cls) -> bool:
        """Return whether its config is known only once it has its value."""
        return any("configure" in vars(base) for base in cls.__mro__ if base is not AgentNode)

    @classmethod
    def check_config(cls) -> None:
        """Raise `BuildError` for an agent with neither `config` nor `configure`."""
        if cls.config is None and not cls.configures():
            raise BuildError(f"agent '{cls.__name__}': has neither config nor configure(value, ctx)")
