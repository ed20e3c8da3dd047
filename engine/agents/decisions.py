"""Decisions on a tool call by listeners and hooks, and the call that may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from pydantic import Field, JsonValue, ValidationError

from ..gate.types import Step
from .messages import Frozen, Text, ToolMessage


class Allow(Frozen):
    """Run the call unchanged; later listeners are not asked."""


class Deny(Frozen):
    """Do not run the call; `reason` goes to the model."""

    reason: Text = ""


class Override(Frozen):
    """Run the call with other arguments, checked against the tool's parameters like the model's own."""

    args: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


Decision: TypeAlias = Allow | Deny | Override | None


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """A call that may run, with approved arguments that fit its tool.

    `args` is never changed: tools, gates, hooks and listeners get copies. `steps` are the gate's moves
    for the call. `started` is false if it is certain that the tool did not start and never will. `note`
    tells the model about edited arguments; `said` is the gate's answer to a plan.
    """

    call_id: str
    name: str
    args: dict[str, JsonValue]
    steps: tuple[Step, ...] = field(default=(), compare=False)
    started: bool = field(default=True, compare=False)
    note: str | None = field(default=None, compare=False)
    said: str | None = field(default=None, compare=False)


ResumedCall: TypeAlias = ApprovedCall | ToolMessage
"""A call of the open step: it continues with these arguments, or has ended with this message."""


def as_decision(answer: object) -> Decision:
    """Convert a listener's answer; `{"deny": …}` and `{"args": …}` are accepted, deny first (A-42).

    Raises `TypeError` for anything else, so that nothing is approved by mistake (A-44).
    """
    match answer:
        case None | Allow() | Deny():
            return answer
        case Override():
            return _override(answer.args)
        case Mapping() if "deny" in answer:
            reason = cast("Mapping[str, object]", answer)["deny"]
            return Deny(reason=reason if isinstance(reason, str) else str(reason))
        case Mapping() if "args" in answer:
            return _override(cast("Mapping[str, object]", answer)["args"])
        case _:
            raise TypeError(
                "a tool_call listener must return None, Allow, Deny or Override, "
                f"not {type(answer).__name__}"
            )


def _override(args: object) -> Override:
    """Return an override with a copy of `args`."""
    try:
        return Override.model_validate({"args": args})
    except ValidationError as error:
        raise TypeError(f"a tool_call listener's args must be a JSON object: {error}") from error
