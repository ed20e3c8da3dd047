"""Streamed data that is not in the journal yet: an agent's text, a running tool's output."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from ...engine.history.model.events import CallResult, JournalEvent, MessageAdded, SessionStatus
from ...engine.history.model.records import StepRecord
from ...engine.hub.hub import DisconnectedCalls, HubEvent, RequestReaders, Streaming

RESOLVED_SHOWN = 5.0
"""Seconds for which a deferred transition is shown after its call's result."""
MOST_RESOLVED = 20
KEPT = 20_000
"""Characters kept of a running tool's output; the journal has all of it at the end."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A deferred transition whose call has a result: whether it `fired`, and when."""

    call_id: str
    step: StepRecord
    fired: bool
    at: datetime


@dataclass(slots=True)
class LiveStream:
    """Streamed data of one session. `said` is the text of the message being written.

    `resolved` keeps transitions for a moment, since most calls end before their pending transitions can
    be read. `calls` are those that the model is writing, by position: the tool, and the characters so
    far.
    """

    said: str = ""
    calls: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    heard: dict[str, datetime] = field(default_factory=dict[str, datetime])
    failure: str | None = None
    resolved: list[Resolved] = field(default_factory=list[Resolved])

    def take(self, event: HubEvent, now: datetime) -> None:
        """Process one event of the session. Data that has reached the journal is dropped."""
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
            case JournalEvent(body=CallResult(call_id=call_id) as result):
                self.outputs.pop(call_id, None)
                self.heard.pop(call_id, None)
                self._resolve(result, now)
            case _:
                pass

    def _resolve(self, result: CallResult, now: datetime) -> None:
        both = ((result.fired, True), (result.dropped, False))
        new = [Resolved(result.call_id, step, fired, now) for steps, fired in both for step in steps]
        self.resolved = [*self.resolved, *new][-MOST_RESOLVED:]

    def just_resolved(self, now: datetime) -> list[Resolved]:
        """Return the deferred transitions that were resolved within the last seconds."""
        return [each for each in self.resolved if (now - each.at).total_seconds() < RESOLVED_SHOWN]

    def last_lines(self, call_id: str, number: int) -> tuple[str, ...]:
        """Return the last non-blank lines that a running tool printed, at most `number`."""
        printed = (ln for ln in reversed(self.outputs.get(call_id, "").splitlines()) if ln.strip())
        return tuple(reversed([*islice(printed, number)]))


def changes_queue(event: HubEvent) -> bool:
    """Return whether an event changes the queue of approval requests."""
    if isinstance(event, DisconnectedCalls | RequestReaders):
        return True
    return isinstance(event, JournalEvent) and event.body.type.startswith("approval.")
