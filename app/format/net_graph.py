"""Nets as graphs for drawing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from ...engine.core.condition import condition_text
from ...engine.core.durations import format_duration
from ...engine.core.sanitize import visible
from ...engine.drawing.graph import Diagram, Edge, Node
from ...engine.net.net import SkillNet, Transition
from ...rules.parse.lines import code, head

LABEL = 60
NOTE = 140
"""Maximum characters of a note on who may approve."""
RULE = 100


def net_graph(key: str, net: SkillNet, marking: Mapping[str, int] | None = None) -> Diagram:
    """Return a net with its rule, at `marking` or its initial marking."""
    tokens = net.initial_marking if marking is None else marking
    places = {place: f"p{number}" for number, place in enumerate(net.places)}
    nodes = [
        Node(
            places[place],
            "place",
            _clipped(place),
            tokens=tokens.get(place, 0),
            initial=net.initial_marking.get(place, 0) > 0,
        )
        for place in net.places
    ]
    edges: list[Edge] = []
    for number, transition in enumerate(net.transitions):
        kind = "manual" if transition.type == "manual" else "transition"
        nodes.append(Node(f"t{number}", kind, _clipped(transition.name), _note(transition)))
        edges += _arcs(f"t{number}", transition, places)
    condition = _condition(net)
    source = None if net.rule is None else net.rule.source
    rule = "" if source is None else (head if condition else code)(source.text).strip()
    if condition and net.rule is not None and net.rule.because is not None:
        rule += f" because {json.dumps(net.rule.because, ensure_ascii=False)}"
    return Diagram(nodes, edges, _clipped(key), _clipped(rule, RULE), _clipped(condition, RULE))


def _arcs(key: str, transition: Transition, places: Mapping[str, str]) -> list[Edge]:
    """Return a transition's input arcs, its output arcs, then its transfer arcs."""
    edges = [Edge(places[p], key, label=_weight(n)) for p, n in Counter(transition.inputs).items()]
    edges += [Edge(key, places[p], label=_weight(n)) for p, n in Counter(transition.outputs).items()]
    amount = transition.amount
    if amount is not None:
        edges.append(Edge(places[amount.source], key, label=amount.field.name))
        edges += (
            [] if amount.target is None else [Edge(key, places[amount.target], label=amount.field.name)]
        )
    for source, target in transition.transfers:
        edges.append(Edge(places[source], key, "transfer", "all"))
        edges.append(Edge(key, places[target], "transfer", "all"))
    return edges


def _weight(tokens: int) -> str:
    return str(tokens) if tokens > 1 else ""


def _clipped(text: str, most: int = LABEL) -> str:
    """Return a name for a picture: one line, safe, and not too long."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _note(transition: Transition) -> str:
    """Return the condition for a transition to fire: tools, time, approval, success."""
    if transition.after is not None:
        return f"after {format_duration(transition.after)}"
    if not transition.tools:
        return "by itself"
    notes = [", ".join(transition.tools)]
    if transition.type == "manual":
        notes.append("needs one of several approvals" if transition.partial else "needs approval")
        if transition.approvers is not None:
            notes.append(transition.approvers.words)
    elif transition.partial:
        notes.append("partial")
    if transition.deferred:
        notes.append("on success")
    return _clipped(" · ".join(notes), LABEL if transition.approvers is None else NOTE)


def _condition(net: SkillNet) -> str:
    """Return `when input.env = "prod"`, for a hand-built net after the governed calls; may be empty."""
    if net.condition is None:
        return ""
    governed = f"{', '.join(net.governs)} " if net.rule is None else ""
    return f"{governed}when {condition_text(net.condition)}"
