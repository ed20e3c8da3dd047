"""A flow as a class: its types, and the nodes between them."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Generic, TypeVar, cast

from pydantic import BaseModel

from .build.builder import FlowBuilder
from .build.graph import FlowGraph
from .build.naming import state_of
from .errors import BuildError

I = TypeVar("I", bound=BaseModel)  # noqa: E741 - input and output, as in the specification
O = TypeVar("O", bound=BaseModel)  # noqa: E741
A = TypeVar("A", bound=BaseModel)
B = TypeVar("B", bound=BaseModel)


class Flow(Generic[I, O]):
    """A typed flow from I to O; it can also be a node of other flows.

    Example: `class Report(Flow[Request, Report])` with a `build` that adds its nodes. `Flow.of(Request,
    Report)` returns a builder for a flow without a class, which can be run and used in the same way.
    """

    @classmethod
    def build(cls, g: FlowBuilder[I, O]) -> FlowBuilder[I, O] | FlowGraph[I, O]:
        """Add the nodes to `g` and return it."""
        raise BuildError(f"flow '{cls.__name__}' has no nodes: write its build(cls, g)")

    @classmethod
    def deps(cls) -> Mapping[type, object]:
        """Dependencies for `ctx.require`, by type, in a hosted run without its own context (P-159).

        Each host of a run creates new ones before its first step, possibly in another thread: they are
        not recorded. Include those of flows that are nodes of this one.
        """
        return {}

    @staticmethod
    def of(takes: type[A], gives: type[B]) -> FlowBuilder[A, B]:
        """Return a builder for a flow without a class."""
        return FlowBuilder(takes, gives)

    @classmethod
    def graph(cls) -> FlowGraph[I, O]:
        """Return the checked graph, which is built at each call. Raises `Invalid`."""
        return cls.draft().build()

    @classmethod
    def draft(cls, inside: tuple[tuple[object, str], ...] = ()) -> FlowBuilder[I, O]:
        """Return the nodes as `build` adds them, unchecked; see `builder.Drafts`."""
        takes, gives = cls.types()
        build_result = cls.build(FlowBuilder(takes, gives, inside=(*inside, (cls, cls.entry_key()))))
        if not isinstance(build_result, FlowBuilder | FlowGraph):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(
                f"flow '{cls.__name__}': build returned {type(build_result).__name__}, not the builder"
            )
        return build_result.draft()

    @classmethod
    def entry_key(cls) -> str:
        """Key of the input, which identifies the flow."""
        return state_of(cls.types()[0], f"flow '{cls.__name__}': input").key

    @classmethod
    def types(cls) -> tuple[type[I], type[O]]:
        """Input and output types, from `Flow[…, …]` in its bases. Raises `BuildError`."""
        for base in cls.__mro__:
            for generic_base in getattr(base, "__orig_bases__", ()):
                type_arguments = typing.get_args(generic_base)
                if typing.get_origin(generic_base) is Flow and not any(
                    isinstance(g, TypeVar) for g in type_arguments
                ):
                    return cast("tuple[type[I], type[O]]", type_arguments)
        raise BuildError(f"flow '{cls.__name__}': write its types, as in Flow[Request, Report]")
