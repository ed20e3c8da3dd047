"""What operators do about live sessions: answer requests, revoke grants, switch nets and modes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from pydantic import BaseModel, ConfigDict, JsonValue

from .explained import ExplanationView
from .gate.types import GrantTerms, Mode
from .history.changes import dollars
from .history.ends import end_of
from .history.events import EventBody, LimitRaised
from .history.journal import JournalError
from .history.state import ApprovalState
from .history.unmasked import StillMaskedError
from .hosted import HostedSession
from .lasting import LONGEST
from .live import LiveSessions
from .questions import Reply
from .refusals import UnknownSessionError

ENDS_KEPT = 10_000
"""Requests whose end is remembered for those who answer too late."""


class Outcome(BaseModel):
    """Whether an operator's action took effect, and the sentence to show."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    message: str


class Approving(ABC):
    """The part of a hub that decides; `_live` are its sessions."""

    def __init__(self, live: LiveSessions) -> None:
        self._live = live
        self._ended: dict[str, str] = {}

    @abstractmethod
    async def abort(self, session_id: str, reason: str = "", *, by: str | None = None) -> None:
        """Stop what an agent is doing."""

    async def approvals(self) -> list[ApprovalState]:
        """Everything that waits for a person, longest first."""
        waiting = [a for hosted in self._live for a in hosted.shown.approvals.values()]
        return sorted(waiting, key=lambda a: (a.since, a.id))

    async def decide(
        self,
        approval_id: str,
        *,
        approved: bool,
        by: str,
        reason: str | None = None,
        input: dict[str, JsonValue] | None = None,  # noqa: A002 - the field's name on the wire
        digest: str | None = None,
        grant: GrantTerms | None = None,
        stop: bool = False,
    ) -> Outcome:
        """Answer a request. The first answer counts; a later one learns what it was.

        `digest` is that of the request as it was shown: an answer to another counts for nothing. An
        approval with a `grant` also lets later calls pass; a denial with `stop` also stops the agent.
        Where several people must approve, an approval says how many are missing.
        """
        hosted = self._asker(approval_id)
        if hosted is None:
            return self._no_longer(approval_id)
        try:
            edited = None if input is None else hosted.unmasked(approval_id, input)
            reply = await hosted.questions.answer(
                approval_id,
                approved=approved,
                by=by,
                reason=reason or None,
                edited=edited,
                digest=digest,
                grant=grant,
            )
        except JournalError as error:
            return Outcome(ok=False, message=f"Not decided, the journal refused it: {error}")
        except StillMaskedError as error:
            return Outcome(ok=False, message=f"Not decided: {error}")
        if reply is None:
            return self._no_longer(approval_id)
        if reply.ok and stop and not approved:
            return await self._stop_too(hosted.id, reply, by, reason)
        return Outcome(ok=reply.ok, message=reply.message)

    def note_end(self, body: EventBody) -> None:
        """Remember how a request ended, for whoever answers it too late."""
        found = end_of(body)
        if found is not None:
            self._ended[found[0]] = found[1]
            while len(self._ended) > ENDS_KEPT:
                del self._ended[next(iter(self._ended))]

    def _asker(self, approval_id: str) -> HostedSession | None:
        return next((h for h in self._live if approval_id in h.state.approvals), None)

    def _no_longer(self, approval_id: str) -> Outcome:
        return Outcome(ok=False, message=self._ended.get(approval_id, "This request is no longer open"))

    async def _stop_too(self, session_id: str, reply: Reply, by: str, reason: str | None) -> Outcome:
        why = f"by {by}" if reason is None else f"by {by}: {reason}"
        try:
            await self.abort(session_id, why)
        except (JournalError, UnknownSessionError) as error:
            return Outcome(ok=False, message=f"{reply.message}, but the agent was not stopped: {error}")
        return Outcome(ok=True, message=f"{reply.message}; {session_id} stopped")

    async def extend(self, approval_id: str, *, seconds: float | None, by: str) -> Outcome:
        """Give a request `seconds` from now on before it is denied by itself; `None` lets it wait."""
        if seconds is not None and not 0 < seconds <= LONGEST:
            return Outcome(ok=False, message=f"Not extended: {seconds} is no length of time to wait")
        hosted = self._asker(approval_id)
        try:
            reply = None if hosted is None else await hosted.questions.extend(approval_id, seconds, by)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not extended, the journal refused it: {error}")
        if reply is None:
            return self._no_longer(approval_id)
        return Outcome(ok=reply.ok, message=reply.message)

    async def revoke_grant(self, session_id: str, key: str, *, by: str) -> Outcome:
        """End a grant: calls it would have let pass are asked about again."""
        hosted = self._live.hosted(session_id)
        try:
            revoked = await hosted.revoke(key, by)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not revoked, the journal refused it: {error}")
        if not revoked:
            return Outcome(ok=False, message=f"{session_id} has no grant '{key}' in force")
        return Outcome(ok=True, message=f"{key} revoked by {by}")

    async def explain(self, session_id: str, call_id: str) -> ExplanationView:
        """What a live session's nets say of one of its calls as things stand now.

        Raises `UnknownSessionError`, and `LookupError` for a call the session has not made.
        """
        hosted = self._live.hosted(session_id)
        view = await asyncio.to_thread(hosted.explain, call_id)
        return view.masked(hosted.redaction)

    async def toggle_net(self, session_id: str, net: str, active: bool, *, by: str) -> Outcome:
        """Switch a net of a session on or off."""
        try:
            result = await self._live.hosted(session_id).toggle(net, active, by)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not switched, the journal refused it: {error}")
        return Outcome(ok=result.ok, message=result.message)

    async def set_mode(self, session_id: str, mode: Mode, *, by: str) -> Outcome:
        """Enforce or shadow, from the session's next call on."""
        try:
            await self._live.hosted(session_id).set_mode(mode, by)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not switched, the journal refused it: {error}")
        return Outcome(ok=True, message=f"{session_id} is now in {mode} mode")

    async def raise_limit(self, session_id: str, max_cost: float, *, by: str) -> Outcome:
        """Let a session cost more, in US dollars, from its next model call on.

        One that has stopped at its limit goes on with the next message. Raises `UnknownSessionError`,
        also as `LiveSessions.get`.
        """
        hosted, session = self._live.get(session_id)
        try:
            session.check_raise(max_cost)
            await hosted.record(LimitRaised(max_cost=max_cost, by=by))
        except ValueError as error:
            return Outcome(ok=False, message=str(error))
        except JournalError as error:
            return Outcome(ok=False, message=f"Not raised, the journal refused it: {error}")
        session.raise_limit(max_cost)
        return Outcome(ok=True, message=f"{session_id} may now cost {dollars(max_cost)}")
