"""A session's line in a list, as it follows from its events.

The journal keeps it with the events, in the same transaction; `project` says what it must be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from ..model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    JournalEvent,
    ModeChanged,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from ..model.state import Phase, SessionSummary, shown_status
from ..model.times import from_ms, to_ms
from .rows import SessionRow


@dataclass(slots=True)
class Projection:
    """A session's line while events are added to it. Times in UTC milliseconds."""

    id: str
    agent: str
    model: str
    mode: str
    phase: str
    opened: int
    updated: int
    events: int = 0
    calls: int = 0
    blocked: int = 0
    waiting: int = 0
    error: str | None = None
    kind: str = "root"
    parent: str | None = None
    parent_seq: int | None = None
    source: str | None = None
    imported: bool | int = False

    @classmethod
    def of_row(cls, row: SessionRow) -> Projection:
        return cls(*row)

    @classmethod
    def opening(cls, event: JournalEvent, opened: SessionOpened) -> Projection:
        at = to_ms(event.at)
        return cls(
            event.session,
            opened.agent,
            opened.model,
            opened.mode,
            "idle",
            at,
            at,
            kind=opened.kind,
            parent=opened.parent,
            parent_seq=opened.parent_seq,
            source=None if opened.source is None else json.dumps(opened.source),
        )

    @classmethod
    def of(cls, events: Iterable[JournalEvent]) -> Projection:
        """The line of a session's events. Raises `ValueError` unless they begin with its opening."""
        line: Projection | None = None
        for event in events:
            if line is None:
                if not isinstance(event.body, SessionOpened):
                    raise ValueError(
                        f"session '{event.session}' begins with '{event.body.type}', not its opening"
                    )
                line = cls.opening(event, event.body)
            line.add(event, to_ms(event.at))
        if line is None:
            raise ValueError("no events: a session begins with its opening")
        return line

    def add(self, event: JournalEvent, at: int) -> None:
        """Count one event in, `at` its time in UTC milliseconds.

        `blocked` are calls that did not run, so none in shadow mode.
        """
        self.events += 1
        self.updated = at
        match event.body:
            case CallDecided() as decided:
                self.calls += 1
                self.blocked += decided.outcome == "block" and decided.mode == "enforce"
            case SessionStatus(status=status, error=error):
                self.phase, self.error = status, error
            case SessionResumed() as resumed:
                self.agent, self.model, self.mode = resumed.agent, resumed.model, resumed.mode
                self.phase, self.error = "idle", None
                if resumed.source is not None:
                    self.source = json.dumps(resumed.source)
            case ApprovalRequested():
                self.waiting += 1
            case ApprovalDecided() | ApprovalWithdrawn():
                self.waiting -= 1
            case ModeChanged(mode=mode):
                self.mode = mode
            case _:
                pass

    def row(self) -> SessionRow:
        return (
            self.id,
            self.agent,
            self.model,
            self.mode,
            self.phase,
            self.opened,
            self.updated,
            self.events,
            self.calls,
            self.blocked,
            self.waiting,
            self.error,
            self.kind,
            self.parent,
            self.parent_seq,
            self.source,
            self.imported,
        )

    def summary(self) -> SessionSummary:
        """The line as consoles show it. Raises `ValueError` for an unknown status or mode."""
        return SessionSummary.model_validate(
            {
                "id": self.id,
                "agent": self.agent,
                "model": self.model,
                "mode": self.mode,
                "status": shown_status(cast(Phase, self.phase), self.waiting),
                "opened": from_ms(self.opened),
                "updated": from_ms(self.updated),
                "events": self.events,
                "calls": self.calls,
                "blocked": self.blocked,
                "waiting": self.waiting,
                "error": self.error,
                "kind": self.kind,
                "parent": self.parent,
                "parent_seq": self.parent_seq,
                "source": None if self.source is None else json.loads(self.source),
                "imported": self.imported,
            }
        )


def project(events: Iterable[JournalEvent]) -> SessionSummary:
    """The line of a session with these events. Raises `ValueError` unless they begin with its opening."""
    return Projection.of(events).summary()
