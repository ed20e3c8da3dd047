"""Layout of a small net's places and transitions in a picture.

Left to right as tokens flow: places in even columns, transitions in odd ones. A node whose input tokens
can never arrive is placed at the left as if they did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...engine.net.net import SkillNet, Transition


@dataclass(frozen=True, slots=True)
class Node:
    """A place or a transition, by its position in its net; its column, and its row in it, from 0."""

    position: int
    is_place: bool
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class NetLayout:
    """The nodes of a net: places by name, transitions in their order, and all by column."""

    places: Mapping[str, Node]
    transitions: Sequence[Node]
    columns: Sequence[Sequence[Node]]


def layout(net: SkillNet) -> NetLayout:
    """The columns of a net and the order within them.

    Transitions keep the net's order; a place is level with what leads to it.
    """
    places, transitions = _columns(net)
    order = [places[place] for place in net.places]
    columns: list[list[Node]] = []
    bars: dict[int, Node] = {}
    circles: dict[str, Node] = {}
    for column in range(1 + max([*order, *transitions.values()], default=-1)):
        if column % 2:
            found = [i for i in range(len(net.transitions)) if transitions[i] == column]
            nodes = [Node(position, False, column, row) for row, position in enumerate(found)]
            bars.update({node.position: node for node in nodes})
        else:
            found = [i for i in range(len(net.places)) if order[i] == column]
            found.sort(key=lambda i: _height(net, net.places[i], bars))
            nodes = [Node(position, True, column, row) for row, position in enumerate(found)]
            circles.update({net.places[node.position]: node for node in nodes})
        columns.append(nodes)
    return NetLayout(circles, [bars[i] for i in range(len(net.transitions))], columns)


def _reads(transition: Transition) -> list[str]:
    return list(dict.fromkeys([*transition.inputs, *(source for source, _ in transition.transfers)]))


def _writes(transition: Transition) -> list[str]:
    return list(dict.fromkeys([*transition.outputs, *(target for _, target in transition.transfers)]))


def _columns(net: SkillNet) -> tuple[dict[str, int], dict[int, int]]:
    """The column of every place and transition, in the order a token would reach them."""
    places = {place: 0 for place in net.places if net.initial_marking.get(place, 0)}
    transitions: dict[int, int] = {}
    while len(places) < len(net.places) or len(transitions) < len(net.transitions):
        ready = [
            (position, transition)
            for position, transition in enumerate(net.transitions)
            if position not in transitions and all(place in places for place in transition.inputs)
        ]
        if not ready:
            places[next(place for place in net.places if place not in places)] = 0
        for position, transition in ready:
            column = 1 + max((places[place] for place in transition.inputs), default=0)
            transitions[position] = column
            for place in _writes(transition):
                places.setdefault(place, column + 1)
    # A place that begins the net but is first needed later, such as a budget, goes where it is needed.
    for place in [place for place, column in places.items() if column == 0]:
        needing = [transitions[i] for i, t in enumerate(net.transitions) if place in _reads(t)]
        if needing:
            places[place] = min(needing) - 1
    return places, transitions


def _height(net: SkillNet, place: str, bars: Mapping[int, Node]) -> float:
    """Preferred row of a place: the mean of the transitions that lead to it; last if none does."""
    beside = [bar.row for position, bar in bars.items() if place in _writes(net.transitions[position])]
    return sum(beside) / len(beside) if beside else float(len(net.transitions))
