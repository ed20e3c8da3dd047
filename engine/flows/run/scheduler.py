"""Order in which a flow's nodes run: first come, first served (P-52). Pure.

Live states keep the order of their arrival. Both the runtime and the checks use this module, so that what
was checked is what happens.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, JsonValue

from ..build.nodes import Node, Nodes

V = TypeVar("V")


def next_up(nodes: Nodes, live: Iterable[str], all_live: Container[str]) -> Node | None:
    """Return the node of the first live state that can run; skip waiting joins and terminals."""
    for key in live:
        node = nodes.get(key)
        if node is not None and all(state.key in all_live for state in node.inputs):
            return node
    return None


def conflict(node: Node, written: Iterable[str], live: Container[str]) -> str | None:
    """Return the first state that `node` would overwrite: one that is live and not among its inputs."""
    input_keys = {state.key for state in node.inputs}
    return next((key for key in written if key in live and key not in input_keys), None)


def after(live: Mapping[str, V], node: Node, written: Mapping[str, V]) -> dict[str, V]:
    """Return the live states after `node` has run: without its inputs, with its outputs at the end."""
    input_keys = {state.key for state in node.inputs}
    return {**{key: value for key, value in live.items() if key not in input_keys}, **written}


def waiting(nodes: Nodes, live: Iterable[str]) -> Sequence[str]:
    """The live states that are not terminal."""
    return [key for key in live if key in nodes]


# Outcomes of a step of a flow, for `match`.


O_co = TypeVar("O_co", bound=BaseModel, covariant=True)

SuspensionKind: TypeAlias = Literal["tool", "approval", "input", "choice"]


@dataclass(frozen=True, slots=True)
class Continue:
    """The step is done, and there are further ones."""


@dataclass(frozen=True, slots=True)
class Done(Generic[O_co]):
    """The flow has ended; a further call returns the same."""

    output: O_co


@dataclass(frozen=True, slots=True)
class Suspended:
    """The flow waits for an answer; pass `tool_id` and the answer to `resume`.

    `value` is shown to the operator. `kind` is the kind of the answer: the result of a tool that waits
    (`tool`), a decision on a call (`approval`, P-82), a model's JSON (`input`, of the JSON Schema
    `expects`), or one of several choices (`choice`). `call_id` and `args` distinguish calls of one tool
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
"""The specification's name for `Suspended`."""

RunOut: TypeAlias = Continue | Done[O_co] | Suspended
