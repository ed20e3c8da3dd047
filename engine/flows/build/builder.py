"""Building a flow node by node: `FlowBuilder(A, Z).work(f).either(g).build()`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

from pydantic import BaseModel

from ..agents.node import AgentNode
from ..errors import BuildError, Invalid
from ..run.human import HumanAnswer, HumanInput
from .checks import Registered, check, distinct
from .graph import FlowGraph
from .handlers import handler
from .naming import State, node_id, state_of
from .nodes import (
    AgentWork,
    Each,
    Either,
    Fork,
    Human,
    Join,
    Node,
    Suspend,
    Work,
    by_item,
    filled,
    list_field,
)

# A flow inlined in another: its inner keys get the entry's name as a prefix (P-100 … P-109).


def put_inside(outer: str, nodes: Mapping[str, Node]) -> list[Node]:
    """Return the nodes, with all keys prefixed by that of the node they work for."""
    return [node.renamed(lambda key: f"{outer}::{key}") for node in distinct(nodes)]


def inlined(
    entry: str, output: str, nodes: Mapping[str, Node], existing: Container[str]
) -> tuple[list[Node], list[str]]:
    """Return the nodes with their new keys, and the conflicts of these with `existing` keys."""

    def rename(key: str) -> str:
        return key if key in (entry, output) else f"{entry}::{key}"

    if entry in existing:
        return [], [f"flow '{entry}': duplicate node key"]
    clashes = [
        f"flow '{entry}': inner node '{key}' conflicts with outer node after rename to '{rename(key)}'"
        for key in nodes
        if rename(key) in existing
    ]
    return [] if clashes else [node.renamed(rename) for node in distinct(nodes)], clashes


I = TypeVar("I", bound=BaseModel)  # noqa: E741 - input and output, as in the specification
O = TypeVar("O", bound=BaseModel)  # noqa: E741
A = TypeVar("A", bound=BaseModel)
B = TypeVar("B", bound=BaseModel)


class RecursiveInlining(Invalid):
    """A flow contains itself (P-111); `flow` is the one that recurs."""

    def __init__(self, flow: object, chain: tuple[str, ...]) -> None:
        super().__init__([f"flow '{chain[0]}': recursive inlining {' → '.join(chain)}"])
        self.flow = flow


@runtime_checkable
class Drafts(Protocol[I, O]):
    """A `Flow` class or a builder, which can be run and used as a node of another flow.

    `inside` are the flows in which this one is being inlined, outermost first, each with its name.
    """

    def draft(self, inside: tuple[tuple[object, str], ...] = ()) -> FlowBuilder[I, O]: ...

    def entry_key(self) -> str: ...


class FlowBuilder(Generic[I, O]):
    """Accepts nodes in any order; each method returns the builder. `build` checks everything.

    The types of a node are read from its function's annotations. Raises `BuildError` at once, naming the
    method, if annotations are missing or are not models.
    """

    def __init__(
        self, takes: type[I], gives: type[O], *, inside: tuple[tuple[object, str], ...] = ()
    ) -> None:
        self.takes = state_of(takes, "flow input")
        self.gives = state_of(gives, "flow output")
        self._inside = inside or ((self, self.takes.key),)
        self._registered: list[Registered] = []

    def work(self, fn: Callable[..., BaseModel | Awaitable[BaseModel]]) -> Self:
        """Add a function `async (A, ctx) -> B`, or the same without async or ctx (P-10)."""
        node_handler = handler("work", fn, 1)
        return self.add(Work(node_handler.takes[0], node_handler.one(), node_handler))

    def agent(self, node: type[AgentNode[A, B]]) -> Self:
        """Add a model's work: with tools the model submits its result, else it is the reply (P-11)."""
        node.check_config()
        takes, gives = node.types()
        where = f"agent '{node.__name__}'"
        agent_node = cast("type[AgentNode[BaseModel, BaseModel]]", node)
        return self.add(AgentWork(state_of(takes, where), state_of(gives, where), agent_node))

    def either(self, fn: Callable[..., BaseModel]) -> Self:
        """Add `(A, ctx) -> B | C`: exactly one of the two appears (P-12); larger unions are possible."""
        node_handler = handler("either", fn, 1, sync=True)
        return self.add(Either(node_handler.takes[0], node_handler.either(), node_handler))

    def fork(self, fn: Callable[..., tuple[BaseModel, ...]]) -> Self:
        """Add `(A, ctx) -> tuple[B, C]`: B and C appear, in this order (P-13)."""
        node_handler = handler("fork", fn, 1, sync=True)
        return self.add(Fork(node_handler.takes[0], node_handler.each(), node_handler))

    def join(self, fn: Callable[..., BaseModel]) -> Self:
        """Add `(B, C, ctx) -> D`, called once both are live (P-14)."""
        node_handler = handler("join", fn, 2, sync=True)
        return self.add(Join(node_handler.takes, node_handler.one(), node_handler))

    def suspend(self, a: type[A], b: type[B]) -> Self:
        """Wait for an answer: a live A is shown, and a B is returned (P-81)."""
        return self.add(Suspend(state_of(a, "suspend"), state_of(b, "suspend")))

    def human(self, question: Callable[..., HumanInput], answered: Callable[..., BaseModel]) -> Self:
        """Ask an operator: `question(A, ctx) -> HumanInput`, `answered(A, HumanAnswer, ctx) -> B`."""
        asks = handler("human", question, 1, sync=True)
        takes = handler("human", answered, 2, sync=True)
        if asks.gives is not HumanInput:
            raise BuildError(f"{asks.where}: its return annotation must be HumanInput")
        if takes.takes != (asks.takes[0], State(node_id(HumanAnswer), HumanAnswer)):
            states = ", ".join(state.key for state in takes.takes)
            raise BuildError(
                f"{takes.where}: found parameters ({states}), expected ({asks.takes[0].key}, HumanAnswer)"
            )
        return self.add(Human(asks.takes[0], takes.one(), asks, takes))

    def each(
        self,
        takes: type[A],
        fn: Callable[..., BaseModel | Awaitable[BaseModel]] | Drafts[Any, Any],
        gives: type[B],
    ) -> Self:
        """Apply `fn` to each item of the only list in A; the results become the only list in B.

        Each item is one step. An empty list gives an empty list, in one step. `fn` may also be a flow: it
        runs its own steps for one item after the other, with keys prefixed by that of A.
        """
        source, target = state_of(takes, "each"), state_of(gives, "each")
        if isinstance(fn, Drafts):
            flow = cast("Drafts[Any, Any]", fn)
            self._registered.append(self._of_each(source, flow, target))
            return self
        node_handler = handler("each", fn, 1)
        item = node_handler.one().type
        field = list_field(source.type, node_handler.takes[0].type, node_handler.where)
        into = filled(target, list_field(target.type, item, node_handler.where), node_handler.where)
        return self.add(Each(source, target, node_handler, field, into, item))

    def flow(self, flow: Drafts[A, B]) -> Self:
        """Inline a flow: entry and output keep their names, other keys become `Entry::Key` (P-100)."""
        self._registered.append(self._inline(flow))
        return self

    def add(self, node: Node) -> Self:
        """Register an existing node."""
        self._registered.append(Registered((node,)))
        return self

    def build(self) -> FlowGraph[I, O]:
        """Check everything and return the graph. Raises `Invalid` with all problems."""
        result = check(self.takes, self.gives, self._registered)
        if result.problems:
            raise Invalid(result.problems)
        assert result.walk is not None
        return FlowGraph(
            takes=self.takes,
            gives=self.gives,
            nodes=result.nodes,
            findings=result.walk.findings,
            complete=result.walk.complete,
            output=cast("type[O]", self.gives.type),
            draft_of=self,
        )

    def draft(self, inside: tuple[tuple[object, str], ...] = ()) -> Self:
        """Return the builder itself; see `Drafts`."""
        return self

    def entry_key(self) -> str:
        """Key of the input, which identifies the flow."""
        return self.takes.key

    def _inline(self, flow: Drafts[A, B]) -> Registered:
        inner = self._draft(flow)
        if isinstance(inner, Registered):
            return inner
        input_keys = {s.key for each in self._registered for node in each.nodes for s in node.inputs}
        nodes, clashes = inlined(inner.takes.key, inner.gives.key, inner.nodes, input_keys)
        return Registered(tuple(nodes), (*inner.problems, *clashes), inner.whole and not clashes)

    def _of_each(self, source: State, flow: Drafts[Any, Any], target: State) -> Registered:
        inner = self._draft(flow)
        if isinstance(inner, Registered):
            return inner
        item, result = (
            State(f"{source.key}::{state.key}", state.type) for state in (inner.takes, inner.gives)
        )
        name = flow.__name__ if isinstance(flow, type) else inner.takes.key
        ends = by_item(source, target, item, result, name)
        nodes = (ends[0], *put_inside(source.key, inner.nodes), ends[1])
        return Registered(nodes, inner.problems, inner.whole)

    def _draft(self, flow: Drafts[A, B]) -> _Inner | Registered:
        """Return a flow to inline in this one, or the problems if it cannot be inlined."""
        for at, (outer, _) in enumerate(self._inside):
            if outer is flow:
                names = tuple(name for _, name in self._inside[at:])
                raise RecursiveInlining(flow, (*names, names[0]))
        try:
            name = flow.entry_key()
        except BuildError as error:
            return Registered((), error.problems, whole=False)
        try:
            inner = flow.draft(self._inside)
        except RecursiveInlining as error:
            if error.flow is not flow:
                raise
            return Registered((), error.problems, whole=False)
        except BuildError as error:
            return Registered((), _prefixed(name, error.problems), whole=False)
        alone = check(inner.takes, inner.gives, inner._registered)
        whole = all(each.whole for each in inner._registered)
        return _Inner(
            inner.takes, inner.gives, alone.nodes, _prefixed(inner.takes.key, alone.problems), whole
        )


@dataclass(frozen=True, slots=True)
class _Inner:
    """A flow inside another: its nodes and their problems; see `Registered`."""

    takes: State
    gives: State
    nodes: Mapping[str, Node]
    problems: tuple[str, ...]
    whole: bool


def _prefixed(name: str, problems: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"flow '{name}': {problem}" for problem in problems)
