"""Streams that are not in the journal yet: an agent's text, a running tool's output."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from ...engine.history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalWithdrawn,
    CallResult,
    JournalEvent,
    MessageAdded,
    SessionStatus,
)
from ...engine.hub.hub import HubEvent, Streaming

KEPT = 20_000
"""Characters kept of a tool's output while it runs; the journal has all of it at the end."""


@dataclass(slots=True)
class LiveStream:
    """The streams of one session. `said` is the text of the message being written.

    `calls` are those the model is writing after it, by their place: the tool, and characters so far.
    """

    said: str = ""
    calls: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    heard: dict[str, datetime] = field(default_factory=dict[str, datetime])
    failure: str | None = None

    def take(self, event: HubEvent, now: datetime) -> None:
        """Follow one event of the session; what reached the journal is dropped here."""
        match event:
            case Streaming(kind="text"):
                self.said += event.text
            case Streaming(kind="output", call_id=str(call_id)):
                self.outputs[call_id] = (self.outputs.get(call_id, "") + event.text)[-KEPT:]
                self.heard[call_id] = now
            case Streaming(kind="input", tool=str(tool), place=int(place)):
                _, size = self.calls.get(place, ("", 0))
                self.calls[place] = tool, size + event.size
            case Streaming(kind="failure"):
                self.failure = event.text
            case JournalEvent(body=MessageAdded(role="assistant" | "user") | SessionStatus()):
                self.said = ""
                self.calls.clear()
            case JournalEvent(body=CallResult(call_id=call_id)):
                self.outputs.pop(call_id, None)
                self.heard.pop(call_id, None)
            case _:
                pass

    def last_lines(self, call_id: str, number: int) -> tuple[str, ...]:
        """The last lines with something on them that a running tool printed, at most `number`."""
        printed = (ln for ln in reversed(self.outputs.get(call_id, "").splitlines()) if ln.strip())
        return tuple(reversed([*islice(printed, number)]))


def changes_queue(event: HubEvent) -> bool:
    """Tell whether an event changes the queue of approval requests."""
    return isinstance(event, JournalEvent) and isinstance(
        event.body,
        ApprovalRequested
        | ApprovalGiven
        | ApprovalExtended
        | ApprovalRevealed
        | ApprovalDecided
        | ApprovalExpired
        | ApprovalWithdrawn,
    )
