"""Layered layout of a graph: each node is in a layer after its predecessors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median_low

from .graph import Diagram, Edge, Node


def forward(after: Mapping[str, Iterable[str]], first: Iterable[str]) -> dict[str, list[str]]:
    """Successors of each node without back edges, in topological order.

    Loops are entered at the nodes of `first`, then in the order of `after`.
    """
    ended: dict[str, list[str]] = {}
    for root in (*first, *after):
        if root in ended:
            continue
        ahead: dict[str, list[str]] = {root: []}
        path = [(root, iter(after[root]))]
        while path:
            node, successors = path[-1]
            successor = next(successors, None)
            if successor is None:
                ended[node] = ahead.pop(node)
                path.pop()
            elif successor in ended:
                ahead[node].append(successor)
            elif successor not in ahead:
                ahead[node].append(successor)
                ahead[successor] = []
                path.append((successor, iter(after[successor])))
    return dict(reversed(ended.items()))


def layers(graph: Diagram) -> list[list[Node]]:
    """The nodes by layer, ordered within each; places are in even layers, steps in odd ones.

    A node is placed at the row of its predecessors. A node without any, such as a budget, is just before
    the first node that needs it.
    """
    ahead = forward(_successors(graph), [node.key for node in graph.nodes if node.initial])
    layer = {node.key: 0 if node.is_place else 1 for node in graph.nodes}
    for key, successors in ahead.items():
        for successor in successors:
            layer[successor] = max(layer[successor], layer[key] + 1)
    behind = {successor for successors in ahead.values() for successor in successors}
    for key in [key for key in layer if key not in behind]:
        needing = [layer[edge.target] for edge in graph.edges if edge.source == key]
        layer[key] = max(layer[key], min(needing, default=0) - 1)
    rows: dict[str, int] = {}
    found: list[list[Node]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
    for node in graph.nodes:
        found[layer[node.key]].append(node)
    for members in found:
        level = {node.key: _level(node, graph.edges, rows) for node in members}
        members.sort(key=lambda node: level[node.key])
        rows.update({node.key: row for row, node in enumerate(members)})
    return found


def _successors(graph: Diagram) -> dict[str, dict[str, None]]:
    """Successors of each node: a transfer enables no step, and no node leads to an initial one."""
    nodes = {node.key: node for node in graph.nodes}
    after: dict[str, dict[str, None]] = {key: {} for key in nodes}
    for edge in graph.edges:
        target = nodes[edge.target]
        if not target.initial and (target.is_place or edge.style != "transfer"):
            after[edge.source][edge.target] = None
    return after


def _level(node: Node, edges: Iterable[Edge], rows: Mapping[str, int]) -> float:
    """Middle row of a node's predecessors in earlier layers; the last row if there are none."""
    sources = [rows[e.source] for e in edges if e.target == node.key and e.source in rows]
    return median_low(sources) if sources else float("inf")
