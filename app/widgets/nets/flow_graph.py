"""Picture of a flow's graph: a line per state, with the flow's position and the state's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from ....engine.history.fold.flow_steps import next_up
from ....engine.history.model.records import TransitionRecord
from ....engine.history.model.state import FlowState, SessionState
from ...flows.lanes import LaneRow, Lanes, lanes_of, passed
from ...format.text import MUTED, clip, legend, pad, shown, width_of
from ..base.blocks import Block
from .flow_lines import awaited_request, flow_words, running_in, worked

PEOPLE = {"suspend": "an operator answers", "human": "an operator chooses"}
"""Labels of the nodes that wait for an operator, by kind."""
SIGNS = "✓ passed", "● here", "◐ waits for an answer", "○ not yet"
LIVE, PASSED, WAITS, FAILED = (
    "bold $text-accent",
    "$text-success",
    "bold $text-warning",
    "bold $text-error",
)


def flow_picture(state: SessionState) -> list[Block]:
    """Return the graph: every state with its nodes; live states, passed states, and the next node."""
    flow = state.flow
    if flow is None:
        return []
    words, graph = flow_words(state), _Graph.of(state, flow)
    stamp = (words.plain, state.status, tuple(flow.live), flow.step)
    return [
        Block("flow head", stamp, lambda width: [*words.wrap(width), Content("")]),
        Block("flow graph", stamp, graph.lines),
        Block("flow legend", 0, lambda width: [Content(""), *legend(SIGNS, width)]),
    ]


@dataclass(frozen=True, slots=True)
class _Graph:
    """Data of a drawing: a run's session and flow at one moment."""

    session: SessionState
    flow: FlowState
    lanes: Lanes
    behind: frozenset[str]
    waiting: frozenset[str]

    @classmethod
    def of(cls, session: SessionState, flow: FlowState) -> _Graph:
        lanes = lanes_of(flow.flow.net)
        return cls(
            session,
            flow,
            lanes,
            frozenset(passed(flow.flow.net, lanes, flow.live)),
            frozenset() if running_in(session) else frozenset(_waiting(flow)),
        )

    def lines(self, width: int) -> list[Content]:
        places = self.flow.flow.net.places
        column = min(max((width_of(shown(p)) for p in places), default=4), max(6, width // 3))
        # A graph with too many lanes to fit names beside them is drawn as a list.
        broad = self.lanes.width if self.lanes.width <= width // 2 else 0
        rows = [row for row in self.lanes.rows if broad or row.state is not None]
        above = Content.styled(f"{' ' * ((broad or 1) + 4)}{pad('state', column)}  node", MUTED)
        lines = [above, *(self._line(row, broad, column) for row in rows)]
        return [line.truncate(width, ellipsis=True) for line in lines]

    def _line(self, row: LaneRow, broad: int, column: int) -> Content:
        if row.state is None:
            return Content.styled(f"  {row.before}", MUTED)
        sign, style = self._sign(row.state)
        before, after = (row.before, row.after) if broad else ("", "")
        gap = " " * ((broad or 1) - len(before) - len(after) + 1)
        name = pad(clip(shown(row.state), column), column)
        plain = "" if row.state in self.behind else MUTED
        return Content.assemble(
            (f"  {before}", MUTED),
            (sign, style),
            (f"{after}{gap}", MUTED),
            (name, style if row.state in self.flow.live else plain),
            "  ",
            self._node(row.state),
        )

    def _sign(self, state: str) -> tuple[str, str]:
        if state not in self.flow.live:
            return ("✓", PASSED) if state in self.behind else ("○", MUTED)
        if self.flow.done:
            return "✓", PASSED
        if self.session.status == "failed":
            return "✗", FAILED
        return ("◐", WAITS) if state in self.waiting else ("●", LIVE)

    def _node(self, state: str) -> Content:
        """Return the line on a state's nodes: names, other inputs, loops back, and current role."""
        takers = [t for t in self.flow.flow.net.transitions if state in t.inputs]
        mark, style = self._now(state, takers)
        names = self.flow.flow.names
        named = (_named(t, names.get(t.name, ""), state, brief=bool(mark)) for t in takers)
        pieces = list(dict.fromkeys(named))
        if back := self.lanes.back.get(state):
            pieces.append(f"{'' if len(back) == len(takers) else 'or '}back to {_names(back)}")
        if not takers and state == self.flow.flow.output:
            pieces.append("the end")
        plain = "" if mark or state in self.behind else MUTED
        return Content.assemble(
            (" · ".join(pieces), plain), "   " if mark and pieces else "", (mark, style)
        )

    def _now(self, state: str, takers: Sequence[TransitionRecord]) -> tuple[str, str]:
        """Return the current role of a state's node, and its style; of a join, at its last state only."""
        flow = self.flow
        last = set(worked(flow))
        if any(taker.name in last and self._last_of(taker, state) for taker in takers):
            return "Δ worked last", LIVE
        runs = next_up(flow)
        is_next = any(taker in runs and self._last_of(taker, state) for taker in takers)
        if self.session.status == "failed":
            return ("ended here", FAILED) if is_next else ("", MUTED)
        if state in self.waiting:
            request = awaited_request(self.session)
            if request is None:
                return "waits", WAITS
            called = "an answer" if request.wants is not None else f"approval of {_names([request.tool])}"
            return f"waits for {called}", WAITS
        if not is_next:
            return "", MUTED
        if called := running_in(self.session):
            return called, LIVE
        return ("is at work" if flow.node == " + ".join(runs[0].inputs) else "is next"), LIVE

    def _last_of(self, taker: TransitionRecord, state: str) -> bool:
        order = self.lanes.order
        return max(taker.inputs, key=order.index) == state


def _waiting(flow: FlowState) -> set[str]:
    """Return the live states whose node waits for an answer."""
    if flow.waits is None or flow.done:
        return set()
    keys = {" + ".join(t.inputs): t.inputs for t in flow.flow.net.transitions}
    named = set(keys.get(flow.node or "", ())) & set(flow.live)
    return named or {state for t in next_up(flow) for state in t.inputs}


def _named(taker: TransitionRecord, name: str, state: str, *, brief: bool) -> str:
    """Return a node's kind, its recorded name, and the other states that it needs."""
    kind = taker.name.partition(" ")[0]
    whole = " ".join(clip(shown(part), 24) for part in (kind, name) if part)
    others = [each for each in taker.inputs if each != state]
    if others:
        return f"{whole} with {_names(others)}"
    said = PEOPLE.get(kind)
    return whole if said is None or brief else f"{whole}: {said}"


def _names(states: Sequence[str]) -> str:
    return ", ".join(clip(shown(each), 24) for each in states)
