"""The nodes of a flow graph. Each takes live states and gives others; plain data until it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from pydantic import BaseModel

from .agent_node import AgentNode
from .handlers import Handler
from .naming import Rename, State

Kind: TypeAlias = Literal["work", "agent", "either", "fork", "join", "suspend", "human", "each"]


@dataclass(frozen=True, slots=True)
class _OneToOne:
    """What takes one state and gives one."""

    takes: State
    gives: State

    @property
    def inputs(self) -> tuple[State, ...]:
        return (self.takes,)

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        """The states it may give, one group for each way it can end."""
        return ((self.gives,),)


@dataclass(frozen=True, slots=True)
class Work(_OneToOne):
    """A function of one value (P-10)."""

    kind: ClassVar[Kind] = "work"
    handler: Handler

    def renamed(self, rename: Rename) -> Work:
        return replace(self, takes=self.takes.renamed(rename), gives=self.gives.renamed(rename))


@dataclass(frozen=True, slots=True)
class Agent(_OneToOne):
    """A model's work (P-11)."""

    kind: ClassVar[Kind] = "agent"
    node: type[AgentNode[BaseModel, BaseModel]]

    def renamed(self, rename: Rename) -> Agent:
        return replace(self, takes=self.takes.renamed(rename), gives=self.gives.renamed(rename))


@dataclass(frozen=True, slots=True)
class Suspend(_OneToOne):
    """Waits for somebody: the value goes out, an answer of the other type comes back (P-81)."""

    kind: ClassVar[Kind] = "suspend"

    def renamed(self, rename: Rename) -> Suspend:
        return replace(self, takes=self.takes.renamed(rename), gives=self.gives.renamed(rename))


@dataclass(frozen=True, slots=True)
class Human(_OneToOne):
    """Asks somebody to choose: `question` makes what is asked, `answered` what comes of the answer."""

    kind: ClassVar[Kind] = "human"
    question: Handler
    answered: Handler

    def renamed(self, rename: Rename) -> Human:
        return replace(self, takes=self.takes.renamed(rename), gives=self.gives.renamed(rename))


@dataclass(frozen=True, slots=True)
class Each(_OneToOne):
    """A function of each item of a list, one item a step; `field` and `into` are the lists."""

    kind: ClassVar[Kind] = "each"
    handler: Handler
    field: str
    into: str
    item: type[BaseModel]

    def renamed(self, rename: Rename) -> Each:
        return replace(self, takes=self.takes.renamed(rename), gives=self.gives.renamed(rename))


@dataclass(frozen=True, slots=True)
class Either:
    """A choice: exactly one of the branches appears (P-12)."""

    kind: ClassVar[Kind] = "either"
    takes: State
    branches: tuple[State, ...]
    handler: Handler

    @property
    def inputs(self) -> tuple[State, ...]:
        return (self.takes,)

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        return tuple((branch,) for branch in self.branches)

    def renamed(self, rename: Rename) -> Either:
        branches = tuple(branch.renamed(rename) for branch in self.branches)
        return replace(self, takes=self.takes.renamed(rename), branches=branches)


@dataclass(frozen=True, slots=True)
class Fork:
    """One value becomes several, in their order (P-13)."""

    kind: ClassVar[Kind] = "fork"
    takes: State
    children: tuple[State, ...]
    handler: Handler

    @property
    def inputs(self) -> tuple[State, ...]:
        return (self.takes,)

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        return (self.children,)

    def renamed(self, rename: Rename) -> Fork:
        children = tuple(child.renamed(rename) for child in self.children)
        return replace(self, takes=self.takes.renamed(rename), children=children)


@dataclass(frozen=True, slots=True)
class Join:
    """Waits for all its parents and makes one value of them, given in declared order (P-14, P-15)."""

    kind: ClassVar[Kind] = "join"
    parents: tuple[State, ...]
    gives: State
    handler: Handler

    @property
    def inputs(self) -> tuple[State, ...]:
        return self.parents

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        return ((self.gives,),)

    def renamed(self, rename: Rename) -> Join:
        parents = tuple(parent.renamed(rename) for parent in self.parents)
        return replace(self, parents=parents, gives=self.gives.renamed(rename))


Node: TypeAlias = Work | Agent | Suspend | Human | Each | Either | Fork | Join
Nodes: TypeAlias = Mapping[str, Node]


def states_of(node: Node) -> list[State]:
    """Every state a node takes or gives."""
    return [*node.inputs, *(state for outcome in node.outcomes for state in outcome)]


def label(node: Node) -> str:
    """The node as people read it: `work 'Draft'`, `join 'Notes' + 'Risk'`; unlike any other's."""
    taken = " + ".join(f"'{state.key}'" for state in node.inputs)
    return f"{node.kind} {taken}"


def full_name(node: Node) -> str:
    """What kind of node it is and, where its author named it, how: `work collect`, `agent Draft`."""
    match node:
        case Agent(node=agent):
            return f"{node.kind} {agent.__name__}"
        case Suspend():
            return f"{node.kind} for a person"
        case Human(question=question):
            return f"{node.kind} {question.name}"
        case _:
            return f"{node.kind} {node.handler.name}"


def outcome_label(node: Node, outcome: int) -> str:
    """The node together with the way it ends, where there are several."""
    if len(node.outcomes) == 1:
        return label(node)
    [state] = node.outcomes[outcome]
    return f"{label(node)} to '{state.key}'"
