"""Decisions that a `tool_call` listener may give."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeAlias, cast

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from .messages import Frozen, Text


class Allow(Frozen):
    """Run the call as it is; later listeners are not asked."""


class Deny(Frozen):
    """Do not run the call; `reason` goes to the model."""

    reason: Text = ""


class Override(Frozen):
    """Run the call with other arguments, checked against the tool's parameters like the model's own."""

    args: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


Decision: TypeAlias = Allow | Deny | Override | None

_args: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def as_decision(answer: object) -> Decision:
    """A listener's answer as a decision; `{"deny": …}` and `{"args": …}` are read, deny first (A-42).

    Raises `TypeError` for anything else: nothing is approved by mistake (A-44).
    """
    match answer:
        case None | Allow() | Deny():
            return answer
        case Override():
            return Override(args=copy.deepcopy(answer.args))
        case Mapping() if "deny" in answer:
            reason = cast("Mapping[str, object]", answer)["deny"]
            return Deny(reason=reason if isinstance(reason, str) else str(reason))
        case Mapping() if "args" in answer:
            return Override(args=_json_args(cast("Mapping[str, object]", answer)["args"]))
        case _:
            raise TypeError(
                "a tool_call listener must return None, Allow, Deny or Override, "
                f"not {type(answer).__name__}"
            )


def _json_args(value: object) -> dict[str, JsonValue]:
    try:
        return copy.deepcopy(_args.validate_python(value))
    except ValidationError as error:
        raise TypeError(f"a tool_call listener's args must be a JSON object: {error}") from error
