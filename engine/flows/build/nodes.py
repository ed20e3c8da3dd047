"""The nodes of a flow graph, as plain data. Each takes live states and gives others when it runs."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, create_model

from ..agents.node import AgentNode
from ..errors import BuildError
from .handlers import Handler
from .naming import Rename, State

Kind: TypeAlias = Literal["work", "agent", "either", "fork", "join", "suspend", "human", "each"]


@dataclass(frozen=True, slots=True)
class _Between:
    """Node between states."""

    def renamed(self, rename: Rename) -> Self:
        """Return the same node between renamed states."""
        return replace(self, **{f.name: _renamed(getattr(self, f.name), rename) for f in fields(self)})


def _renamed(value: object, rename: Rename) -> object:
    match value:
        case State():
            return value.renamed(rename)
        case tuple():
            return tuple(_renamed(each, rename) for each in cast("tuple[object, ...]", value))
        case _:
            return value


@dataclass(frozen=True, slots=True)
class _OfOne(_Between):
    """Node that takes one state."""

    takes: State

    @property
    def inputs(self) -> tuple[State, ...]:
        """States that it takes, all of them at once."""
        return (self.takes,)


@dataclass(frozen=True, slots=True)
class _OneToOne(_OfOne):
    """Node that takes one state and gives one."""

    gives: State

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        """States that it may give: one group for each way it can end."""
        return ((self.gives,),)


@dataclass(frozen=True, slots=True)
class Work(_OneToOne):
    """A function of one value (P-10)."""

    kind: ClassVar[Kind] = "work"
    handler: Handler


@dataclass(frozen=True, slots=True)
class AgentWork(_OneToOne):
    """Work done by a model (P-11)."""

    kind: ClassVar[Kind] = "agent"
    node: type[AgentNode[BaseModel, BaseModel]]


@dataclass(frozen=True, slots=True)
class Suspend(_OneToOne):
    """Waits for an answer: the value is shown, and an answer of the other type is returned (P-81)."""

    kind: ClassVar[Kind] = "suspend"


@dataclass(frozen=True, slots=True)
class Human(_OneToOne):
    """Asks an operator to choose: `question` makes the request, `answered` the state from its answer."""

    kind: ClassVar[Kind] = "human"
    question: Handler
    answered: Handler


@dataclass(frozen=True, slots=True)
class Each(_OneToOne):
    """A function of each item of a list, one item per step; `field` and `into` name the lists."""

    kind: ClassVar[Kind] = "each"
    handler: Handler
    field: str
    into: str
    item: type[BaseModel]


@dataclass(frozen=True, slots=True)
class Either(_OfOne):
    """A choice: exactly one of the branches appears (P-12)."""

    kind: ClassVar[Kind] = "either"
    branches: tuple[State, ...]
    handler: Handler

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        return tuple((branch,) for branch in self.branches)


@dataclass(frozen=True, slots=True)
class Fork(_OfOne):
    """One value becomes several, in their order (P-13)."""

    kind: ClassVar[Kind] = "fork"
    children: tuple[State, ...]
    handler: Handler

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        return (self.children,)


@dataclass(frozen=True, slots=True)
class Join(_Between):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByItem(_Between):
    """Gives the next item of a list and the `left` items; after the last item, all results."""

    kind: ClassVar[Kind] = "each"
    item: State
    left: State
    gives: State
    into: str
    name: str

    @property
    def outcomes(self) -> tuple[tuple[State, ...], ...]:
        return ((self.item, self.left), (self.gives,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(_ByItem):
    """Takes a list whose items a flow gets one after the other; `field` names the list."""

    takes: State
    field: str

    @property
    def inputs(self) -> tuple[State, ...]:
        return (self.takes,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect(_ByItem):
    """Takes the flow's result for an item, and continues with the next item."""

    result: State

    @property
    def inputs(self) -> tuple[State, ...]:
        return (self.result, self.left)


Node: TypeAlias = Work | AgentWork | Suspend | Human | Each | Items | Collect | Either | Fork | Join
Nodes: TypeAlias = Mapping[str, Node]


def states_of(node: Node) -> list[State]:
    """Every state that a node takes or gives."""
    return [*node.inputs, *(state for outcome in node.outcomes for state in outcome)]


def label(node: Node) -> str:
    """Return a node's unique label for people: `work 'Draft'`, `join 'Notes' + 'Risk'`."""
    input_names = " + ".join(f"'{state.key}'" for state in node.inputs)
    return f"{node.kind} {input_names}"


def full_name(node: Node) -> str:
    """Return a node's kind and, if its author named it, its name: `work collect`, `agent Draft`."""
    match node:
        case AgentWork(node=agent):
            return f"{node.kind} {agent.__name__}"
        case Suspend():
            return f"{node.kind} for a person"
        case Human(question=question):
            return f"{node.kind} {question.name}"
        case Items(name=name) | Collect(name=name):
            return f"{node.kind} {name}"
        case _:
            return f"{node.kind} {node.handler.name}"


def outcome_label(node: Node, outcome: int) -> str:
    """Return a node's label, with the outcome if there are several."""
    if len(node.outcomes) == 1:
        return label(node)
    output_names = " + ".join(f"'{state.key}'" for state in node.outcomes[outcome])
    return f"{label(node)} to {output_names}"


# Lists of models for `each`: the items it takes, the results it collects, and the nodes for a flow.


class RemainingItems(BaseModel):
    """Remaining items of a list, and the results of the items before them."""

    items: list[BaseModel]
    results: list[BaseModel]


def list_field(model: type[BaseModel], item: type[BaseModel], where: str) -> str:
    """Return the only `list[item]` field of `model`. Raises `BuildError` if there is none or several."""
    names = [
        name
        for name, field in model.model_fields.items()
        if typing.get_origin(field.annotation) is list and typing.get_args(field.annotation) == (item,)
    ]
    if len(names) != 1:
        raise BuildError(
            f"{where}: '{model.__name__}' has {len(names)} fields that are list[{item.__name__}], "
            "expected one"
        )
    return names[0]


def by_item(source: State, target: State, takes: State, gives: State, name: str) -> tuple[Items, Collect]:
    """Return the nodes that give the items of a list to a flow called `name`, and collect its results.

    `takes` and `gives` are the flow's states, with their names in the outer graph. Raises `BuildError`.
    """
    where = f"each '{name}'"
    item, result = takes.type, gives.type
    field = list_field(source.type, item, where)
    into = filled(target, list_field(target.type, result, where), where)
    list_fields: dict[str, Any] = {"items": (list[item], ...), "results": (list[result], ...)}
    remaining_type = create_model(f"{source.type.__name__}Left", __base__=RemainingItems, **list_fields)
    remaining = State(f"{source.key}::left", remaining_type)
    items = Items(
        item=takes, left=remaining, gives=target, into=into, name=name, takes=source, field=field
    )
    return items, Collect(item=takes, left=remaining, gives=target, into=into, name=name, result=gives)


def filled(state: State, field: str, where: str) -> str:
    """Return `field` if `state` needs no other field; `where` names the node. Raises `BuildError`."""
    others = [
        name for name, each in state.type.model_fields.items() if name != field and each.is_required()
    ]
    if others:
        raise BuildError(
            f"{where}: '{state.key}' also needs {', '.join(others)}; "
            "what collects results has no other field without a default"
        )
    return field
