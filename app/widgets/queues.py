"""The short lists beside the transcript: sessions, waiting requests, pending transitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from ...engine.history.state import ApprovalState, PendingState, SessionState
from ..symbols import session_look
from ..text import age, glance, seconds_between, shown, spread
from .blocks import Block, BlockList

MUTED = "$foreground 60%"


def session_names(sessions: Sequence[SessionState]) -> dict[str, str]:
    """What to call each session: its agent's name, its id where several share that."""
    agents = Counter(state.agent for state in sessions)
    return {
        state.id: shown(state.agent if state.agent and agents[state.agent] == 1 else state.id)
        for state in sessions
    }


class SessionList(BlockList):
    """The live sessions: symbol, name, requests waiting; below, state and mode."""

    def __init__(self) -> None:
        super().__init__(id="sessions", empty="No session runs.")

    def show_sessions(self, sessions: Sequence[SessionState]) -> None:
        names = session_names(sessions)
        self.show(
            [_session_block(state, names[state.id], depth) for state, depth in in_families(sessions)]
        )


def in_families(sessions: Sequence[SessionState]) -> list[tuple[SessionState, int]]:
    """Every session with how deep it stands: subagents below the one that set them to work."""
    known = {state.id for state in sessions}
    below: dict[str, list[SessionState]] = {}
    tops: list[SessionState] = []
    for state in sessions:
        parent = state.parent if state.kind == "child" else None
        if parent in known and parent is not None:
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


def _session_block(state: SessionState, name: str, depth: int) -> Block:
    waiting = len(state.approvals)
    look = session_look(state)
    mode = state.mode
    indent = "  " * (min(depth, 4) - 1) + "└ " if depth else ""

    def lines(width: int) -> list[Content]:
        badge = Content.styled(f" {waiting} ", "bold $warning reverse") if waiting else Content("")
        head = Content.assemble((indent, MUTED), (f"{look.symbol} ", look.style), (name, "bold"))
        if depth:
            return [spread(head, badge, width)]
        below = Content.assemble(
            ("  ", ""),
            (look.word, look.style),
            (" · ", MUTED),
            (mode, "$text-secondary" if mode == "shadow" else MUTED),
        )
        return [spread(head, badge, width), below.truncate(width, ellipsis=True)]

    return Block(state.id, (state.status, mode, waiting, name, depth), lines)


class WaitingList(BlockList):
    """Requests that wait for a person, longest first."""

    def __init__(self) -> None:
        super().__init__(id="waiting", empty="Nothing waits for you.")

    def show_waiting(
        self, approvals: Sequence[ApprovalState], names: dict[str, str], now: datetime
    ) -> None:
        self.show([_waiting_block(a, names.get(a.session, shown(a.agent)), now) for a in approvals])


def _waiting_block(approval: ApprovalState, name: str, now: datetime) -> Block:
    waited = age(seconds_between(approval.since, now))
    who = f"{shown(approval.via)} of {name}" if approval.via else name

    def lines(width: int) -> list[Content]:
        head = Content.assemble(("◐ ", "$text-warning"), (shown(approval.tool), "bold"))
        return [
            spread(head, Content.styled(waited, "$text-warning"), width),
            Content.styled(f"  {who}", MUTED).truncate(width, ellipsis=True),
            Content.styled(f"  {glance(approval.input, 120)}", MUTED).truncate(width, ellipsis=True),
        ]

    return Block(approval.id, (waited, name), lines)


class PendingList(BlockList):
    """Deferred transitions that wait for their call's result."""

    def __init__(self) -> None:
        super().__init__(id="pending", empty="No call is pending.")

    def show_pending(self, state: SessionState | None, now: datetime) -> None:
        pending = [] if state is None else state.pending
        self.show([_pending_block(i, p, state, now) for i, p in enumerate(pending) if state is not None])


def _pending_block(index: int, pending: PendingState, state: SessionState, now: datetime) -> Block:
    waited = age(seconds_between(pending.since, now))
    step = pending.step
    net = state.nets.get(step.net)
    transition = None
    if net is not None:
        transition = next((t for t in net.net.transitions if t.name == step.transition), None)
    goal = ", ".join(transition.outputs) if transition is not None else step.transition

    def lines(width: int) -> list[Content]:
        head = Content.assemble((shown(step.tool), "bold"), (" → ", MUTED), (shown(goal), "$text-accent"))
        return [
            spread(head, Content.styled(waited, MUTED), width),
            Content.styled(f"  {shown(step.net)} · {shown(pending.call_id)}", MUTED).truncate(
                width, ellipsis=True
            ),
        ]

    return Block(f"{pending.call_id}/{step.net}/{step.tool}/{index}", waited, lines)
