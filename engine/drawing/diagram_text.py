"""Graphs as text for other drawing programs: Mermaid and DOT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..core.sanitize import visible
from .graph import Diagram, Direction, Edge, Kind, Node

DOTS = 4
"""Most tokens that are drawn as dots; more are shown as a number."""

BRACKETS: Mapping[Kind, tuple[str, str]] = {
    "place": ("((", "))"),
    "transition": ("[", "]"),
    "manual": ("[[", "]]"),
    "state": ("([", "])"),
    "work": ("[", "]"),
    "agent": ("[[", "]]"),
    "either": ("{", "}"),
    "fork": ("[/", "\\]"),
    "join": ("[\\", "/]"),
    "suspend": ("[/", "/]"),
    "human": ("[/", "/]"),
    "each": ("[(", ")]"),
}
_PLAIN = frozenset(" .,:()=·●…'/+-")


def mermaid(graphs: Sequence[Diagram], direction: Direction = "LR") -> str:
    """The graphs as one Mermaid flowchart; those with a title become subgraphs."""
    lines = [f"flowchart {direction}"]
    for number, graph in enumerate(graphs):
        prefix = f"n{number}" if graph.title else ""
        if graph.title:
            title = " · ".join(filter(None, [graph.title, graph.condition]))
            lines += [f"  subgraph {prefix}[{_mermaid(title)}]", f"    direction {direction}"]
        lines += [f"    {line}" for line in _mermaid_lines(graph, prefix)]
        if graph.title:
            lines.append("  end")
    return "\n".join([*lines, ""])


def _mermaid_lines(graph: Diagram, prefix: str) -> Iterable[str]:
    for node in _ordered(graph):
        begin, end = BRACKETS[node.kind]
        note = f"- {node.note}" if node.is_place else f"({node.note})"
        parts = [node.name, _dots(node.tokens), note if node.note else ""]
        text = " ".join(filter(None, parts))
        yield f"{prefix}{node.key}{begin}{_mermaid(text)}{end}"
        for edge in [] if node.is_place else graph.edges_of(node):
            arrow = "-.->" if edge.dashed else "-->"
            label = f"|{_mermaid(edge.label)}|" if edge.label else ""
            yield f"{prefix}{edge.source} {arrow}{label} {prefix}{edge.target}"
    live = ",".join(prefix + node.key for node in graph.nodes if node.live)
    if live:
        yield "classDef live stroke-width:4px"
        yield f"class {live} live"


def dot(graphs: Sequence[Diagram]) -> str:
    """The graphs as one DOT graph with a cluster for each: circles for places, boxes for steps."""
    lines = [
        "digraph nets {",
        "  rankdir=LR;",
        '  node [fontname="sans-serif", fontsize=11];',
        '  edge [fontname="sans-serif", fontsize=10, arrowsize=0.7];',
    ]
    for number, graph in enumerate(graphs):
        title = _dot(graph.title, graph.rule, graph.condition)
        lines += [f"  subgraph cluster_{number} {{", f"    label={title};", "    color=gray70;"]
        for node in _ordered(graph):
            lines.append(f"    n{number}{node.key} [{_dot_look(node)}];")
            for edge in [] if node.is_place else graph.edges_of(node):
                lines.append(f"    n{number}{edge.source} -> n{number}{edge.target}{_dot_style(edge)};")
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _dot_look(node: Node) -> str:
    if node.is_place:
        look = "shape=circle, fixedsize=true, width=0.5"
        return f"{look}, label={_dot(_dots(node.tokens))}, xlabel={_dot(node.name)}"
    look = "style=bold" if node.kind == "manual" else 'style=filled, fillcolor="gray90"'
    return f"shape=box, {look}, label={_dot(node.name, node.note)}"


def _dot_style(edge: Edge) -> str:
    traits = ["style=dashed"] if edge.dashed else []
    traits += [f"label={_dot(edge.label)}"] if edge.label else []
    return f" [{', '.join(traits)}]" if traits else ""


def _ordered(graph: Diagram) -> list[Node]:
    """Places and states first, then the steps between them."""
    return sorted(graph.nodes, key=lambda node: not node.is_place)


def _dots(number: int) -> str:
    """A dot for each token, or their number if there are many."""
    return "●" * number if number <= DOTS else str(number)


def _mermaid(text: str) -> str:
    """A Mermaid string that its content cannot end: possible markup becomes character codes."""
    safe = (c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" for c in visible(text))
    return f'"{"".join(safe)}"'


def _dot(*lines: str) -> str:
    r"""A DOT string; DOT has few escapes, and a line break is `\n`."""
    escaped = (visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines if line)
    return '"' + "\\n".join(escaped) + '"'
