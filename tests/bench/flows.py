"""Flows: steps of a chain, of fork and join, snapshots, waiting runs, and durable steps under a hub.

The same chain of langgraph, if installed, runs in the same measurement; both without a snapshot and with
one in memory after each step. Rates are medians of several alternating turns.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
import types
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from math import nan
from pathlib import Path
from statistics import median

from pydantic import BaseModel, create_model

from interlock.engine.flows import (
    Context,
    Continue,
    Flow,
    FlowBuilder,
    FlowRuntime,
    FlowSnapshot,
    Suspended,
)
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig

NODES = 50
TURNS = 7
RUNS = 8
WAITING = 10_000
HOSTED = 20
CTX = Context()


@cache
def state(name: str) -> type[BaseModel]:
    """Create a state with a number and a text."""
    return create_model(name, __module__="bench", number=(int, ...), text=(str, ""))


def work(takes: type[BaseModel], gives: type[BaseModel]) -> Callable[..., object]:
    """Create a function from one state to the next."""

    async def step(value: BaseModel, ctx: Context) -> BaseModel:
        return gives(number=value.number + 1, text=value.text)

    step.__annotations__ = {"value": takes, "ctx": Context, "return": gives}
    return step


def flow_of(nodes: Callable[[FlowBuilder], FlowBuilder], last: str) -> type[Flow]:
    """Create a flow that starts at `S0`."""
    body = {"build": classmethod(lambda _, g: nodes(g))}
    base = Flow[state("S0"), state(last)]
    return types.new_class("Bench", (base,), exec_body=lambda space: space.update(body))


def chain(length: int) -> type[Flow]:
    """Create a flow with one step after the other."""

    def nodes(g: FlowBuilder) -> FlowBuilder:
        for at in range(length):
            g = g.work(work(state(f"S{at}"), state(f"S{at + 1}")))
        return g

    return flow_of(nodes, f"S{length}")


def diamonds(count: int) -> type[Flow]:
    """Create a flow with one fork and its join after the other: two steps each."""

    def nodes(g: FlowBuilder) -> FlowBuilder:
        for at in range(count):
            first, last = state(f"S{at}"), state(f"S{at + 1}")
            left, right = state(f"L{at}"), state(f"R{at}")
            g = g.fork(_forking(first, left, right)).join(_joining(left, right, last))
        return g

    return flow_of(nodes, f"S{count}")


def _forking(
    first: type[BaseModel], left: type[BaseModel], right: type[BaseModel]
) -> Callable[..., object]:
    def fork(value: BaseModel, ctx: Context) -> tuple[BaseModel, BaseModel]:
        return left(number=value.number), right(number=value.number)

    fork.__annotations__ = {"value": first, "ctx": Context, "return": tuple[left, right]}
    return fork


def _joining(
    left: type[BaseModel], right: type[BaseModel], last: type[BaseModel]
) -> Callable[..., object]:
    def join(a: BaseModel, b: BaseModel, ctx: Context) -> BaseModel:
        return last(number=a.number % 1000 + b.number % 1000)

    join.__annotations__ = {"a": left, "b": right, "ctx": Context, "return": last}
    return join


def measure() -> Iterator[tuple[str, float, str]]:
    """Yield name, value and unit of each measurement."""
    yield from _steps()
    for size in (10_000, 1_000_000):
        yield from _snapshots(size)
    yield from _waiting()
    yield from asyncio.run(_hosted())


def _steps() -> Iterator[tuple[str, float, str]]:
    begun = state("S0")(number=0)
    plain, forked = chain(NODES).draft().build(), diamonds(NODES // 2).draft().build()

    async def run(graph: object, keep: bool = False) -> None:
        runtime = FlowRuntime(graph, begun)
        kept: list[FlowSnapshot] = []
        while isinstance(await runtime.next(CTX), Continue):
            if keep:
                kept.append(runtime.snapshot())

    contenders: dict[str, Callable[[], Awaitable[object]]] = {
        "flow chain": lambda: run(plain),
        "flow chain, snapshots": lambda: run(plain, keep=True),
        "flow fork and join": lambda: run(forked),
    }
    peers = _langgraph()
    contenders |= peers
    rates = asyncio.run(_rates(contenders))
    for name, rate in rates.items():
        yield name, rate, "steps/s"
    if not peers:
        yield "langgraph chain", nan, "not installed"
    for name in peers:
        own = name.replace("langgraph", "flow")
        yield f"{own} / {name}", rates[own] / rates[name], "x"


async def _rates(contenders: dict[str, Callable[[], Awaitable[object]]]) -> dict[str, float]:
    """Return steps per second of each contender; their turns alternate."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(TURNS):
        for name, run in contenders.items():
            began = time.perf_counter()
            for _ in range(RUNS):
                await run()
            taken[name].append(time.perf_counter() - began)
    return {name: NODES * RUNS / median(seconds) for name, seconds in taken.items()}


def _langgraph() -> dict[str, Callable[[], Awaitable[object]]]:
    """Return the same chain of langgraph; nothing if it is not installed."""
    try:
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import END, START, StateGraph
    except ImportError:
        return {}
    kept = state("S0")

    async def step(value: BaseModel) -> dict[str, object]:
        return {"number": value.number + 1, "text": value.text}

    graph = StateGraph(kept)
    for at in range(NODES):
        graph.add_node(f"n{at}", step)
        graph.add_edge(f"n{at - 1}" if at else START, f"n{at}")
    graph.add_edge(f"n{NODES - 1}", END)
    bare = graph.compile()
    numbers = iter(range(10**9))

    def thread() -> dict[str, object]:
        return {"recursion_limit": NODES + 10, "configurable": {"thread_id": str(next(numbers))}}

    def checkpointed() -> Awaitable[object]:
        saving = graph.compile(checkpointer=InMemorySaver())
        return saving.ainvoke(kept(number=0), thread())

    return {
        "langgraph chain": lambda: bare.ainvoke(kept(number=0), thread()),
        "langgraph chain, snapshots": checkpointed,
    }


def _snapshots(size: int) -> Iterator[tuple[str, float, str]]:
    """Measure conversion to JSON and back, of a state with this number of characters."""
    graph = chain(2).draft().build()
    runtime = FlowRuntime(graph, state("S0")(number=0, text="word " * (size // 5)))
    turns = max(5, 2_000_000 // size)
    kept, restored = [], []
    for _ in range(turns):
        began = time.perf_counter()
        text = runtime.snapshot().model_dump_json()
        kept.append(time.perf_counter() - began)
        began = time.perf_counter()
        FlowRuntime.from_snapshot(graph, FlowSnapshot.load(text))
        restored.append(time.perf_counter() - began)
    name = f"{size // 1000} KB" if size < 1_000_000 else f"{size // 1_000_000} MB"
    yield f"flow snapshot of {name}", median(kept) * 1e3, "ms"
    yield f"flow restored from {name}", median(restored) * 1e3, "ms"


def _waiting() -> Iterator[tuple[str, float, str]]:
    """Measure runs that wait for a person: created, frozen, restored."""
    graph = flow_of(lambda g: g.suspend(state("S0"), state("S1")), "S1").draft().build()

    async def make() -> list[FlowRuntime]:
        made = [FlowRuntime(graph, state("S0")(number=at)) for at in range(WAITING)]
        for runtime in made:
            assert isinstance(await runtime.next(CTX), Suspended)
        return made

    gc.collect()
    before, began = _resident(), time.perf_counter()
    waiting = asyncio.run(make())
    seconds = time.perf_counter() - began
    yield f"{WAITING} flows begun that wait", seconds, "s"
    yield f"{WAITING} flows that wait, memory", (_resident() - before) / 2**20, "MiB"
    frozen = [runtime.snapshot().model_dump_json() for runtime in waiting]
    yield "a flow that waits, as JSON", sum(map(len, frozen)) / WAITING, "bytes"
    began = time.perf_counter()
    again = [FlowRuntime.from_snapshot(graph, FlowSnapshot.load(text)) for text in frozen]
    yield f"{WAITING} flows that wait, restored", time.perf_counter() - began, "s"
    assert all(runtime.suspended for runtime in again)


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _hosted() -> list[tuple[str, float, str]]:
    """Measure steps per second under a hub, each durable before the next: of one run, and of many."""
    flow, rates = chain(NODES), list[tuple[str, float, str]]()
    with tempfile.TemporaryDirectory() as folder:
        hub = Hub.open(Path(folder) / "hub.db")
        for runs in (1, HOSTED):
            began = time.perf_counter()
            begun = state("S0")(number=0)
            names = [await hub.open_flow(flow, begun, SessionConfig({})) for _ in range(runs)]
            await asyncio.gather(*map(hub.flow_ended, names))
            rate = NODES * runs / (time.perf_counter() - began)
            rates.append((f"flow steps under a hub, {runs} at a time", rate, "steps/s"))
        await hub.close()
    return rates
