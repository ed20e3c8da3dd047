"""Exploration of all runs of a flow in their real order, to find faults that occur in some of them.

The order of a run is fixed except for the choices of `either`, so this finds exactly what can happen. The
flow's net may fire in any order, and would also show runs that the order excludes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..run.scheduler import after, conflict, next_up, waiting
from .nodes import Nodes, label, outcome_label

MOST_STATES = 10_000

Live: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Fault of a flow: after the steps of `path`, `states` would be overwritten or wait forever.

    No other path to the fault has fewer steps.
    """

    kind: Literal["overwrite", "deadlock"]
    states: tuple[str, ...]
    node: str | None
    path: tuple[str, ...]

    def __str__(self) -> str:
        way = f"after {' → '.join(self.path)}" if self.path else "from the start"
        if self.kind == "overwrite":
            return f"{self.node} would overwrite state '{self.states[0]}', {way}"
        return f"deadlock: states [{', '.join(self.states)}] wait and no join is ready, {way}"


@dataclass(frozen=True, slots=True)
class Walk:
    """Exploration of a flow's runs. With `complete`, it has all findings and all joins that can fire.

    `ends` is true if some run ends with terminals only.
    """

    findings: tuple[Finding, ...]
    fired: frozenset[str]
    ends: bool
    complete: bool


def walk(entry: str, nodes: Nodes) -> Walk:
    """Search the states of runs breadth-first, at most `MOST_STATES` of them."""
    start: Live = (entry,)
    came: dict[Live, tuple[Live, str] | None] = {start: None}
    findings: dict[tuple[str, tuple[str, ...]], Finding] = {}
    fired_labels: set[str] = set()
    queue: list[Live] = [start]
    ends = False
    for live in queue:
        node = next_up(nodes, live, live)
        if node is None:
            waiting_nodes = tuple(waiting(nodes, live))
            ends = ends or not waiting_nodes
            if waiting_nodes:
                finding = Finding("deadlock", waiting_nodes, None, _path(came, live))
                findings.setdefault(("deadlock", waiting_nodes), finding)
            continue
        fired_labels.add(label(node))
        for number, outcome in enumerate(node.outcomes):
            outputs = dict.fromkeys(state.key for state in outcome)
            lost_state = conflict(node, outputs, live)
            if lost_state is not None:
                finding = Finding(
                    "overwrite", (lost_state,), outcome_label(node, number), _path(came, live)
                )
                findings.setdefault((finding.node or "", finding.states), finding)
                continue
            next_live = tuple(after(dict.fromkeys(live), node, outputs))
            if next_live in came:
                continue
            if len(came) >= MOST_STATES:
                return Walk(tuple(findings.values()), frozenset(fired_labels), ends, False)
            came[next_live] = (live, outcome_label(node, number))
            queue.append(next_live)
    return Walk(tuple(findings.values()), frozenset(fired_labels), ends, True)


def _path(came: dict[Live, tuple[Live, str] | None], live: Live) -> tuple[str, ...]:
    steps: list[str] = []
    before = came[live]
    while before is not None:
        live, step = before
        steps.append(step)
        before = came[live]
    return tuple(reversed(steps))
