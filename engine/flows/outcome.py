"""What a step of a flow comes to; made for `match`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, JsonValue

O_co = TypeVar("O_co", bound=BaseModel, covariant=True)

SuspensionKind: TypeAlias = Literal["tool", "approval", "input", "choice"]


@dataclass(frozen=True, slots=True)
class Continue:
    """The step is done and there are more."""


@dataclass(frozen=True, slots=True)
class Done(Generic[O_co]):
    """The flow has ended; asked again, it says the same."""

    output: O_co


@dataclass(frozen=True, slots=True)
class Suspended:
    """The flow waits for somebody; `resume` with `tool_id` and an answer goes on.

    `value` is what to show. `kind` says what the answer has to be: the result of a tool that asks
    (`tool`), whether a call may run (`approval`, P-82), a model's JSON (`input`, of the JSON Schema
    `expects`), or one of several choices (`choice`). `call_id` and `args` tell calls of one tool apart
    (P-76); `agent` is the node that waits.
    """

    value: JsonValue
    tool_id: str
    call_id: str | None = None
    kind: SuspensionKind = "tool"
    args: dict[str, JsonValue] | None = None
    agent: str = ""
    expects: dict[str, JsonValue] | None = field(default=None, compare=False, repr=False)


Suspend: TypeAlias = Suspended
"""The specification's word for the same."""

RunOut: TypeAlias = Continue | Done[O_co] | Suspended
