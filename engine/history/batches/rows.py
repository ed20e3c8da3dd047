"""The table rows of a batch of events, with each event linked to the one before it.

The state of a session is kept for its next event; a writer whose commit failed discards it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..audit.hash_chain import event_hash_of_parts, new_salts, parts
from ..database.compiled import LinkedRow
from ..database.connection import Connection
from ..decisions.index import LISTED_EVENTS, Change, SessionCalls, calls_before, opened_calls
from ..journal.encoding import Encoded
from ..journal.session_index import SessionLine
from ..model.events import CallDecided, CallResult, EventBody, JournalEvent, SessionOpened
from ..model.fast_models import construct_tuple


class Written(NamedTuple):
    """An event, its body as stored in the database, and its time in UTC milliseconds."""

    event: JournalEvent
    body: Encoded
    at: int


@dataclass(slots=True)
class SessionEnd:
    """State of a session before its next event: its line, the last hash of its chain, its calls.

    `epoch` is that of its owner, in a database that several servers write.
    """

    line: SessionLine
    head: bytes | None
    calls: SessionCalls | None = None
    epoch: int = 0


@dataclass(slots=True)
class BatchRows:
    """Rows of one batch: sessions, events and decisions. `before` has the previous ends of its sessions.

    `counting` are the events that use limits over sessions, or return uses.
    """

    lines: list[SessionLine] = field(default_factory=list[SessionLine])
    events: list[LinkedRow] = field(default_factory=list[LinkedRow])
    decisions: list[Change] = field(default_factory=list[Change])
    before: dict[str, tuple[int, bytes | None]] = field(
        default_factory=dict[str, tuple[int, bytes | None]]
    )
    counting: list[JournalEvent] = field(default_factory=list[JournalEvent])


class BatchRowsMaker(ABC):
    """Builds the rows of batches, one batch after the other."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionEnd] = {}

    def rows(self, connection: Connection, batch: Sequence[Written]) -> BatchRows:
        """Build the rows of `batch`; its events are of sessions that may continue.

        Raises the database's errors, and those of `read_end`.
        """
        batch_rows = BatchRows()
        lines_by_session: dict[str, SessionLine] = {}
        for (event, (text, hash_parts), at), salt in zip(batch, new_salts(len(batch)), strict=True):
            session, seq = event.session, event.seq
            state = self.sessions.get(session) or self._end_before(connection, event)
            line = state.line
            if session not in lines_by_session:
                lines_by_session[session] = line
                batch_rows.before[session] = line.events, state.head
            calls = state.calls or self._calls_before(connection, event, state)
            change = None if calls is None else calls.take(event, at)
            if change is not None:
                batch_rows.decisions.append(change)
            line.add(event, at)
            if _has_uses(event.body):
                batch_rows.counting.append(event)
            event_hash = event_hash_of_parts(
                (session, seq, at), hash_parts or parts(text), salt, state.head
            )
            state.head = event_hash
            row = event.cursor, session, seq, at, event.body.type, text, salt, None, event_hash
            batch_rows.events.append(construct_tuple(LinkedRow, row))
        batch_rows.lines = [*lines_by_session.values()]
        return batch_rows

    @abstractmethod
    def read_end(self, connection: Connection, event: JournalEvent) -> SessionEnd | None:
        """Read a session's state before `event` from the database; `None` if the session is not there."""

    def _end_before(self, connection: Connection, event: JournalEvent) -> SessionEnd:
        """Return a session's state from the database, or a new one if `event` opens the session."""
        state = self.read_end(connection, event)
        if state is None:
            if not isinstance(event.body, SessionOpened):
                raise LookupError(f"session '{event.session}' was never opened")
            state = SessionEnd(SessionLine.opening(event, event.body), None, opened_calls(event.body))
        self.sessions[event.session] = state
        return state

    def _calls_before(
        self, connection: Connection, event: JournalEvent, state: SessionEnd
    ) -> SessionCalls | None:
        """Read the calls of a session from the database if `event` affects them, else return `None`."""
        if not isinstance(event.body, LISTED_EVENTS):
            return None
        calls = state.calls = SessionCalls(state.line.agent, child=state.line.kind == "child")
        calls_before(connection, event, calls)
        return calls


def _has_uses(body: EventBody) -> bool:
    """Return whether an event uses limits over sessions, or returns uses."""
    if type(body) is CallDecided:
        return bool(body.uses)
    return type(body) is CallResult and bool(body.undone)
