"""Panels with everything that is recorded about an event or a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from ....engine.backtest.explain_recorded import explain_recorded_call
from ....engine.history.fold.replay import Replay
from ....engine.history.model.events import CallDecided, JournalEvent
from ....engine.recording.explanation import ExplanationView
from ....rules import condition_of
from ...format.calls import asked_input, decision_at
from ...format.times import clock
from ...terminal.charset import as_drawn, to_charset
from ...terminal.gc import bulk_load
from ...widgets.replay.event_details import fields
from ..common.detail import Detail, text_blocks
from ..decisions.detail import DecisionDetail

HEADING = "bold $text-primary"


def event_detail(event: JournalEvent, changes: Sequence[str], zone: tzinfo | None = None) -> Detail:
    """Return the panel with everything recorded in an event, however long."""
    blocks = text_blocks("changed", "CHANGED", style=HEADING)
    blocks += text_blocks(
        "changes", "\n".join(map(as_drawn, changes)) or "nothing in the nets or the queue"
    )
    for name, lines in fields(event.body, event.session, longest=None):
        blocks += text_blocks(f"{name} label", f"\n{name.upper()}", style=HEADING)
        blocks += text_blocks(name, "\n".join(lines))
    return Detail(to_charset(f"Event {event.seq} · {event.body.type} · {clock(event.at, zone)}"), blocks)


# A recorded decision in full, with the nets' explanation at the time of the decision.


class ReplayedDecision(DecisionDetail):
    """Panel over the replay of the decision's session, therefore without a key that opens the replay."""

    HINTS: ClassVar[tuple[tuple[str, str], ...]] = (("panel.close", "close"),)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the key for the replay, which is the screen below."""
        return action != "replay"


def replayed_decision(replay: Replay, zone: tzinfo | None = None) -> ReplayedDecision | None:
    """Return the panel for the decision on the current event's call, or `None`."""
    found = decision_at(replay.events, replay.position) if replay.position else None
    if found is None:
        return None
    decision, event = found
    body = event.body
    assert isinstance(body, CallDecided)
    before = replay.at(decision.seq - 1)

    async def explain() -> ExplanationView:
        return await asyncio.to_thread(explain_recorded_call, before, body, event.at, condition_of)

    original = asked_input(replay.events, decision.seq) if body.edited else None
    return ReplayedDecision(decision, event, zone=zone, explain_then=explain, original=original)


def explain_decision(recorded: Sequence[JournalEvent], number: int) -> ExplanationView:
    """Return the explanation, net by net, of the call that event `number` decides.

    Raises `FoldError` and `JournalError` if the session cannot be folded up to that event.
    """
    with bulk_load():
        before, event = Replay(recorded, at=number - 1).state, recorded[number - 1]
    assert isinstance(event.body, CallDecided), "a line of the list is a decision's"
    return explain_recorded_call(before, event.body, event.at, condition_of)
