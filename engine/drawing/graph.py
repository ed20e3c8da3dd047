"""A net or a flow as a graph to draw: places or states, and the steps between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "place", "transition", "manual",
    "state", "work", "agent", "either", "fork", "join", "suspend", "human", "each",
]  # fmt: skip
"""Kinds of nodes: the first three are for nets, the others for flows."""
Direction: TypeAlias = Literal["LR", "TD"]
"""Direction of most arrows: to the right, or down."""


@dataclass(frozen=True, slots=True)
class Node:
    """A place or state, or a step: a transition, or a node of a flow.

    `initial` nodes, which have tokens at first, begin the drawing. `live` nodes are highlighted.
    """

    key: str
    kind: Kind
    name: str
    note: str = ""
    tokens: int = 0
    initial: bool = False
    live: bool = False

    @property
    def is_place(self) -> bool:
        """True for places and states, false for the steps between them."""
        return self.kind in ("place", "state")


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between the nodes with two keys; those of transfer arcs and of choices are dashed."""

    source: str
    target: str
    style: Literal["arc", "transfer", "choice"] = "arc"
    label: str = ""

    @property
    def dashed(self) -> bool:
        """True for transfer arcs and for the branches of a choice."""
        return self.style != "arc"


@dataclass(frozen=True, slots=True)
class Diagram:
    """Nodes and edges of a drawing, with the text above it; keys of nodes are short words."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    title: str = ""
    rule: str = ""
    condition: str = ""

    def edges_of(self, step: Node) -> list[Edge]:
        """The edges to and from a step."""
        return [edge for edge in self.edges if step.key in (edge.source, edge.target)]
