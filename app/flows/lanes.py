"""A flow's graph as lines, one per state, in the order in which a run meets them. Pure.

A lane splits where one state leads to several, and lanes join where several lead to one.

    ├─╮      the lane of the state above splits
    ○ │  A   one branch to its end, then the next
    │ ○  B
    ├─╯      and both join in the state below
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...engine.drawing.layout import forward
from ...engine.history.model.records import NetRecord


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A line of the drawing: text before and after the mark of `state`; `None` if lanes split or join."""

    state: str | None
    before: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Drawing of a flow. `back` maps each state to the earlier states that it returns to.

    `ranks` groups the states by their greatest number of steps from the beginning.
    """

    rows: Sequence[LaneRow]
    back: Mapping[str, Sequence[str]]
    ranks: Sequence[Sequence[str]]
    width: int

    @property
    def order(self) -> list[str]:
        """States from the first to the last."""
        return [row.state for row in self.rows if row.state is not None]


def lanes_of(net: NetRecord) -> Lanes:
    """Draw a flow's net."""
    ahead, back = _apart(net)
    sources: dict[str, set[str]] = {state: set() for state in ahead}
    for state, targets in ahead.items():
        for target in targets:
            sources[target].add(state)
    rows: list[LaneRow] = []
    lanes: list[str | None] = []
    met: set[str] = set()
    while len(met) < len(sources):
        state = next((s for s in lanes if s is not None and sources[s] <= met), None)
        if state is None:
            # The initial state, or one that cannot be reached.
            state = next(s for s in sources if s not in met and sources[s] <= met)
            _take(lanes, 0, state)
        members = [number for number, target in enumerate(lanes) if target == state]
        if len(members) > 1:
            rows.append(_knot(lanes, members, "┴╯"))
        for number in members[1:]:
            lanes[number] = None
        index = members[0]
        signs = ["│ " if target is not None else "  " for target in lanes]
        after = " " + "".join(signs[index + 1 :])
        rows.append(LaneRow(state, "".join(signs[:index]), after.rstrip()))
        met.add(state)
        first, *more = ahead[state] or (None,)
        lanes[index] = first
        branches = [index, *(_take(lanes, index + 1, target) for target in more)]
        if more:
            rows.append(_knot(lanes, branches, "┬╮"))
        while lanes and lanes[-1] is None:
            lanes.pop()
    width = max((len(row.before) + len(row.after) + 1 for row in rows), default=1)
    return Lanes(rows, back, _ranks(rows, sources), width)


def _ranks(rows: Iterable[LaneRow], sources: Mapping[str, Collection[str]]) -> list[list[str]]:
    ranks: list[list[str]] = []
    at: dict[str, int] = {}
    for state in (row.state for row in rows if row.state is not None):
        at[state] = max((at[each] + 1 for each in sources[state]), default=0)
        ranks += [[] for _ in range(at[state] + 1 - len(ranks))]
        ranks[at[state]].append(state)
    return ranks


def _take(lanes: list[str | None], first: int, target: str | None) -> int:
    """Assign the first free lane, counted from `first`, to `target`; return its number."""
    number = next((n for n in range(first, len(lanes)) if lanes[n] is None), max(first, len(lanes)))
    lanes += [None] * (number + 1 - len(lanes))
    lanes[number] = target
    return number


def _knot(lanes: Sequence[str | None], members: Sequence[int], signs: str) -> LaneRow:
    """Return a line on which lanes split or join; it crosses the lanes between them."""
    first, last = min(members), max(members)
    text = ""
    for number, target in enumerate(lanes):
        inside = first <= number < last
        if number == first:
            sign = "├"
        elif number in members:
            sign = signs[number == last]
        elif inside:
            sign = "─" if target is None else "┼"
        else:
            sign = " " if target is None else "│"
        text += sign + ("─" if inside else " ")
    return LaneRow(None, text.rstrip())


def _apart(net: NetRecord) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the successors of each state: those ahead, and those that a run returns to."""
    leads: dict[str, dict[str, None]] = {place: {} for place in net.places}
    for transition in net.transitions:
        for state in transition.outputs:
            leads.setdefault(state, {})
        for state in transition.inputs:
            leads.setdefault(state, {}).update(dict.fromkeys(transition.outputs))
    first = [place for place in leads if net.initial_marking.get(place, 0)]
    forwards = forward(leads, first)
    ahead = {state: forwards[state] for state in leads}
    back = {state: [each for each in leads[state] if each not in ahead[state]] for state in leads}
    return ahead, {state: targets for state, targets in back.items() if targets}


def passed(net: NetRecord, lanes: Lanes, live: Iterable[str]) -> set[str]:
    """Return the states that a run has certainly passed before it reached `live`.

    If several ways lead there, these are the states common to all of them.
    """
    before: dict[str, set[str]] = {}
    for state in lanes.order:
        ways = [
            set(t.inputs).union(*(before[each] for each in t.inputs))
            for t in net.transitions
            if state in t.outputs and all(state not in lanes.back.get(each, ()) for each in t.inputs)
        ]
        before[state] = set[str].intersection(*ways) if ways else set()
    nodes = set(live)
    return set[str]().union(*(before.get(state, ()) for state in nodes)) - nodes
