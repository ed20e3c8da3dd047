"""Interface of the console to the sessions: a hub in this process, a server, or a journal's file.

Screens are written against it. `Hub` and `ConsoleClient` implement all of it; a journal that is only
watched, and a read-only console, answer queries and refuse the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import JsonValue

from ...engine.agents import KEEP_LAST
from ...engine.history.journal.reader import open_reader
from ...engine.history.model.events import JournalEvent
from ...engine.history.model.state import SessionSummary
from ...engine.history.redaction.masked_events import MaskedEvents
from ...engine.history.redaction.redaction import Redaction
from ...engine.hub.backtest_api import JudgedSource
from ..config.rules_compiler import LANGUAGE

if TYPE_CHECKING:
    from ...engine.approvals.queue import Unread
    from ...engine.backtest.source import Backtested, Counted, Judged
    from ...engine.gate.types import GrantTerms, Mode
    from ...engine.history.decisions.counts import Counts, GroupBy, ShadowSummary
    from ...engine.history.decisions.filter import DecisionFilter
    from ...engine.history.decisions.reader import Decision, Mark, Part, Scan
    from ...engine.history.model.events import JournalEvent
    from ...engine.history.model.state import ApprovalState, Origin, SessionState
    from ...engine.hub.hub import Outcome, Revealed, Spawn, Subscription
    from ...engine.recording.explanation import ExplanationView


# Sources of recorded sessions for the history screens: a hub, or a journal's file when no hub runs.


DEFAULT_LIMIT = 200


class HistorySource(Protocol):
    """Recorded sessions, for history screens. The hub is one.

    Both raise `JournalError` when the journal cannot be read, `recorded` also `SessionNotFound`.
    """

    async def history(self, limit: int = DEFAULT_LIMIT) -> list[SessionSummary]:
        """Recorded sessions, newest first."""
        ...

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        """Every event of one session, in order."""
        ...


class RecordedFile(JudgedSource):
    """The journal in `database`, read and never written; another process may be writing it meanwhile."""

    def __init__(self, database: Path, redaction: Redaction | None = None) -> None:
        self._database = database
        self.redaction = (redaction or Redaction()).reading(LANGUAGE)
        self.language = LANGUAGE

    @property
    def database(self) -> Path:
        return self._database

    async def history(self, limit: int = DEFAULT_LIMIT) -> list[SessionSummary]:
        return await asyncio.to_thread(lambda: open_reader(self._database).sessions(limit=limit))

    async def recorded(self, session_id: str) -> Sequence[JournalEvent]:
        return await asyncio.to_thread(self._recorded, session_id)

    def _recorded(self, session_id: str) -> Sequence[JournalEvent]:
        reader = open_reader(self._database)
        return MaskedEvents(reader.recorded(reader.session(session_id).id), self.redaction)


class DecisionHistory(Protocol):
    """Decisions, call by call, and what they would be under other rules; see `JudgedSource`."""

    async def scan_decisions(
        self,
        wanted: DecisionFilter,
        *,
        top: Mark | None = None,
        bottom: Mark | None = None,
        seconds: float = 0.05,
    ) -> Scan: ...

    async def read_decisions(self, wanted: DecisionFilter, part: Part) -> list[Decision]: ...

    async def decision_event(self, session_id: str, seq: int) -> JournalEvent: ...

    async def count_decisions(
        self, wanted: DecisionFilter, *, by: GroupBy | None = None, steps: int = 24
    ) -> Counts: ...

    async def shadow_summary(self, wanted: DecisionFilter) -> ShadowSummary: ...

    def backtest(
        self, rules: Mapping[str, str], *, session: str | None = None, since: datetime | None = None
    ) -> AsyncGenerator[Backtested, None]: ...

    def judge(
        self,
        session: str,
        at: int,
        *,
        until: int,
        active: Sequence[str],
        rules: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Judged, None]: ...

    def fatigue(self, since: datetime | None = None) -> AsyncGenerator[Counted, None]: ...


class HubApi(DecisionHistory, HistorySource, Protocol):
    """The whole interface; see `Hub` for each method."""

    @property
    def place(self) -> str:
        """Location in a word or two: the journal's file, or the server's address."""
        ...

    @property
    def elsewhere(self) -> str:
        """The server whose sessions these are, which continue without this process; empty for none."""
        ...

    def spawn_in(self, spawn: Spawn) -> None:
        """A console says where its agents run; those of others run where they are."""
        ...

    async def sessions(self) -> list[SessionState]: ...

    async def session(self, session_id: str) -> SessionState: ...

    async def approvals(self) -> list[ApprovalState]: ...

    def unread(self) -> Unread: ...

    async def explain(self, session_id: str, call_id: str) -> ExplanationView: ...

    async def started_from(self, session_id: str) -> Origin: ...

    def subscribe(self, limit: int | None = None) -> Subscription: ...

    async def decide(
        self,
        approval_id: str,
        *,
        approved: bool,
        by: str,
        reason: str | None = None,
        input: dict[str, JsonValue] | None = None,  # noqa: A002 - the hub's own name for it
        digest: str | None = None,
        grant: GrantTerms | None = None,
        stop: bool = False,
    ) -> Outcome: ...

    async def reveal(self, approval_id: str, *, by: str) -> Revealed: ...

    async def extend(self, approval_id: str, *, seconds: float | None, by: str) -> Outcome: ...

    async def revoke_grant(self, session_id: str, key: str, *, by: str) -> Outcome: ...

    async def toggle_net(
        self,
        session_id: str,
        net: str,
        active: bool,
        *,
        by: str,
        reason: str | None = None,
        seconds: float | None = None,
    ) -> Outcome: ...

    async def set_mode(
        self,
        session_id: str,
        mode: Mode,
        *,
        by: str,
        reason: str | None = None,
        seconds: float | None = None,
    ) -> Outcome: ...

    async def confirm_change(self, session_id: str, change_id: str, *, by: str) -> Outcome: ...

    async def drop_change(self, session_id: str, change_id: str, *, by: str) -> Outcome: ...

    async def raise_limit(
        self, session_id: str, max_cost: float, *, by: str, reason: str | None = None
    ) -> Outcome: ...

    async def compact(
        self,
        session_id: str,
        *,
        by: str,
        keep_last: int = KEEP_LAST,
        instructions: str | None = None,
    ) -> Outcome: ...

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        by: str | None = None,
        mode: Literal["steer", "queue"] = "steer",
    ) -> None: ...

    async def abort(self, session_id: str, reason: str = "", *, by: str | None = None) -> None: ...

    async def close_session(self, session_id: str, by: str) -> None: ...
