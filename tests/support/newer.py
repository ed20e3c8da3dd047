"""Events as recorded by a next version of Interlock."""

from __future__ import annotations

from typing import Literal

from interlock.engine.history.model.events import CallDecided, MessageAdded
from interlock.engine.history.model.records import Record
from tests.engine.history.support.recording import decided


class SessionPaused(Record):
    """An event of a type unknown to this version."""

    type: Literal["session.paused"] = "session.paused"
    until: str = "noon"


class UrgentDecision(CallDecided):
    """An event of a known type with a field unknown to this version."""

    urgency: str = "high"


class Narrated(MessageAdded):
    """An event of a known type with a value unknown to this version."""

    role: Literal["narrator"] = "narrator"  # type: ignore[assignment]


def urgent(call_id: str, tool: str) -> UrgentDecision:
    """Return an allowed call with the new field."""
    return UrgentDecision(**decided(call_id, tool).model_dump())


NEWER = {
    "session.paused": (SessionPaused(), "'session.paused'"),
    "urgency": (urgent("c1", "test"), "'call.decided' with 'urgency'"),
    "narrator": (Narrated(), "'message' with 'role'"),
}
"""Each kind of newer event, and its name in this version."""
