"""Sessions that can be spoken to although their loop runs in another program."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..engine.history.state import SessionState


@runtime_checkable
class Steers(Protocol):
    """A hub that may have started such a program itself. A journal's file has not."""

    def steers(self, session_id: str) -> bool:
        """Whether what is said to a live session reaches its agent."""
        ...


def can_be_told(state: SessionState, hub: object) -> bool:
    """Whether `hub` passes on to a session's agent what an operator says."""
    if state.kind != "outside":
        return True
    try:
        return isinstance(hub, Steers) and hub.steers(state.id)
    except LookupError:
        return False  # it has ended meanwhile
