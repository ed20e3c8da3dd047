"""Deadlines of requests: when one expires or is escalated, and who may extend it."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from ..core.clock import timer_delay
from ..core.durations import format_duration
from ..gate.types import ApprovalAnswer, ApprovalRequest
from ..history.errors import JournalError
from ..history.model.events import ApprovalEscalated, ApprovalExpired, ApprovalExtended
from ..history.model.records import ExtensionRecord
from ..recording.interrupted_calls import Deadline
from ..recording.ledger import RepeatedRefusals, note_refusal
from .answer_checks import AnswerChecks
from .open_request import OpenRequest, Reply, RequestTable, expiry_reason
from .policy import Credential
from .withdrawals import RETRY

log = logging.getLogger(__name__)


class Deadlines:
    """Deadlines of one session's open requests, by the journal's clock."""

    def __init__(self, table: RequestTable, checks: AnswerChecks) -> None:
        self._table = table
        self._checks = checks
        self._refusals = RepeatedRefusals(log, "Request '%s' has expired, and the journal refused it")

    def of_new(self, request: ApprovalRequest) -> Deadline:
        """Return the deadline of a request that was not asked before."""
        lasts = self._table.policy.expire if request.within is None else request.within
        now = self._table.clock()
        due = None if lasts is None else now + timedelta(seconds=lasts)
        return Deadline(now, due, due)

    # Expiry

    def arm(self, open_request: OpenRequest) -> None:
        """Schedule the expiry of the request at its deadline."""
        if open_request.timer is not None:
            open_request.timer.cancel()
            open_request.timer = None
        approval = self._table.host.state.approvals.get(open_request.approval_id)
        if approval is not None and approval.expires is not None:
            self._expire_in((approval.expires - self._table.clock()).total_seconds(), open_request)

    def _expire_in(self, seconds: float, open_request: OpenRequest) -> None:
        open_request.timer = asyncio.get_running_loop().call_later(
            timer_delay(seconds), lambda: self._table.tasks.start(self.expire(open_request))
        )

    async def expire(self, open_request: OpenRequest) -> None:
        """Deny a request whose deadline is over."""
        async with open_request.turn:
            approval = self._table.approval_of(open_request)
            if approval is None or approval.expires is None or open_request.fuse is not None:
                # An approval that can still be taken back came in time.
                return
            now = self._table.clock()
            if now < approval.expires:
                # It is not yet due: see `timer_delay`.
                self.arm(open_request)
                return
            reason = expiry_reason(approval, open_request.since, now)
            body = ApprovalExpired(
                approval_id=open_request.approval_id, call_id=approval.call_id, reason=reason
            )
            try:
                await self._table.end(open_request, body, ApprovalAnswer(False, reason))
            except JournalError:
                if self._refusals.note(open_request.approval_id):
                    self._expire_in(RETRY, open_request)
            else:
                self._refusals.forget(open_request.approval_id)

    async def extend(
        self, approval_id: str, seconds: float | None, by: str, credential: Credential | None = None
    ) -> Reply | None:
        """Set a request's deadline to `seconds` from now, or remove it.

        If several people must approve, two other people must request an extension beyond the original
        deadline (G-77); the shorter of their times is used.
        """
        table = self._table
        async with table.turn(approval_id) as found:
            if found is None:
                return None
            open_request, approval = found
            if approval.expires is not None and table.clock() >= approval.expires:
                return Reply(False, "The time for this request is over")
            overstepped = table.tokens.overstepped(by, credential, "decide")
            if overstepped is not None:
                return Reply(False, overstepped)
            until = None if seconds is None else table.clock() + timedelta(seconds=seconds)
            others: tuple[str, ...] = ()
            if (
                approval.people > 1
                and open_request.latest_expiry is not None
                and (until is None or until > open_request.latest_expiry)
            ):
                by = by.strip()
                same = self._checks.involvement(approval, by, table.tokens.operator(by, credential))
                if not by or same is not None:
                    why = same or "Not extended: this needs the name of an operator"
                    return Reply(False, f"{why}: two other people must extend this request")
                first = self._checks.first_extension(approval, by, credential)
                if first is None:
                    token = None if credential is None else credential.token
                    proposed = ExtensionRecord(until=until, by=by, token=token)
                    await table.note(
                        ApprovalExtended(
                            approval_id=approval_id,
                            call_id=approval.call_id,
                            until=approval.expires,
                            by=by,
                            proposed=proposed,
                        )
                    )
                    return Reply(True, f"{approval.tool}: a second person must extend it as well")
                others = (first.by,)
                until = min((each for each in (until, first.until) if each is not None), default=None)
            extended = ApprovalExtended(
                approval_id=approval_id, call_id=approval.call_id, until=until, by=by, others=others
            )
            await table.note(extended)
            if others:
                open_request.latest_expiry = until
            self.arm(open_request)
        if until is None:
            return Reply(True, f"{approval.tool} now has no deadline")
        seconds = (until - table.clock()).total_seconds()
        return Reply(True, f"{approval.tool} now expires in {format_duration(seconds)}")

    # Escalation

    def arm_escalation(self, open_request: OpenRequest) -> None:
        """Schedule the escalation of the request, by the time since it was first asked."""
        due = _escalation_of(open_request)
        if due is not None:
            self._escalate_in((due - self._table.clock()).total_seconds(), open_request)

    def _escalate_in(self, seconds: float, open_request: OpenRequest) -> None:
        open_request.escalation = asyncio.get_running_loop().call_later(
            timer_delay(seconds),
            lambda: self._table.tasks.start(self._escalate(open_request)),
        )

    async def _escalate(self, open_request: OpenRequest) -> None:
        async with open_request.turn:
            try:
                if self._table.approval_of(open_request) is not None and not await self.escalated(
                    open_request
                ):
                    # It is not yet due: see `timer_delay`.
                    self.arm_escalation(open_request)
            except JournalError:
                said = "Request '%s' is not escalated: the journal refused it"
                if note_refusal(log, said, open_request.approval_id):
                    self._escalate_in(RETRY, open_request)

    async def escalated(self, open_request: OpenRequest) -> bool:
        """Record an escalation that is due; return whether it was. The caller holds the turn."""
        terms, due = open_request.request.approvers.escalation, _escalation_of(open_request)
        if terms is None or due is None or self._table.clock() < due:
            return False
        approval = self._table.approval_of(open_request)
        if approval is not None and approval.escalated is None:
            await self._table.note(
                ApprovalEscalated(
                    approval_id=open_request.approval_id, call_id=approval.call_id, group=terms.group
                )
            )
        return True


def _escalation_of(open_request: OpenRequest) -> datetime | None:
    """Return the time at which a request is escalated; `None` if its rule has none."""
    terms = open_request.request.approvers.escalation
    return None if terms is None else open_request.since + timedelta(seconds=terms.after)
