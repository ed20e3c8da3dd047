"""The short lists next to the transcript: sessions, open requests, pending transitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from textual.content import Content

from ....engine.approvals.request_order import FIRST, ApprovalQueue, SessionRequests
from ....engine.history.model.records import StepRecord
from ....engine.history.model.state import PendingState, SessionState
from ...format.text import MUTED, age, clip, name_shown, seconds_between, shown, spread, width_of
from ...terminal.symbols import SESSION, session_look
from ...viewmodels.stream import Resolved
from ..approval.queue_lines import waiting_block
from ..base.blocks import Block, BlockList, line_block

NO_SESSION = "No sessions running."
NOTHING_WAITS = "Nothing to approve."
READING = "Reading the server's sessions."


def session_names(sessions: Sequence[SessionState]) -> dict[str, str]:
    """Return the names of sessions: the agent's name, or the id if several share that."""
    agents = Counter(state.agent for state in sessions)
    return {
        state.id: name_shown(state.agent if state.agent and agents[state.agent] == 1 else state.id)
        for state in sessions
    }


class LiveSessionList(BlockList):
    """Live sessions: symbol and name; below, the state and mode, or the request the session waits for."""

    def __init__(self) -> None:
        super().__init__(id="sessions", empty=NO_SESSION)

    def show_sessions(
        self, sessions: Sequence[SessionState], now: datetime, stops: Mapping[str, SessionRequests]
    ) -> None:
        """Show sessions; a waiting session has an entry in `stops`."""
        names = session_names(sessions)
        self.show(
            [
                _session_block(state, names[state.id], depth, stops.get(state.id), now)
                for state, depth in in_families(sessions)
            ]
        )


def in_families(sessions: Sequence[SessionState]) -> list[tuple[SessionState, int]]:
    """Return every session with its depth; subagents are below the session that started them."""
    known = {state.id for state in sessions}
    below: dict[str, list[SessionState]] = {}
    tops: list[SessionState] = []
    for state in sessions:
        parent = state.parent if state.kind == "child" else None
        if parent is not None and parent in known:
            below.setdefault(parent, []).append(state)
        else:
            tops.append(state)
    found: list[tuple[SessionState, int]] = []
    stack = [(state, 0) for state in reversed(tops)]
    while stack:
        state, depth = stack.pop()
        found.append((state, depth))
        stack += [(child, depth + 1) for child in reversed(below.get(state.id, []))]
    return found


def _session_block(
    state: SessionState, name: str, depth: int, stop: SessionRequests | None, now: datetime
) -> Block:
    look = SESSION["waiting"] if stop else session_look(state)
    mode = state.mode
    indent = "  " * (min(depth, 4) - 1) + "└ " if depth else ""
    waited = age(seconds_between(stop.first.since, now)) if stop else ""
    tool = name_shown(stop.first.tool) if stop else ""
    number = stop.number if stop else 0

    def lines(width: int) -> list[Content]:
        head = Content.assemble((indent, MUTED), (f"{look.symbol} ", look.style), (name, "bold"))
        if depth:
            both = f"{tool} {waited}".strip()
            by = both if head.cell_length + width_of(both) < width else waited
            return [spread(head, Content.styled(by, look.style), width)]
        if number:
            asks = f"  {look.word} {number} · "
            room = width - width_of(asks) - len(waited) - 1
            text = f"{asks}{clip(tool, max(4, room))} {waited}"
            return [spread(head, Content(""), width), Content.styled(clip(text, width), look.style)]
        below = Content.assemble(
            ("  ", ""),
            (look.word, look.style),
            (" · ", MUTED),
            (mode, "$text-secondary" if mode == "shadow" else MUTED),
        )
        return [spread(head, Content(""), width), below.truncate(width, ellipsis=True)]

    return Block(state.id, (look, mode, number, tool, waited, name, depth), lines)


class WaitingList(BlockList):
    """Open requests, highest risk first; marked requests are decided together.

    Only the first requests of a long queue are listed, so that it is painted as fast as a short one.
    """

    def __init__(self) -> None:
        super().__init__(id="waiting", empty=NOTHING_WAITS)

    def show_waiting(
        self,
        queue: ApprovalQueue,
        names: dict[str, str],
        now: datetime,
        marked: Collection[str] = (),
        *,
        unread: int = 0,
    ) -> None:
        """Show requests in their order; the cursor stays on its request.

        `unread` is the number of a server's requests that have not been read yet; they come after these.
        """
        first = queue.first(FIRST)
        listed = [waiting_block(a, names.get(a.session, name_shown(a.agent)), now, marked) for a in first]
        more = len(queue) + unread - len(listed)
        self.show([*listed, _more_block(more)] if more else listed)


def _more_block(number: int) -> Block:
    """Return the last line of a long queue."""
    line = Content.styled(f"and {number:,} more after these", MUTED)
    return line_block("more", number, line, selectable=False)


class PendingList(BlockList):
    """Deferred transitions that wait for their call's result, and those resolved recently."""

    def __init__(self) -> None:
        super().__init__(id="pending", empty="No calls in progress.")

    def show_pending(
        self, state: SessionState | None, now: datetime, resolved: Sequence[Resolved] = ()
    ) -> None:
        """Show pending transitions, then those `resolved`, latest first."""
        if state is None:
            self.show([])
            return
        waiting = [_pending_block(i, each, state, now) for i, each in enumerate(state.pending)]
        self.show([*waiting, *(_resolved_block(each, state) for each in reversed(resolved))])


def _pending_block(index: int, pending: PendingState, state: SessionState, now: datetime) -> Block:
    waited = age(seconds_between(pending.since, now))
    effect = f"on success: {pending.step.transition}"

    def lines(width: int) -> list[Content]:
        tail = Content.styled(waited, MUTED)
        return _step_lines(pending.step, pending.call_id, Content(""), tail, effect, state, width)

    key = f"{pending.call_id}/{pending.step.net}/{pending.step.tool}/{index}"
    return Block(key, (state.id, pending.step, _goal(pending.step, state), waited), lines)


def _resolved_block(resolved: Resolved, state: SessionState) -> Block:
    step, fired = resolved.step, resolved.fired
    effect = f"fired: {step.transition}" if fired else "call failed: not fired"

    def lines(width: int) -> list[Content]:
        mark = Content.styled("✓ " if fired else "✗ ", "$text-success" if fired else "$text-error")
        tail = Content.styled("fired" if fired else "dropped", MUTED)
        return _step_lines(step, resolved.call_id, mark, tail, effect, state, width)

    key = f"{resolved.call_id}/{step.net}/{step.tool}/resolved"
    return Block(key, (state.id, step, _goal(step, state), fired), lines)


def _goal(step: StepRecord, state: SessionState) -> str:
    """Return the places that a deferred transition fills, or its name if its net is gone."""
    net = state.net_state(step.net)
    found = (
        None if net is None else next((t for t in net.net.transitions if t.name == step.transition), None)
    )
    return step.transition if found is None else ", ".join(found.outputs)


def _step_lines(
    step: StepRecord,
    call_id: str,
    mark: Content,
    tail: Content,
    effect: str,
    state: SessionState,
    width: int,
) -> list[Content]:
    """Return a deferred transition: its tool, the places it fills, its effect, its net and its call."""
    head = Content.assemble(
        mark, (name_shown(step.tool), "bold"), (" → ", MUTED), (shown(_goal(step, state)), "$text-accent")
    )
    below = (shown(effect), f"{shown(state.net_name(step.net))} · {shown(call_id)}")
    return [
        spread(head, tail, width),
        *(Content.styled(f"  {line}", MUTED).truncate(width, ellipsis=True) for line in below),
    ]
