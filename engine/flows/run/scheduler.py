"""In what order a flow's nodes run: first come, first served (P-52). Pure.

Live states keep the order in which they came. The runtime and the checks both go by this, so that what
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
    """The node of the first live state that can run; joins that wait, and terminals, are passed over."""
    for key in live:
        node = nodes.get(key)
        if node is not None and all(state.key in all_live for state in node.inputs):
            return node
    return None


def conflict(node: Node, written: Iterable[str], live: Container[str]) -> str | None:
    """The first state that `node` would overwrite: one that is live and that it does not itself take."""
    taken = {state.key for state in node.inputs}
    return next((key for key in written if key in live and key not in taken), None)


def after(live: Mapping[str, V], node: Node, written: Mapping[str, V]) -> dict[str, V]:
    """The live states once `node` has run: what it took is gone, what it gave is at the end."""
    taken = {state.key for state in node.inputs}
    return {**{key: value for key, value in live.items() if key not in taken}, **written}


def waiting(nodes: Nodes, live: Iterable[str]) -> Sequence[str]:
    """The live states that are not terminal."""
    return [key for key in live if key in nodes]


# Outcomes of a step of a flow, for `match`.


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
    """The flow waits for an answer; `resume` takes `tool_id` and the answer.

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
