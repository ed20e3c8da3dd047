"""Actions of operators: answer requests, revoke grants, switch nets and modes of live sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from pydantic import JsonValue

from ..approvals.open_request import OperatorAnswer, Reply
from ..approvals.passkeys import KeyAnswer
from ..approvals.policy import Credential
from ..approvals.readers import Readers
from ..approvals.request_order import Unread, longest_first
from ..approvals.requests import ApprovalRequests
from ..core.durations import LONGEST, format_duration
from ..gate.types import GrantTerms, Mode
from ..history.fold.approvals import end_of, own_end
from ..history.fold.event_text import dollars
from ..history.journal.journal import JournalError
from ..history.model.events import ApprovalDecided, EventBody, LimitRaised
from ..history.model.state import ApprovalState, mark_readers
from ..history.redaction.unmasking import StillMaskedError
from ..recording.explanation import ExplanationView
from ..sessions.errors import UnknownSessionError
from ..sessions.hosted import HostedSession
from ..sessions.registry import SessionRegistry
from ..sessions.subagents import HostedChild
from ..sessions.switching import Switching, SwitchTerms
from .api import HubApi, Outcome, Revealed
from .events import RequestReaders

UNCHANGED = "the edited input is the one that was asked for. Change something, or approve it as it is"
ENDS_KEPT = 10_000
"""Number of requests whose end is kept for operators who answer too late."""


class OperatorActions(HubApi):
    """Actions of operators on a hub's live sessions `_live`."""

    def __init__(self, live: SessionRegistry) -> None:
        self._live = live
        self._ended: dict[str, EventBody] = {}
        self.readers = Readers(self._show_readers)

    async def approvals(self) -> list[ApprovalState]:
        waiting = [a for hosted in self._live for a in hosted.shown.approvals.values()]
        return longest_first(waiting)

    def unread(self) -> Unread:
        return Unread()

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
        passkey: KeyAnswer | None = None,
        credential: Credential | None = None,
    ) -> Outcome:
        hosted = self._asker(approval_id)
        if hosted is None:
            return self._no_longer(approval_id, by)
        try:
            edited = None if input is None else hosted.unmasked(approval_id, input)
            if approved and edited is not None and hosted.is_as_asked(approval_id, edited):
                return Outcome(ok=False, message=f"Not decided: {UNCHANGED}")
            approval = hosted.shown.approvals.get(approval_id)
            answer = OperatorAnswer(
                approved, by, reason or None, edited, digest, grant, credential, passkey
            )
            reply = await hosted.questions.answer(approval_id, answer)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not decided, the journal refused it: {error}")
        except StillMaskedError as error:
            return Outcome(ok=False, message=f"Not decided: {error}")
        if reply is None:
            return self._no_longer(approval_id, by)
        if (
            reply.ok
            and approval is not None
            and (since := (hosted.disconnected or {}).get(approval.call_id))
        ):
            reply = replace(reply, message=f"{reply.message}, but {self._unattended(hosted, since)}")
        if reply.ok and stop and not approved:
            return await self._stop_too(hosted.id, reply, by, reason)
        return Outcome(ok=reply.ok, message=reply.message)

    @staticmethod
    def _unattended(hosted: HostedSession, since: datetime) -> str:
        """Return the consequence of a decision on a call that no connection waits for."""
        lost = format_duration((hosted.journal.clock() - since).total_seconds())
        return f"its agent has been disconnected for {lost}: nobody will act on this unless it comes back"

    async def take_back(
        self, approval_id: str, *, by: str, credential: Credential | None = None
    ) -> Outcome:
        hosted = self._asker(approval_id)
        try:
            reply = (
                None
                if hosted is None
                else await hosted.questions.fuses.take_back(approval_id, by, credential)
            )
        except JournalError as error:
            message = "Not recorded as taken back, and not released either: it is asked again"
            return Outcome(ok=False, message=f"{message}. The journal refused it: {error}")
        if reply is None:
            return self._no_longer(approval_id, by)
        return Outcome(ok=reply.ok, message=reply.message)

    async def claim(
        self,
        approval_id: str,
        *,
        by: str,
        console: str | None = None,
        credential: Credential | None = None,
    ) -> Outcome:
        return await self._arrange(
            approval_id, by, credential, lambda asked: asked.claims.claim(approval_id, by, console)
        )

    async def unclaim(
        self, approval_id: str, *, by: str, credential: Credential | None = None
    ) -> Outcome:
        return await self._arrange(
            approval_id, by, credential, lambda asked: asked.claims.unclaim(approval_id, by)
        )

    async def comment(
        self,
        approval_id: str,
        text: str,
        *,
        by: str,
        to: str | None = None,
        credential: Credential | None = None,
    ) -> Outcome:
        return await self._arrange(
            approval_id, by, credential, lambda asked: asked.claims.comment(approval_id, by, text, to)
        )

    async def _arrange(
        self,
        approval_id: str,
        by: str,
        credential: Credential | None,
        act: Callable[[ApprovalRequests], Awaitable[Reply | None]],
    ) -> Outcome:
        """Run a claim or a comment on a request, which needs the right to decide it."""
        overstepped = self._live.tokens.overstepped(by.strip(), credential, "decide")
        if overstepped is not None:
            return Outcome(ok=False, message=overstepped)
        hosted = self._asker(approval_id)
        try:
            reply = None if hosted is None else await act(hosted.questions)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not recorded, the journal refused it: {error}")
        if reply is None:
            return self._no_longer(approval_id)
        return Outcome(ok=reply.ok, message=reply.message)

    async def note_reading(
        self, approval_id: str, reading: bool, *, by: str, console: str | None = None
    ) -> None:
        hosted = self._asker(approval_id)
        self.readers.note(console or f"here: {by}", by, approval_id if reading and hosted else None)

    async def console_gone(self, console: str) -> None:
        """End the claims of a console that was disconnected; it has no request on screen any more."""
        self.readers.note(console, "", None)
        for hosted in self._live:
            await hosted.questions.claims.end_claims(console)

    def _show_readers(self, approval_id: str, names: tuple[str, ...]) -> None:
        """Note who has a request on screen, and publish it to subscribers."""
        hosted = self._asker(approval_id)
        if hosted is not None:
            for state in (hosted.state, hosted.shown):
                mark_readers(state.approvals, approval_id, names)
            self._show_event(RequestReaders(session=hosted.id, approval_id=approval_id, names=names))

    def reading(self) -> list[RequestReaders]:
        """Return the requests that operators have on screen, with their names."""
        found: list[RequestReaders] = []
        for hosted in self._live:
            for approval in hosted.shown.approvals.values():
                if approval.readers:
                    found.append(
                        RequestReaders(session=hosted.id, approval_id=approval.id, names=approval.readers)
                    )
        return found

    def _show_event(self, event: RequestReaders) -> None:
        """Pass an event on to subscribers."""
        raise NotImplementedError

    async def reveal(self, approval_id: str, *, by: str) -> Revealed:
        hosted = self._asker(approval_id)
        try:
            reply = None if hosted is None else await hosted.questions.reveal(approval_id, by)
        except JournalError as error:
            return Revealed(ok=False, message=f"Not shown, the journal refused it: {error}")
        if hosted is None or reply is None or approval_id not in hosted.state.approvals:
            return Revealed(ok=False, message=self._no_longer(approval_id).message)
        texts = hosted.revealed(approval_id) if reply.ok else ()
        return Revealed(ok=reply.ok, message=reply.message, texts=texts)

    def note_end(self, body: EventBody) -> None:
        """Keep how a request ended, for an operator who answers it too late."""
        found = end_of(body)
        if found is not None:
            self._ended[found[0]] = body
            while len(self._ended) > ENDS_KEPT:
                del self._ended[next(iter(self._ended))]

    def _asker(self, approval_id: str) -> HostedSession | None:
        return next((h for h in self._live if approval_id in h.state.approvals), None)

    def _no_longer(self, approval_id: str, by: str = "") -> Outcome:
        body = self._ended.get(approval_id)
        found = None if body is None else end_of(body)
        if found is None:
            return Outcome(ok=False, message="This request is no longer open")
        if isinstance(body, ApprovalDecided) and body.by == by.strip():
            return Outcome(ok=False, message=own_end(body))
        return Outcome(ok=False, message=found[1])

    async def _stop_too(self, session_id: str, reply: Reply, by: str, reason: str | None) -> Outcome:
        why = f"by {by}" if reason is None else f"by {by}: {reason}"
        try:
            await self.abort(session_id, why)
        except (JournalError, UnknownSessionError) as error:
            return Outcome(ok=False, message=f"{reply.message}, but the agent was not stopped: {error}")
        return Outcome(ok=True, message=f"{reply.message}; {session_id} stopped")

    async def extend(
        self,
        approval_id: str,
        *,
        seconds: float | None,
        by: str,
        credential: Credential | None = None,
    ) -> Outcome:
        if not by.strip():
            return Outcome(ok=False, message="Not extended: this needs the name of an operator")
        if seconds is not None and not 0 < seconds <= LONGEST:
            return Outcome(ok=False, message=f"Not extended: {seconds} is not a valid time to wait")
        hosted = self._asker(approval_id)
        try:
            reply = (
                None
                if hosted is None
                else await hosted.questions.deadlines.extend(approval_id, seconds, by, credential)
            )
        except JournalError as error:
            return Outcome(ok=False, message=f"Not extended, the journal refused it: {error}")
        if reply is None:
            return self._no_longer(approval_id)
        return Outcome(ok=reply.ok, message=reply.message)

    async def revoke_grant(self, session_id: str, key: str, *, by: str) -> Outcome:
        hosted = self._live.hosted(session_id)
        try:
            revoked = await hosted.revoke(key, by)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not revoked, the journal refused it: {error}")
        if not revoked:
            return Outcome(ok=False, message=f"{session_id} has no grant '{key}' in force")
        return Outcome(ok=True, message=f"{key} revoked by {by}")

    async def explain(self, session_id: str, call_id: str) -> ExplanationView:
        hosted = self._live.hosted(session_id)
        view = await asyncio.to_thread(hosted.explain, call_id)
        return view.masked(hosted.redaction)

    async def toggle_net(
        self,
        session_id: str,
        net: str,
        active: bool,
        *,
        by: str,
        reason: str | None = None,
        seconds: float | None = None,
        credential: Credential | None = None,
    ) -> Outcome:
        return await self._switch(
            session_id, lambda s: s.toggle(net, active, SwitchTerms(by, reason, seconds, credential))
        )

    async def set_mode(
        self,
        session_id: str,
        mode: Mode,
        *,
        by: str,
        reason: str | None = None,
        seconds: float | None = None,
        credential: Credential | None = None,
    ) -> Outcome:
        return await self._switch(
            session_id, lambda s: s.set_mode(mode, SwitchTerms(by, reason, seconds, credential))
        )

    async def confirm_change(
        self, session_id: str, change_id: str, *, by: str, credential: Credential | None = None
    ) -> Outcome:
        return await self._switch(session_id, lambda s: s.confirm(change_id, by, credential))

    async def drop_change(self, session_id: str, change_id: str, *, by: str) -> Outcome:
        return await self._switch(session_id, lambda s: s.drop(change_id, by))

    async def _switch(self, session_id: str, act: Callable[[Switching], Awaitable[Reply]]) -> Outcome:
        hosted = self._live.hosted(session_id)
        if isinstance(hosted, HostedChild):
            return Outcome(ok=False, message=hosted.judged_elsewhere)
        try:
            reply = await act(hosted.switching)
        except JournalError as error:
            return Outcome(ok=False, message=f"Not switched, the journal refused it: {error}")
        return Outcome(ok=reply.ok, message=reply.message, needs_reason=reply.needs_reason)

    async def accept_loss(
        self, session_id: str, *, by: str, reason: str, credential: Credential | None = None
    ) -> Outcome:
        return Outcome(ok=False, message="Not accepted: a journal in a file loses nothing that it took")

    async def raise_limit(
        self, session_id: str, max_cost: float, *, by: str, reason: str | None = None
    ) -> Outcome:
        hosted, session = self._live.get(session_id)
        reason = (reason or "").strip()
        if not by.strip():
            return Outcome(ok=False, message="Not raised: that needs the name of an operator")
        if not reason:
            return Outcome(ok=False, message="Not raised: say why, the reason is recorded with it")
        try:
            session.check_raise(max_cost)
            await hosted.record(LimitRaised(max_cost=max_cost, by=by, reason=reason))
        except ValueError as error:
            return Outcome(ok=False, message=str(error))
        except JournalError as error:
            return Outcome(ok=False, message=f"Not raised, the journal refused it: {error}")
        session.raise_limit(max_cost)
        return Outcome(ok=True, message=f"{session_id} may now cost {dollars(max_cost)}")
