"""A session's line in a list, derived from its events.

The journal stores it with the events, in the same transaction; `SessionLine.of` computes the correct one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, cast, get_args

from ..database.compiled import SessionRow
from ..model.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    JournalEvent,
    ModeChanged,
    RulesReplaced,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from ..model.listed_values import Listed, known_values, unknown_value
from ..model.records import Kind
from ..model.state import Phase, SessionSummary, shown_status
from ..model.times import from_ms, to_ms

_COLUMNS = tuple(each.name for each in fields(SessionRow))
_values = attrgetter(*_COLUMNS)
DIVERGED = "diverged"
"""Status of a session of which the database lost acknowledged events: see `postgres.divergence`.

No event has it. Versions that do not know it do not act on the session.
"""
_LISTED: Listed = {
    "status": ("idle", *get_args(Phase), DIVERGED),
    "mode": ("enforce", "shadow"),
    "kind": ("root", *get_args(Kind)),
}


class SessionLine(SessionRow):
    """A session's line while events are added to it."""

    __slots__ = ()

    @classmethod
    def of_row(cls, row: Sequence[object]) -> SessionLine:
        return cls(*cast("Sequence[Any]", row))

    @classmethod
    def opening(cls, event: JournalEvent, opened: SessionOpened) -> SessionLine:
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
    def of(cls, events: Iterable[JournalEvent]) -> SessionLine:
        """Return the line of a session's events. Raises `ValueError` if the first is not its opening."""
        line: SessionLine | None = None
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
        """Count one event; `at` is its time in UTC milliseconds.

        `blocked` counts calls that did not run, so none in shadow mode.
        """
        self.events += 1
        self.updated = at
        match event.body:
            case CallDecided() as decided:
                self.calls += 1
                self.blocked += decided.outcome == "block" and decided.mode == "enforce"
            case SessionStatus(status=status, error=error):
                self.status, self.error = status, error
            case SessionResumed() as resumed:
                self.agent, self.model, self.mode = resumed.agent, resumed.model, resumed.mode
                self.status, self.error = "idle", None
                if resumed.source is not None:
                    self.source = json.dumps(resumed.source)
            case ApprovalRequested():
                self.waiting += 1
            case ApprovalDecided() | ApprovalWithdrawn():
                self.waiting -= 1
            case ModeChanged(mode=mode):
                self.mode = mode
            case RulesReplaced(source=dict() as source):
                self.source = json.dumps(source)
            case _:
                pass

    def row(self) -> tuple[object, ...]:
        """Return the values of its columns, in order."""
        return _values(self)

    @property
    def unknown(self) -> str | None:
        """Name a value of the line that only a newer version knows; `None` if there is none."""
        return unknown_value(dict(zip(_COLUMNS, self.row(), strict=True)), _LISTED)

    def summary(self) -> SessionSummary:
        """Return the line as consoles show it. Raises `ValueError` for values of other types."""
        values = known_values(dict(zip(_COLUMNS, self.row(), strict=True)), _LISTED)
        is_diverged = values["status"] == DIVERGED
        phase = "failed" if is_diverged else cast(Phase, values["status"])
        return SessionSummary.model_validate(
            {
                **values,
                "newer": self.unknown is not None,
                "diverged": is_diverged,
                "status": shown_status(phase, self.waiting),
                "opened": from_ms(self.opened),
                "updated": from_ms(self.updated),
                "source": None if self.source is None else json.loads(self.source),
            }
        )
