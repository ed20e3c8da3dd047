"""Nets as text that other programs draw: DOT and Mermaid. `draw_svg` has Interlock's own pictures.

Each function takes nets by key and draws them at their initial marking, or at the one given for a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...engine.core.condition import condition_text
from ...engine.core.durations import format_duration
from ...engine.core.sanitize import visible
from ...engine.net.net import SkillNet, Transition
from ...rules.parse.lines import code, head

Nets: TypeAlias = Mapping[str, SkillNet]
Markings: TypeAlias = Mapping[str, Mapping[str, int]]

LABEL = 60
RULE = 100
DOTS = 4


@dataclass(frozen=True, slots=True)
class Arc:
    """An arc between a place and the transition at a position of its net.

    A transfer moves all tokens there are. Positions, since two transitions may share a name.
    """

    place: str
    transition: int
    into: bool
    weight: int = 1
    transfer: bool = False

    @property
    def label(self) -> str:
        """Label of the arc; empty for one token."""
        return "all" if self.transfer else (str(self.weight) if self.weight > 1 else "")


def arcs(position: int, transition: Transition) -> Iterator[Arc]:
    """The arcs of a transition: into it, out of it, then those of its transfers."""
    for place, weight in Counter(transition.inputs).items():
        yield Arc(place, position, True, weight)
    for place, weight in Counter(transition.outputs).items():
        yield Arc(place, position, False, weight)
    for source, target in transition.transfers:
        yield Arc(source, position, True, transfer=True)
        yield Arc(target, position, False, transfer=True)


def clipped(text: str, most: int = LABEL) -> str:
    """A name as a picture shows it: one line, safe, and not too long."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def notes(transition: Transition) -> str:
    """Condition for a transition to fire, shown with its name: tools, time, approval, success."""
    if transition.after is not None:
        return f"after {format_duration(transition.after)}"
    if not transition.tools:
        return "by itself"
    several = "needs one of several approvals" if transition.partial else "needs approval"
    manual = [several] if transition.type == "manual" else []
    partial = ["partial"] if transition.partial and not manual else []
    deferred = ["on success"] if transition.deferred else []
    return clipped(" · ".join([", ".join(transition.tools), *manual, *partial, *deferred]))


def described(net: SkillNet) -> list[str]:
    """Lines below a net's name: its rule without comment and condition, then the condition."""
    source = None if net.rule is None else net.rule.source
    condition = _net_condition(net)
    lines = [] if source is None else [(head if condition else code)(source.text).strip()]
    return [clipped(line, RULE) for line in (*lines, condition) if line]


def _net_condition(net: SkillNet) -> str:
    """`when input.env = "prod"`; of a hand-built net also of which calls; empty without a condition."""
    if net.condition is None:
        return ""
    of = f"{', '.join(net.governs)} " if net.rule is None else ""
    return f"{of}when {condition_text(net.condition)}"


def marking_of(key: str, net: SkillNet, markings: Markings | None) -> Mapping[str, int]:
    """The marking a net is drawn at."""
    return net.initial_marking if markings is None or key not in markings else markings[key]


def to_dot(nets: Nets, markings: Markings | None = None) -> str:
    """The nets as one DOT graph, a cluster each: circles for places, bars for transitions."""
    lines = [
        "digraph nets {",
        "  rankdir=LR;",
        '  node [fontname="sans-serif", fontsize=11];',
        '  edge [fontname="sans-serif", fontsize=10, arrowsize=0.7];',
    ]
    for number, (key, net) in enumerate(nets.items()):
        marking = marking_of(key, net, markings)
        title = "\n".join([clipped(key), *described(net)])
        lines += [f"  subgraph cluster_{number} {{", f"    label={_dot(title)};", "    color=gray70;"]
        places = {place: f"n{number}p{i}" for i, place in enumerate(net.places)}
        for place, node in places.items():
            label = _tokens(marking.get(place, 0))
            lines.append(
                f"    {node} [shape=circle, fixedsize=true, width=0.5, "
                f"label={_dot(label)}, xlabel={_dot(clipped(place))}];"
            )
        for i, transition in enumerate(net.transitions):
            node = f"n{number}t{i}"
            look = "style=bold" if transition.type == "manual" else 'style=filled, fillcolor="gray90"'
            text = f"{clipped(transition.name)}\n{notes(transition)}"
            lines.append(f"    {node} [shape=box, {look}, label={_dot(text)}];")
            for arc in arcs(i, transition):
                ends = (places[arc.place], node) if arc.into else (node, places[arc.place])
                dashed = ["style=dashed"] if arc.transfer else []
                label = [f"label={_dot(arc.label)}"] if arc.label else []
                traits = ", ".join(dashed + label)
                lines.append(f"    {ends[0]} -> {ends[1]}{f' [{traits}]' if traits else ''};")
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def to_mermaid(nets: Nets, markings: Markings | None = None) -> str:
    """The nets as one Mermaid flowchart, a subgraph each: circles for places, boxes for transitions."""
    lines = ["flowchart LR"]
    for number, (key, net) in enumerate(nets.items()):
        marking = marking_of(key, net, markings)
        title = " · ".join(map(clipped, filter(None, [key, _net_condition(net)])))
        lines.append(f"  subgraph n{number}[{_mermaid(title)}]")
        lines.append("    direction LR")
        places = {place: f"n{number}p{i}" for i, place in enumerate(net.places)}
        for place, node in places.items():
            tokens = _tokens(marking.get(place, 0))
            text = f"{clipped(place)} {tokens}".rstrip()
            lines.append(f"    {node}(({_mermaid(text)}))")
        for i, transition in enumerate(net.transitions):
            node = f"n{number}t{i}"
            text = f"{clipped(transition.name)} ({notes(transition)})"
            left, right = ("[[", "]]") if transition.type == "manual" else ("[", "]")
            lines.append(f"    {node}{left}{_mermaid(text)}{right}")
            for arc in arcs(i, transition):
                ends = (places[arc.place], node) if arc.into else (node, places[arc.place])
                arrow = "-.->" if arc.transfer else "-->"
                label = f"|{_mermaid(arc.label)}|" if arc.label else ""
                lines.append(f"    {ends[0]} {arrow}{label} {ends[1]}")
        lines.append("  end")
    return "\n".join([*lines, ""])


def _tokens(number: int) -> str:
    return "●" * number if number <= DOTS else str(number)


def _dot(text: str) -> str:
    r"""A DOT string; its escapes are few, and a line break is `\n`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_MERMAID = {ord(c): f"#{ord(c)};" for c in '"#&<>`;\\*_{}|[]~$'}


def _mermaid(text: str) -> str:
    """A Mermaid string: what it would take for markup becomes character codes."""
    return f'"{text.translate(_MERMAID)}"'
