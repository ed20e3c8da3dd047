"""A checked flow: for running, drawing, and as a Petri net."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import BaseModel, JsonValue

from ...drawing.diagram_text import mermaid
from ...drawing.svg import svg
from ...net.net import SkillNet
from ..errors import Invalid, NotFound
from .checks import check_output, distinct, terminals
from .diagram import diagram
from .model_check import Finding
from .naming import State
from .nodes import Node, Suspend, states_of
from .petri import petri_net

if TYPE_CHECKING:
    from .builder import FlowBuilder

I = TypeVar("I", bound=BaseModel)  # noqa: E741 - input and output, as in the specification
O = TypeVar("O", bound=BaseModel)  # noqa: E741


@dataclass(frozen=True)
class Graph:
    """The nodes of a flow by the states they take; a join is listed under each of its parents.

    `findings` are faults that occur in some runs only, each with the shortest path to it; with `complete`
    there are no others.
    """

    takes: State
    gives: State
    nodes: Mapping[str, Node]
    findings: tuple[Finding, ...]
    complete: bool

    @property
    def distinct(self) -> list[Node]:
        """The nodes, each once, in registration order."""
        return distinct(self.nodes)

    @property
    def terminals(self) -> list[str]:
        """The states that no node takes, sorted."""
        return terminals(self.nodes)

    @cached_property
    def states(self) -> dict[str, type[BaseModel]]:
        """Every state by key, with the model of its values."""
        all_states = (state for node in self.distinct for state in states_of(node))
        return {self.takes.key: self.takes.type, **{state.key: state.type for state in all_states}}

    @cached_property
    def answers(self) -> dict[str, dict[str, JsonValue]]:
        """JSON Schema of the answer that each suspend node waits for."""
        waiting = (node for node in self.distinct if isinstance(node, Suspend))
        return {node.takes.key: node.gives.type.model_json_schema() for node in waiting}

    @cached_property
    def fingerprint(self) -> str:
        """Hash that is equal for graphs with the same nodes and states, and for no others."""
        shape = [
            [node.kind, [s.key for s in node.inputs], [[s.key for s in o] for o in node.outcomes]]
            for node in self.distinct
        ]
        text = json.dumps([self.takes.key, self.gives.key, sorted(shape)], ensure_ascii=False)
        return sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]

    def node(self, key: str) -> Node:
        """Return the node that takes the state `key`. Raises `NotFound`."""
        try:
            return self.nodes[key]
        except KeyError as error:
            raise NotFound(key, f"flow '{self.takes.key}'") from error

    def check_output(self) -> None:
        """Raise `Invalid` unless the flow ends in its output and nowhere else (P-37, P-38)."""
        problems = check_output(self.gives.key, self.nodes)
        if problems:
            raise Invalid(problems)

    def to_petri_net(self) -> SkillNet:
        """Return the net: a place for each state, a transition for each way a node can end."""
        return petri_net(f"flow {self.takes.key}", self.takes.key, self.distinct)

    def mermaid(self, *, live: Collection[str] = (), named: bool = False) -> str:
        """Return the flow as a Mermaid flowchart; `live` states are highlighted, nodes may be `named`."""
        return mermaid([diagram(self.takes.key, self.distinct, live, named=named)], "TD")

    def svg(self, *, live: Collection[str] = (), named: bool = False) -> str:
        """Return the flow as an SVG drawing."""
        return svg([diagram(self.takes.key, self.distinct, live, named=named)], "TD")


@dataclass(frozen=True)
class FlowGraph(Graph, Generic[I, O]):
    """A checked graph from I to O; like a builder, it can be run and be a node of another flow."""

    output: type[O] = field(repr=False)
    draft_of: FlowBuilder[I, O] = field(repr=False, compare=False)

    def draft(self, inside: tuple[tuple[object, str], ...] = ()) -> FlowBuilder[I, O]:
        """The builder it was built from; see `builder.Drafts`."""
        return self.draft_of

    def entry_key(self) -> str:
        """Key of the input."""
        return self.takes.key
