"""Running a flow, one bounded step at a time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from pydantic import BaseModel, JsonValue

from ...agents.tool import Tool
from ..agents.client import ClientFactory
from ..agents.gate import as_flow_gate
from ..agents.turn import RunServices, StepResult, agent_answered, agent_step, config_of, options_of
from ..build.builder import Drafts
from ..build.graph import FlowGraph
from ..build.nodes import AgentWork, Human, Node, Suspend, label
from ..context import Context
from ..errors import (
    AgentError,
    Deadlock,
    LimitExceeded,
    ResumeMismatchError,
    ResumeRequired,
    UnexpectedResumption,
)
from ..trace import StepEnded, Trace, step, tell
from .scheduler import Continue, Done, RunOut, Suspended, next_up, waiting
from .snapshot import FlowSnapshot, History
from .state import RunState, restore_state, suspension_of, take_snapshot
from .steps import answered, fire
from .values import dumped, loaded

I = TypeVar("I", bound=BaseModel)  # noqa: E741 - input and output, as in the specification
O = TypeVar("O", bound=BaseModel)  # noqa: E741


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one call of `run`; `None` means no limit.

    `max_turns` counts model calls. The time limit is checked between steps and interrupts none.
    """

    max_steps: int | None = None
    max_turns: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_turns", "max_seconds"):
            limit: float | None = getattr(self, name)
            if limit is not None and not limit >= 0:
                raise ValueError(f"{name} is a number from 0, got {limit!r}")


class FlowRuntime(Generic[O]):
    """A run of a flow.

    A step that raises leaves everything unchanged: snapshot and history equal their earlier values
    (P-56), and `next` tries it again. The calls of its agents pass `gate` (see `as_flow_gate` for
    accepted values); without a gate they simply run. `factory` creates the clients of their models;
    `trace` receives the events of the run as they happen. Raises `Invalid` for a graph with faults (P-30
    … P-46) or one that does not end in its output (P-37, P-38).
    """

    def __init__(
        self,
        flow: Drafts[I, O],
        value: I,
        *,
        factory: ClientFactory | None = None,
        history: History | None = None,
        gate: object = None,
        trace: Trace | None = None,
    ) -> None:
        graph = _checked(flow)
        text = dumped(value, graph.takes, graph.takes.key, "flow input")
        self._begin(graph, RunState({graph.takes.key: text}), factory, history, gate, trace)

    @classmethod
    def from_snapshot(
        cls,
        flow: Drafts[I, O],
        snapshot: FlowSnapshot,
        *,
        history: History | None = None,
        factory: ClientFactory | None = None,
        gate: object = None,
        trace: Trace | None = None,
    ) -> Self:
        """Restore a run. The graph is built and checked again (P-93).

        Raises `SnapLoadError` if the snapshot does not fit the graph (P-97).
        """
        graph = _checked(flow)
        runtime = cls.__new__(cls)
        runtime._begin(graph, restore_state(snapshot, graph), factory, history, gate, trace)
        return runtime

    def _begin(
        self,
        graph: FlowGraph[I, O],
        run_state: RunState,
        factory: ClientFactory | None,
        history: History | None,
        gate: object,
        trace: Trace | None,
    ) -> None:
        self.graph = graph
        self._output = graph.output
        self._run_state = run_state
        self._history = history or History()
        self._services = RunServices(factory, None if gate is None else as_flow_gate(gate), trace)
        self._busy = False

    @property
    def states(self) -> tuple[str, ...]:
        """The live states, in the order of their turns."""
        return tuple(self._run_state.live)

    @property
    def suspended(self) -> Suspended | None:
        """The suspension that waits for an answer, if there is one."""
        suspension = self._run_state.suspended
        return None if suspension is None else suspension_of(suspension, self.graph)

    @property
    def history(self) -> History:
        """Conversations of the run's agents."""
        return self._history

    def with_history(self, history: History) -> Self:
        """Replace the history; returns the runtime itself."""
        self._history = history
        return self

    def with_factory(self, factory: ClientFactory) -> Self:
        """Let `factory` create its agents' models (P-59); returns the runtime itself."""
        self._services = replace(self._services, factory=factory)
        return self

    def check_models(self) -> None:
        """Create every model that an agent names, without calling it. Raises `AgentError` (P-123).

        The choice of an agent's `configure` is unknown before the agent has its value.
        """
        for node in self.graph.distinct:
            if isinstance(node, AgentWork) and node.node.config is not None:
                config = node.node.config
                try:
                    self._services.client(config, options_of(config, node.gives.type))
                except Exception as error:
                    text = f"{label(node)}: invalid LLM URL: {error}"
                    raise AgentError(text, node.takes.key) from error

    def tools(self, ctx: Context) -> Sequence[Tool]:
        """Return the tools of the started agent, if any. Raises the errors of its `configure`."""
        running_agent = self._run_state.agent
        if running_agent is None:
            return ()
        node = self.graph.node(running_agent.agent)
        assert isinstance(node, AgentWork)
        return config_of(self._run_state, node, ctx).tools

    def snapshot(self) -> FlowSnapshot:
        """State of the run between two steps, without the history."""
        return take_snapshot(self._run_state, self.graph.fingerprint)

    async def next(self, ctx: Context) -> RunOut[O]:
        """Run one bounded step.

        Raises `ResumeRequired` while suspended, `Deadlock` if nothing can run, `StateConflict` if a value
        would be lost, and the node's errors.
        """
        with self._step():
            suspension = self._run_state.suspended
            if suspension is not None:
                raise ResumeRequired(suspension.tool_id)
            node = self._up_next()
            if node is None:
                return self._end()
            if isinstance(node, AgentWork):
                result = agent_step(self._run_state, self._history, node, ctx, self._services)
            else:
                result = self._plain(fire(self._run_state, node, ctx))
            return await self._take(node, result)

    async def resume(
        self,
        ctx: Context,
        tool_id: str,
        payload: JsonValue | BaseModel,
        *,
        call_id: str | None = None,
    ) -> RunOut[O]:
        """Resume with an answer to the suspension.

        Raises `UnexpectedResumption` if there is none, `ResumeMismatchError` if it is a different one,
        and `DeserializeError` for an answer that does not fit; then the suspension remains.
        """
        with self._step():
            suspension = self._run_state.suspended
            if suspension is None:
                raise UnexpectedResumption(tool_id)
            if tool_id != suspension.tool_id:
                raise ResumeMismatchError(suspension.tool_id, tool_id)
            if call_id is not None and call_id != suspension.call_id:
                raise ResumeMismatchError(
                    f"{suspension.tool_id} ({suspension.call_id})", f"{tool_id} ({call_id})"
                )
            node = self.graph.node(suspension.agent)
            if isinstance(node, AgentWork):
                result = agent_answered(
                    self._run_state, self._history, node, payload, ctx, self._services
                )
            else:
                assert isinstance(node, Suspend | Human)
                result = self._plain(answered(self._run_state, node, payload, ctx))
            return await self._take(node, result)

    async def run(
        self,
        ctx: Context,
        limits: RunLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> Done[O] | Suspended:
        """Run until the flow ends or waits. Raises `LimitExceeded` at a limit; a new call continues."""
        limits = limits or RunLimits()
        started_at, steps, turns = clock(), 0, 0
        while True:
            node = None if self._run_state.suspended is not None else self._up_next()
            if node is not None:
                if limits.max_steps is not None and steps >= limits.max_steps:
                    raise LimitExceeded("max_steps", limits.max_steps)
                if limits.max_seconds is not None and clock() - started_at >= limits.max_seconds:
                    raise LimitExceeded("max_seconds", limits.max_seconds)
                if limits.max_turns is not None and isinstance(node, AgentWork):
                    if turns >= limits.max_turns:
                        raise LimitExceeded("max_turns", limits.max_turns)
                    turns += 1
            match await self.next(ctx):
                case Continue():
                    steps += 1
                case result:
                    return result

    async def _take(self, node: Node, result: Awaitable[StepResult]) -> Continue | Suspended:
        """Run a step of `node`; its result takes effect only once it has ended."""
        if (trace := self._services.trace) is None:
            self._run_state, self._history = await result
            return self.suspended or Continue()
        key = " + ".join(state.key for state in node.inputs)
        with step(trace, key, node.kind) as seconds:
            self._run_state, self._history = await result
        suspension = self.suspended
        tell(
            trace,
            StepEnded(key, self.states, None if suspension is None else suspension.tool_id, seconds()),
        )
        return suspension or Continue()

    async def _plain(self, run_state: Awaitable[RunState]) -> StepResult:
        """Return the result of a node without an agent: its new state, and the history unchanged."""
        return await run_state, self._history

    def _up_next(self) -> Node | None:
        live = self._run_state.live
        return next_up(self.graph.nodes, live, live)

    def _end(self) -> Done[O]:
        """Return the output, if it is the only live state (P-54)."""
        live = self._run_state.live
        waiting_nodes = waiting(self.graph.nodes, live)
        if waiting_nodes:
            raise Deadlock(waiting_nodes)
        key = self.graph.gives.key
        return Done(loaded(live[key], self._output, key, "flow output"))

    @contextmanager
    def _step(self) -> Generator[None]:
        """Raise `RuntimeError` if another step is in progress (P-57)."""
        if self._busy:
            raise RuntimeError("step already in progress")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False


def _checked(flow: Drafts[I, O]) -> FlowGraph[I, O]:
    graph = flow if isinstance(flow, FlowGraph) else flow.draft().build()
    graph.check_output()
    return graph
