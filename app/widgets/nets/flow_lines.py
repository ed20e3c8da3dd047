"""Lines of a flow's run among the nets of its session: its step, what it waits for, its states.

A state is a place, a node a transition; a live state has a token. See `flow_graph` for the picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content

from ....engine.history.model.state import ApprovalState, FlowState, SessionState
from ...flows.lanes import lanes_of
from ...format.text import MUTED, clip, in_rows, indented, shown
from ..base.blocks import Block, look_of
from .list import tokens

FLOW = "\0flow"
"""Key of a session's flow among its nets; no net can have this name."""
INDENT = 4
LONGEST = 40
"""Maximum width in cells of a name that is one of several in a line."""


def _short(name: str) -> str:
    return clip(shown(name), LONGEST)


def flow_title(flow: FlowState) -> str:
    """Return `flow Release`, with the name that its author gave it."""
    return f"flow {_short(flow.flow.name)}"


def where(flow: FlowState) -> str:
    """Return `step 3 · at Draft`, `step 5 · done with Notes`, or `not begun`."""
    if not flow.live and flow.node is None:
        return "not begun"
    live = ", ".join(map(_short, flow.live)) or "nothing"
    return f"step {flow.step} · {'done with' if flow.done else 'at'} {live}"


def awaited_request(state: SessionState) -> ApprovalState | None:
    """Return the request that the flow's next step waits for."""
    flow = state.flow
    if flow is None or flow.waits is None or flow.done:
        return None
    # a request that was denied is asked again under such an id when the run continues
    again = f"{flow.waits}@"
    found = (
        a for a in state.approvals.values() if a.call_id == flow.waits or a.call_id.startswith(again)
    )
    return next(found, None)


def running_in(state: SessionState) -> str:
    """Return `deploy runs` if the flow's next step waits for a call, not a person; else nothing."""
    flow = state.flow
    call = None if flow is None or flow.waits is None else state.calls.get(flow.waits)
    if flow is None or call is None or call.status != "running":
        return ""
    name = _short(call.names[0] if call.names else call.tool)
    return f"{name} is answered" if call.tool in flow.flow.net.places else f"{name} runs"


def askers(sessions: Mapping[str, SessionState], names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of sessions in a queue; a run of a flow is preceded by its current step."""
    return {
        key: name
        if (state := sessions.get(key)) is None or state.flow is None
        else f"step {state.flow.step} of {name}"
        for key, name in names.items()
    }


def waits_for(state: SessionState) -> str:
    """Return what the next step waits for: an answer, an approval or a call; empty if nothing."""
    flow = state.flow
    if flow is None or flow.waits is None or flow.done or running_in(state):
        return ""
    request = awaited_request(state)
    if request is None:
        return f"waits for call {_short(flow.waits)}"
    what = "an answer to" if request.wants is not None else "approval of"
    return f"waits for {what} {_short(request.tool)}"


def flow_words(state: SessionState) -> Content:
    """Return a line on a flow: its current step, the node that worked last, and what it waits for."""
    flow = state.flow
    if flow is None:
        return Content("")
    waits, runs = waits_for(state), running_in(state)
    return Content.assemble(
        (where(flow), "bold $foreground"),
        (_at_work(flow, waits=bool(waits or runs)), MUTED),
        (f" · ◐ {waits}" if waits else "", "$text-warning"),
        (f" · ● {runs}" if runs else "", "$text-accent"),
    )


def _at_work(flow: FlowState, *, waits: bool) -> str:
    """Return the name of the node that worked last, or is at work."""
    if flow.node is None or flow.done:
        return ""
    if worked(flow):
        return f" · {_short(flow.node)} worked last"
    # A waiting step, or an agent's turn that continues, has not led to a new state yet.
    if waits:
        return ""
    return " · at work" if flow.live == (flow.node,) else f" · {_short(flow.node)} is at work"


def states_line(flow: FlowState) -> list[Content]:
    """Return the graph's states with tokens: an arrow between steps, a bar between branches."""
    marking = flow.marking
    parts: list[Content] = []
    for rank in lanes_of(flow.flow.net).ranks:
        for index, place in enumerate(rank):
            number = marking.get(place, 0)
            sign = "| " if index else "→ " if parts else ""
            parts.append(
                Content.assemble(
                    (sign, MUTED),
                    (f"{_short(place)} ", "" if number else MUTED),
                    (tokens(number), "bold $text-accent" if number else MUTED),
                )
            )
    return parts


def flow_blocks(
    state: SessionState, *, changed: bool = False, before: SessionState | None = None
) -> list[Block]:
    """Return the flow of a session, if any: its step, and below it all its states.

    With `changed` it has a mark, and shows the states that were live in the session `before`.
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
            return [Content.assemble(head, words), *_state_rows(states, width)]
        said = words.wrap(max(10, width - INDENT))
        return [head, *indented(said, INDENT), *_state_rows(states, width)]

    stamp = (title, look_of(words, *states), changed)
    return [Block(FLOW, stamp, lines)]


def _state_rows(states: Sequence[Content], width: int) -> list[Content]:
    rows = indented(in_rows(states, width - INDENT, " "), INDENT)
    return [row.truncate(width, ellipsis=True) for row in rows]


def worked(flow: FlowState) -> tuple[str, ...]:
    """Return the transitions of the node that worked last: those that led to what is live now."""
    live = set(flow.live)
    return tuple(
        t.name
        for t in flow.flow.net.transitions
        if " + ".join(t.inputs) == flow.node and set(t.outputs) <= live
    )
