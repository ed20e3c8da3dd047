"""A run of a flow among the nets of its session: its graph as a net, where it stands, what it waits for.

A state is a place, a node a transition; a state that the flow holds has a token.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ...engine.history.state import FlowState, NetState, SessionState
from ..text import clip, shown, wrap_all
from .blocks import Block
from .markings import tokens
from .net_drawing import circle

FLOW = "\0flow"
"""The key of a session's flow among its nets: no net has such a name."""
MUTED = "$foreground 60%"
INDENT = 4
LONGEST = 40
"""Cells of a name that is one of several in a line."""


def _short(name: str) -> str:
    return clip(shown(name), LONGEST)


def flow_title(flow: FlowState) -> str:
    """`flow Release`, as whoever wrote it named it."""
    return f"flow {_short(flow.flow.name)}"


def where(flow: FlowState) -> str:
    """`step 3 · at Draft`; `step 5 · done with Notes`."""
    live = ", ".join(map(_short, flow.live)) or "nothing"
    return f"step {flow.step} · {'done with' if flow.done else 'at'} {live}"


def waits_for(state: SessionState) -> str:
    """What the next step needs: an answer, an approval; nothing where it needs none."""
    flow = state.flow
    if flow is None or flow.waits is None or flow.done:
        return ""
    again = f"{flow.waits}@"  # one that was denied is asked anew when the run goes on
    asked = [
        a for a in state.approvals.values() if a.call_id == flow.waits or a.call_id.startswith(again)
    ]
    if not asked:
        return f"waits for call {_short(flow.waits)}"
    [first, *_] = asked
    what = "an answer to" if first.wants is not None else "approval of"
    return f"waits for {what} {_short(first.called)}"


def flow_words(state: SessionState) -> Content:
    """Where the flow stands, which node worked last, and what it waits for."""
    flow = state.flow
    if flow is None:
        return Content("")
    waits = waits_for(state)
    last = "" if flow.node is None or flow.done else f" · {_short(flow.node)} "
    if last:
        # A step that waits, and a turn of an agent that goes on, have led nowhere yet.
        last = f"{last}worked last" if worked(flow) else "" if waits else f"{last}is at work"
    return Content.assemble(
        (where(flow), "bold $foreground"),
        (last, MUTED),
        (f" · ◐ {waits}" if waits else "", "$text-warning"),
    )


def states_line(flow: FlowState) -> list[Content]:
    """Each state of the graph with its token, an arrow where a node leads from one to the next."""
    net, marking = flow.flow.net, flow.marking
    parts: list[Content] = []
    for index, place in enumerate(net.places):
        before = net.places[index - 1] if index else None
        leads = any(before in t.inputs and place in t.outputs for t in net.transitions)
        number = marking.get(place, 0)
        arrow = ("→ " if leads else "  ") if index else ""
        parts.append(
            Content.assemble(
                (arrow, MUTED),
                (f"{_short(place)} ", "" if number else MUTED),
                (tokens(number), "bold $text-accent" if number else MUTED),
            )
        )
    return parts


def flow_blocks(
    state: SessionState, *, changed: bool = False, before: SessionState | None = None
) -> list[Block]:
    """The flow of a session, if it runs one: where it stands, and below all its states.

    What has `changed` carries a mark, and says where it was in the session `before`.
    """
    flow = state.flow
    if flow is None:
        return []
    words, states = flow_words(state), states_line(flow)
    was = None if before is None or before.flow is None else before.flow.live
    if changed and was is not None and was != flow.live:
        words += Content.styled(f" · was at {', '.join(map(_short, was)) or 'nothing'}", MUTED)
    title = flow_title(flow)

    def lines(width: int) -> list[Content]:
        flag = Content.styled("Δ " if changed else "", "bold $text-accent")
        head = Content.assemble(("[~] ", "$text-success"), (clip(title, width - 8), "bold"), "  ", flag)
        if head.cell_length + words.cell_length <= width:
            return [Content.assemble(head, words), *_flowing(states, width)]
        said = words.wrap(max(10, width - INDENT))
        return [head, *(Content.assemble(" " * INDENT, row) for row in said), *_flowing(states, width)]

    stamp = (title, words.plain, tuple(each.plain for each in states), changed)
    return [Block(FLOW, stamp, lines)]


def _flowing(states: Sequence[Content], width: int) -> list[Content]:
    """The states beside each other, on as many lines as they take."""
    rows = [Content(" " * INDENT)]
    for each in states:
        last = rows[-1]
        if last.cell_length > INDENT and last.cell_length + 1 + each.cell_length > width:
            rows.append(Content.assemble(" " * INDENT, each))
        else:
            rows[-1] = Content.assemble(last, " " if last.cell_length > INDENT else "", each)
    return [row.truncate(width, ellipsis=True) for row in rows]


def flow_net(flow: FlowState) -> NetState:
    """The graph as a net with its live states for tokens, for whatever draws nets."""
    return NetState(net=flow.flow.net, active=not flow.done, marking=flow.marking)


def worked(flow: FlowState) -> tuple[str, ...]:
    """The transitions of the node that worked last: those that led to what is live now."""
    live = set(flow.live)
    return tuple(
        t.name
        for t in flow.flow.net.transitions
        if " + ".join(t.inputs) == flow.node and set(t.outputs) <= live
    )


def flow_picture(state: SessionState) -> list[Block]:
    """The graph drawn: its states as circles, its nodes as bars; the node that worked last says so."""
    flow = state.flow
    if flow is None:
        return []
    net, last = flow_net(flow), worked(flow)
    words = flow_words(state)
    stamp = (words.plain, tuple(flow.live), flow.step)

    def drawn(width: int) -> list[Content]:
        column = min(max((len(shown(p)) for p in net.net.places), default=4), max(6, width // 3))
        rows: list[Content] = []
        for transition in net.net.transitions:
            ready = net.active and all(net.marking.get(p, 0) for p in transition.inputs)
            style = "bold $text-success" if ready else MUTED
            mark = ("▸ ", style) if ready else ("  ", "")
            flag = "  Δ worked last" if transition.name in last else ("  is next" if ready else "")
            rows.append(
                Content.assemble(
                    mark,
                    (shown(transition.name), style if ready else "bold"),
                    (flag, "bold $text-accent" if transition.name in last else style),
                ).truncate(width, ellipsis=True)
            )
            for index in range(max(len(transition.inputs), len(transition.outputs), 1)):
                left = _side(transition.inputs, index, net, column)
                right = _side(transition.outputs, index, net, column)
                row = Content.assemble(
                    "  ", left, (" ──▶ ", style), ("┃", style), (" ──▶ ", style), right
                )
                rows.append(row.truncate(width, ellipsis=True))
            rows.append(Content(""))
        return rows

    def legend(width: int) -> list[Content]:
        text = "( ) state   (●) the flow is here   ┃ node   ▸ is next"
        return [Content.styled(row, MUTED) for row in wrap_all([text], width)]

    return [
        Block("flow head", stamp, lambda width: [*words.wrap(width), Content("")]),
        Block("flow graph", stamp, drawn),
        Block("flow legend", 0, legend),
    ]


def _side(places: Sequence[str], index: int, net: NetState, column: int) -> Content:
    """A state at one side of a node, as wide as all of them."""
    if index >= len(places):
        return Content(" " * (column + 4))
    number = net.marking.get(places[index], 0)
    name = clip(shown(places[index]), column)
    style = "bold $text-accent" if number else MUTED
    cell = Content.assemble((circle(number), style), " ", (name, "" if number else MUTED))
    return Content.assemble(cell, " " * max(0, column + 4 - cell.cell_length))
