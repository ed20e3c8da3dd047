"""Flows as Mermaid flowcharts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...core.sanitize import visible
from .nodes import Node, full_name, states_of

_SHAPES = {
    "work": ("[", "]"),
    "agent": ("[[", "]]"),
    "either": ("{", "}"),
    "fork": ("[/", "\\]"),
    "join": ("[\\", "/]"),
    "suspend": ("[/", "/]"),
    "human": ("[/", "/]"),
    "each": ("[(", ")]"),
}


def mermaid(entry: str, nodes: Sequence[Node], *, live: Collection[str] = (), named: bool = False) -> str:
    """A flowchart: states are rounded, each kind of node has its shape, `live` states are highlighted.

    With `named` nodes have their functions' names next to their kind, and live states say that they are.
    """
    states = dict.fromkeys((entry, *(state.key for node in nodes for state in states_of(node))))
    number = {key: f"s{n}" for n, key in enumerate(states)}
    lines = ["flowchart TD"]
    said = {key: f"{key} - live" if named and key in live else key for key in states}
    lines += [f"    {number[key]}([{_quoted(text)}])" for key, text in said.items()]
    for n, node in enumerate(nodes):
        begin, end = _SHAPES[node.kind]
        lines.append(f"    n{n}{begin}{_quoted(full_name(node) if named else node.kind)}{end}")
        lines += [f"    {number[state.key]} --> n{n}" for state in node.inputs]
        given = dict.fromkeys(state.key for outcome in node.outcomes for state in outcome)
        arrow = "-.->" if len(node.outcomes) > 1 else "-->"
        lines += [f"    n{n} {arrow} {number[key]}" for key in given]
    shown = [number[key] for key in live if key in number]
    if shown:
        lines += ["    classDef live stroke-width:4px", f"    class {','.join(shown)} live"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A label that nothing in it can end: marks of Mermaid and HTML are written as entities."""
    kept = (c if c.isalnum() or c in " _-.:," else f"#{ord(c)};" for c in visible(text))
    return f'"{"".join(kept)}"'
