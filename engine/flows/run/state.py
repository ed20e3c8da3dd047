"""State of a run: plain data that a step replaces, so that a failing step changes nothing (P-56)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from ...agents.messages import ProposedCall
from ..build.graph import Graph
from ..build.nodes import AgentWork, Each, Human, Suspend
from ..errors import DeserializeError, SnapLoadError
from .scheduler import Suspended
from .snapshot import VERSION, AgentProgress, Collected, FlowSnapshot, LiveState, PendingSuspension
from .values import copied, copied_object, loaded


@dataclass(frozen=True, slots=True)
class RunState:
    """The live states and their values as text, in order; see `FlowSnapshot` for the other fields."""

    live: Mapping[str, bytes]
    collected: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict[str, "tuple[bytes, ...]"])
    agent: AgentProgress | None = None
    pending: tuple[ProposedCall, ...] = ()
    suspended: PendingSuspension | None = None


def take_snapshot(run_state: RunState, fingerprint: str) -> FlowSnapshot:
    """Return a snapshot that shares nothing with the run."""
    return FlowSnapshot(
        graph_fingerprint=fingerprint,
        states=tuple(LiveState(key=key, value=from_json(text)) for key, text in run_state.live.items()),
        collected=tuple(
            Collected(key=key, results=tuple(map(from_json, texts)))
            for key, texts in run_state.collected.items()
        ),
        agent=run_state.agent,
        pending=run_state.pending,
        suspended=_copied_suspension(run_state.suspended),
    )


def restore_state(snapshot: FlowSnapshot, graph: Graph) -> RunState:
    """Return the state of a run from its snapshot. Raises `SnapLoadError` if it does not fit (P-97)."""
    if snapshot.version != VERSION:
        raise SnapLoadError(f"The snapshot has version {snapshot.version}, expected {VERSION}")
    if snapshot.graph_fingerprint != graph.fingerprint:
        raise SnapLoadError(
            f"The snapshot is of a graph with fingerprint {snapshot.graph_fingerprint}, "
            f"flow '{graph.takes.key}' has {graph.fingerprint}: its nodes have changed since"
        )
    live: dict[str, bytes] = {}
    for state in snapshot.states:
        if state.key in live:
            raise SnapLoadError(f"The snapshot has state '{state.key}' twice")
        live[state.key] = _checked(state, graph)
    if not live:
        raise SnapLoadError("The snapshot has no live state")
    results_by_key: dict[str, tuple[bytes, ...]] = {}
    for entry in snapshot.collected:
        node = graph.nodes.get(entry.key)
        if not isinstance(node, Each) or entry.key not in live:
            raise SnapLoadError(f"The snapshot has results of '{entry.key}', which is not a live each")
        for result in entry.results:
            _fits(to_json(result), node.item, entry.key)
        results_by_key[entry.key] = tuple(map(to_json, entry.results))
    for progress in (snapshot.agent, snapshot.suspended):
        key = None if progress is None else progress.agent
        if key is not None and (key not in live or key not in graph.nodes):
            raise SnapLoadError(f"The snapshot stands in '{key}', which is not a live node")
    _check_agent(snapshot, graph)
    return RunState(
        live, results_by_key, snapshot.agent, snapshot.pending, _copied_suspension(snapshot.suspended)
    )


def _copied_suspension(suspension: PendingSuspension | None) -> PendingSuspension | None:
    """Return a copy that shares nothing with the original."""
    if suspension is None:
        return None
    copies: dict[str, object] = {
        "value": copied(suspension.value),
        "args": copied_object(suspension.args),
        "written": copied_object(suspension.written),
    }
    return suspension.model_copy(update=copies)


def suspension_of(suspension: PendingSuspension, graph: Graph) -> Suspended:
    """Return a copy of the pending suspension for callers."""
    return Suspended(
        value=copied(suspension.value),
        tool_id=suspension.tool_id,
        call_id=suspension.call_id,
        kind=suspension.kind,
        args=copied_object(suspension.args),
        agent=suspension.agent,
        expects=copied_object(graph.answers[suspension.agent]) if suspension.kind == "input" else None,
    )


def _checked(state: LiveState, graph: Graph) -> bytes:
    if state.key not in graph.nodes and state.key != graph.gives.key:
        raise SnapLoadError(
            f"The snapshot has a live state '{state.key}', which is neither a node nor the output of "
            f"flow '{graph.takes.key}'"
        )
    text = to_json(state.value)
    _fits(text, graph.states[state.key], state.key)
    return text


def _fits(text: bytes, model: type[BaseModel], key: str) -> None:
    try:
        loaded(text, model, key, f"state '{key}'")
    except DeserializeError as error:
        raise SnapLoadError(f"The snapshot does not fit the flow: {error}") from error


def _check_agent(snapshot: FlowSnapshot, graph: Graph) -> None:
    """Check that the node can wait as the suspension says, and that its waiting call is pending."""
    running_agent, suspension = snapshot.agent, snapshot.suspended
    if running_agent is not None and not isinstance(graph.nodes[running_agent.agent], AgentWork):
        raise SnapLoadError(f"The snapshot has agent '{running_agent.agent}', which is not an agent")
    if suspension is None:
        if snapshot.pending:
            raise SnapLoadError("The snapshot has pending calls, but no suspension")
        return
    match graph.nodes[suspension.agent], suspension.kind:
        case (Suspend(), "input") | (Human(), "choice"):
            return
        case AgentWork(), "tool" | "approval":
            first = snapshot.pending[0].call_id if snapshot.pending else None
            if (
                running_agent is None
                or running_agent.agent != suspension.agent
                or first != suspension.call_id
            ):
                raise SnapLoadError(
                    f"The snapshot waits at '{suspension.tool_id}', but no such call is pending"
                )
        case _:
            raise SnapLoadError(
                f"The snapshot waits at '{suspension.tool_id}', where no such suspension is possible"
            )
