"""Flows as graphs to draw."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...drawing.graph import Diagram, Edge
from ...drawing.graph import Node as Drawn
from .nodes import Node, full_name, states_of


def diagram(
    entry: str, nodes: Sequence[Node], live: Collection[str] = (), *, named: bool = False
) -> Diagram:
    """Return the states and nodes of a flow that starts in `entry`; `live` states are highlighted.

    With `named`, nodes have their functions' names next to their kind, and live states are labelled as
    live.
    """
    states = dict.fromkeys((entry, *(state.key for node in nodes for state in states_of(node))))
    keys = {state: f"s{number}" for number, state in enumerate(states)}
    drawn_nodes = [
        Drawn(
            key,
            "state",
            state,
            note="live" if named and state in live else "",
            initial=state == entry,
            live=state in live,
        )
        for state, key in keys.items()
    ]
    edges: list[Edge] = []
    for number, node in enumerate(nodes):
        key = f"n{number}"
        drawn_nodes.append(Drawn(key, node.kind, full_name(node) if named else node.kind))
        edges += [Edge(keys[state.key], key) for state in node.inputs]
        outputs = dict.fromkeys(state.key for outcome in node.outcomes for state in outcome)
        edges += [Edge(key, keys[s], "choice" if len(node.outcomes) > 1 else "arc") for s in outputs]
    return Diagram(drawn_nodes, edges)
