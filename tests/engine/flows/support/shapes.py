"""Graphs in the notation of the specification: `W("A", "B")`, `E("A", "B", "C")`, `F`, `J`, `Fl`.

Every state is a model with one number, made on demand and the same for the same name.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache

from pydantic import BaseModel, create_model

from interlock.engine.flows import Context, Continue, Done, Flow, FlowBuilder, FlowRuntime

Number = Callable[[int], int]
Adds = Callable[[FlowBuilder], FlowBuilder]

CTX = Context()


@cache
def M(name: str) -> type[BaseModel]:  # noqa: N802 - the notation
    """Return the model of a state."""
    return create_model(name, __module__=f"made.{name}", val=(int, ...))


def typed(function: Callable[..., object], gives: object, **takes: type[BaseModel]) -> object:
    """Return `function` with these annotations."""
    function.__annotations__ = {**takes, "ctx": Context, "return": gives}
    function.__name__ = f"of_{'_'.join(model.__name__ for model in takes.values())}"
    return function


def W(a: str, b: str, number: Number = lambda n: n) -> Adds:  # noqa: N802
    async def work(a, ctx):
        return M(b)(val=number(a.val))

    return lambda g: g.work(typed(work, M(b), a=M(a)))


def E(a: str, *branches: str, left: Callable[[int], object] = lambda n: n % 2 == 0) -> Adds:  # noqa: N802
    """Add an either that goes left for an even number; `left` decides, or gives the branch's number."""
    union: object = M(branches[0])
    for branch in branches[1:]:
        union = union | M(branch)

    def either(a, ctx):
        chosen = left(a.val)
        at = (0 if chosen else 1) if isinstance(chosen, bool) else chosen
        return M(branches[at])(val=a.val)

    return lambda g: g.either(typed(either, union, a=M(a)))


def F(a: str, *children: str) -> Adds:  # noqa: N802
    def fork(a, ctx):
        return tuple(M(child)(val=a.val) for child in children)

    return lambda g: g.fork(typed(fork, tuple[tuple(map(M, children))], a=M(a)))


def J(b: str, c: str, d: str, number: Callable[[int, int], int] = lambda m, n: m + n) -> Adds:  # noqa: N802
    def join(b, c, ctx):
        return M(d)(val=number(b.val, c.val))

    return lambda g: g.join(typed(join, M(d), b=M(b), c=M(c)))


def Fl(flow: type[Flow]) -> Adds:  # noqa: N802
    return lambda g: g.flow(flow)


def builder(a: str, z: str, *nodes: Adds) -> FlowBuilder:
    g = FlowBuilder(M(a), M(z))
    for add in nodes:
        g = add(g)
    return g


def flow(a: str, z: str, *nodes: Adds) -> type[Flow]:
    """Return a flow class from `a` to `z`."""

    def build(cls, g):
        for add in nodes:
            g = add(g)
        return g

    body = {"build": classmethod(build)}
    return types.new_class(f"{a}Flow", (Flow[M(a), M(z)],), exec_body=lambda space: space.update(body))


async def trace(flow: object, val: int) -> tuple[list[str], int]:
    """Return the live states before each step until it is done, and the output."""
    runtime = FlowRuntime(flow, flow.draft().takes.type(val=val))
    seen = [shown(runtime)]
    while True:
        match await runtime.next(CTX):
            case Continue():
                seen.append(shown(runtime))
            case Done(output):
                return seen, output.val


def shown(runtime: FlowRuntime) -> str:
    return "{" + ",".join(runtime.states) + "}"
