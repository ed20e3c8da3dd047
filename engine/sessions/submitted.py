"""Session whose calls are submitted to it: an external agent or a flow runs its loop.

Its record, nets and approval requests are kept here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import ClassVar, Literal

from ..agents.messages import clean_text
from ..core.hints import Hints, ToolClaims, join_claims
from ..history.model.events import (
    ApprovalRequested,
    EventBody,
    JournalEvent,
    MessageAdded,
    RequestMade,
    ToolHints,
)
from ..history.model.state import mark_disconnected
from ..recording.interrupted_calls import closings
from ..recording.protocol_requests import ProtocolRequests
from ..recording.resume_checks import ResumePoint
from .config import SessionConfig
from .hosted import HostedSession
from .messages import stopped
from .profile import AgentProfile
from .submitted_calls import SubmittedCalls


class SubmittedSession(HostedSession):
    """Session whose loop is not that of a hosted agent; `session` stays `None`."""

    renews_ids: ClassVar[bool] = True
    """True if a call with the id of a call that has a result is a new call (G-76)."""
    _has_requests = False
    """Most agents use another protocol, and their events skip the requests."""

    @cached_property
    def calls(self) -> SubmittedCalls:
        """Calls that were submitted, with their decisions and results."""
        return SubmittedCalls(self)

    @cached_property
    def requests(self) -> ProtocolRequests:
        """Requests of the Agent Approval Protocol about its calls."""
        return ProtocolRequests()

    @cached_property
    def _claims(self) -> asyncio.Lock:
        """Held while a claim about a tool is compared with the record."""
        return asyncio.Lock()

    @property
    def bounded_by(self) -> str | None:
        """The opener of the session; for a server's session the token."""
        return self.state.opened_by

    def drop_late(self, call_id: str) -> bool:
        """See `RequestHost`."""
        return self.calls.drop_late(call_id)

    @property
    def now(self) -> datetime:
        return self.journal.clock()

    def prepare(self, bodies: Iterable[EventBody]) -> Iterable[EventBody]:
        """See `LedgerHost`. Raises `JournalError` for events that depend on a lost call."""
        bodies = tuple(bodies)
        self.calls.check(bodies)
        return super().prepare(bodies)

    def note_written(self, event: JournalEvent) -> None:
        """See `LedgerHost`: update the calls from the record."""
        super().note_written(event)
        self.calls.note_written(event.body)
        if self._has_requests or isinstance(event.body, RequestMade):
            self._has_requests = True
            self.requests.take(event)
        if self.disconnected and isinstance(event.body, ApprovalRequested):
            self._mark_disconnected(self.disconnected)

    def note_connection(self, call_id: str, *, connected: bool) -> bool:
        """Note that the last connection that waits for a call was closed, or that one waits again.

        Return whether that is a change.
        """
        call_id, calls = self.calls.index.current(call_id), dict(self.disconnected or {})
        if connected == (call_id not in calls):
            return False
        if connected:
            del calls[call_id]
        else:
            calls[call_id] = self.now
        self.disconnected = calls
        self._mark_disconnected(calls)
        return True

    def _mark_disconnected(self, calls: Mapping[str, datetime]) -> None:
        for state in (self.state, self.shown):
            mark_disconnected(state.approvals, calls)

    def note_lost(self, body: EventBody) -> None:
        """See `LedgerHost`."""
        self.calls.note_lost(body)

    def preceding(self, call_id: str) -> Sequence[EventBody]:
        """Return the call as its agent made it, if it is not recorded yet."""
        return self.calls.unrecorded(call_id)

    def note_settled(self, call_id: str, output: str) -> None:
        """Do nothing: no message follows a result here."""

    def end_reason(self, call_id: str) -> str:
        """Return the reason of the base class, or that of whoever ended the call."""
        return self.calls.end_reason(call_id) or super().end_reason(call_id)

    async def stop(self, reason: str) -> None:
        """Block the calls that wait for an operator."""
        await self.calls.deny_all(stopped(reason))

    async def shut_down(self, reason: str) -> None:
        """Accept no more calls."""
        await self.calls.close(reason)

    async def note_hints(self, tool: str, claimed: Hints) -> None:
        """Record the claims of a tool's server about the tool, unless they are recorded already (G-113).

        A claim that differs from an earlier one, or from its absence when the tool was called before, no
        longer applies.
        """
        async with self._claims:
            state = self.state.hints.get(tool)
            known = None if state is None else ToolClaims(state.hints, state.differ)
            called = known is None and any(call.tool == tool for call in self.state.calls.values())
            now = join_claims(known, claimed, called=called)
            if now != (known or ToolClaims()):
                await self.record(ToolHints(tool=tool, hints={**now.hints}, differ=now.differ))

    async def record_message(
        self, role: Literal["user", "assistant"], text: str, reported_by: str | None = None
    ) -> None:
        """Record a message, with the token that reported it, if any."""
        if text.strip():
            by = reported_by if role == "user" else None
            await self.record(MessageAdded(role=role, text=str(clean_text(text)), reported_by=by))

    async def result(
        self,
        call_id: str,
        output: str,
        is_error: bool,
        seconds: float | None,
        *,
        unknown: bool = False,
    ) -> None:
        """Record how a call ended."""
        await self.calls.result(call_id, str(clean_text(output)), is_error, seconds, unknown=unknown)

    def resumption(
        self,
        profile: AgentProfile,
        config: SessionConfig,
        point: ResumePoint,
        events: Sequence[JournalEvent],
    ) -> list[EventBody]:
        """Return the events with which it is resumed after `events`.

        Deferred transitions of unchanged nets still wait for results. A call that an operator had denied
        is denied; any other undecided call is decided when it is made again.
        """
        bodies = [event.body for event in events]
        for body in bodies:
            self.calls.index.take(body)
        if any(isinstance(body, RequestMade) for body in bodies):
            self._has_requests = True
            for event in events:
                self.requests.take(event)
        pending = self.state.pending
        self.restore_pending(p for p in pending if point.keeps(p))
        ended = closings(self.state, (), bodies, going_on={p.call_id for p in pending})
        return [self.resumed(profile, config, point), *ended]
