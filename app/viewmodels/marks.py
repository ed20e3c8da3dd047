"""Marks of a recorded session: events that blocked, needed approval, or loosened a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ...engine.history.model.events import (
    ApprovalRequested,
    CallDecided,
    JournalEvent,
    ModeChanged,
    NetToggled,
    RulesReplaced,
)

Mark: TypeAlias = Literal["block", "would-block", "approval", "would-ask", "off"]
"""Kinds of marks, strongest first; if several share a cell, the strongest is shown."""


def marks_of(recorded: Sequence[JournalEvent]) -> dict[int, Mark]:
    """Return marks by event number, from 1.

    Marked are calls that were or would have been blocked or needed approval, rules switched off, and
    calls that passed because of that. An approval is marked at its decision, or at its request if it was
    never decided.
    """
    marks: dict[int, Mark] = {}
    asked: dict[str, int] = {}
    for number, event in enumerate(recorded, start=1):
        match event.body:
            case ApprovalRequested(call_id=call_id):
                asked[call_id] = number
            case CallDecided() as decision:
                asked.pop(decision.call_id, None)
                if decision.mode == "shadow":
                    if decision.outcome != "allow":
                        marks[number] = "would-block" if decision.outcome == "block" else "would-ask"
                elif decision.outcome == "block":
                    marks[number] = "block"
                elif decision.outcome == "ask" or decision.approved_by:
                    marks[number] = "approval"
                elif decision.off:
                    marks[number] = "off"
            case NetToggled(active=False) | ModeChanged(mode="shadow") | RulesReplaced():
                marks[number] = "off"
            case _:
                pass
    marks.update(dict.fromkeys(asked.values(), "approval"))
    return dict(sorted(marks.items()))
