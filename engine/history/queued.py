"""What people said and the agent has not taken up yet, in the fold."""

from __future__ import annotations

from .errors import impossible
from .events import JournalEvent, MessageQueued
from .state import QueuedState, SessionState


def queue(state: SessionState, event: JournalEvent, body: MessageQueued) -> None:
    """It waits from here on. Raises `FoldError` where it does already."""
    if any(waits.id == body.message_id for waits in state.queued):
        raise impossible(event, f"message '{body.message_id}' waits already")
    waits = QueuedState(id=body.message_id, since=event.at, mode=body.mode, text=body.text, by=body.by)
    state.queued = [*state.queued, waits]


def taken(state: SessionState, event: JournalEvent, message_id: str) -> QueuedState:
    """The message of this id, which waits no more. Raises `FoldError` where it does not wait."""
    found = next((waits for waits in state.queued if waits.id == message_id), None)
    if found is None:
        raise impossible(event, f"message '{message_id}' does not wait")
    state.queued = [waits for waits in state.queued if waits is not found]
    return found
