"""Panels with the picture of a net in its marking, of a grant, and of a flow's graph."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from ....engine.history.model.state import ApprovalState, GrantState, NetState, SessionState
from ...format.times import aged_net
from ...widgets.approval.call_input import input_rows
from ...widgets.base.blocks import Block
from ...widgets.nets.drawing import picture_blocks
from ...widgets.nets.flow_lines import FLOW
from ...widgets.nets.grants import grant_facts
from ..replay.flow_panel import FlowPanel, ReadEvents
from .detail import Detail, fact, section


def net_picture(
    state: NetState, now: datetime | None = None, asking: Sequence[ApprovalState] = ()
) -> Detail:
    """Return the panel with a net in its marking at `now`, and the progress of its open requests."""
    return Detail(f"Net: {state.key}", picture_blocks(aged_net(state, now), now=now, asking=asking))


def picture_of(
    state: SessionState, key: str, now: datetime | None = None, read: ReadEvents | None = None
) -> Detail | None:
    """Return the panel for the net, grant or flow under `key` in a session, or `None` if there is none.

    `read` returns the session's events, for the values of a flow; see `FlowPanel`.
    """
    if key == FLOW and state.flow is not None:
        return FlowPanel(state, read)
    if key in state.nets:
        asking = [a for a in state.approvals.values() if a.net == key]
        return net_picture(state.nets[key], now, [] if now is None else asking)
    if key in state.grants:
        grant = state.grants[key]
        return grant_picture(grant, now or state.updated or grant.at)
    return None


def grant_picture(grant: GrantState, now: datetime) -> Detail:
    """Return the panel about a grant: what it allows, how much is left, and its net."""
    blocks = [section("grant", first=True)]
    blocks += [fact(label, text, "") for label, text in grant_facts(grant, now)]
    if grant.input is not None:
        blocks.append(section("only this input"))
        blocks.append(Block("input", 0, lambda width: input_rows(grant.input or {}, width)))
    blocks.append(Block("blank", 0, lambda _: [Content("")]))
    return Detail(f"Grant: {grant.key}", [*blocks, *picture_blocks(aged_net(grant.net, now), now=now)])
