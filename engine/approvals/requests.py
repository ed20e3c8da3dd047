"""The open requests of one hosted session: asked, answered, extended, expired, withdrawn.

Each of these is recorded before it takes effect. An answer counts only for what was shown: every request
has a digest, and if what it covers has changed, the request is void and the call is judged again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from secrets import token_hex
from uuid import uuid4

from ..core.people import is_among
from ..core.plan import PLAN
from ..gate.classify import exact_input_reason, marked_commands, uninspectable
from ..gate.types import ApprovalAnswer, ApprovalRequest
from ..history.audit.passkeys import KeyProofError
from ..history.model.events import ApprovalGiven, ApprovalRequested, ApprovalRevealed
from ..history.model.fast_models import copy_with
from ..history.model.records import KeyProof
from ..history.model.state import ApprovalState
from ..recording.records import json_input, plan_records, rule_record
from ..recording.resume_checks import Deadline
from .answer_checks import AnswerChecks
from .claims import Claims
from .deadlines import Deadlines
from .decisions import Decisions
from .digests import digest_of, rules_digest
from .fuse import Fuses
from .input_form import RequestedInput
from .late import LateRequests
from .open_request import (
    AGAIN,
    JUDGED,
    OpenRequest,
    OpenRequests,
    OperatorAnswer,
    Reply,
    RequestHost,
    RequestTable,
)
from .policy import ApprovalPolicy, OperatorTokens


class ApprovalRequests:
    """The open requests of one hosted session. They expire by `clock`, the journal's."""

    def __init__(
        self,
        host: RequestHost,
        policy: ApprovalPolicy,
        clock: Callable[[], datetime],
        tokens: OperatorTokens | None = None,
        requests: OpenRequests | None = None,
    ) -> None:
        self._host = host
        self._requests = requests or OpenRequests()
        table = self.table = RequestTable(host, policy, clock, tokens or OperatorTokens())
        self._requests.join(table)
        self.withdrawals = table.withdrawals
        self.checks = AnswerChecks(table)
        self.deadlines = Deadlines(table, self.checks)
        self._decisions = Decisions(table, self.deadlines)
        self.fuses = Fuses(table, self.checks, self.deadlines, self._decisions)
        self.late = LateRequests(table, self.fuses)
        self.claims = Claims(table)
        self._check_scheduled = False

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        preview: str | None,
        via: str | None,
        requested_input: RequestedInput | None = None,
        files_unchanged: Callable[[], Awaitable[bool]] | None = None,
    ) -> ApprovalAnswer:
        """Record a request and wait for its end. Cancelling withdraws it.

        The answer to `requested_input` is recorded with the decision and does not change the call itself.
        At an approval `files_unchanged` returns whether the `preview` is still right; if not, the request
        is asked again. No request is made while its opener has too many open ones, unless it was voided
        here before.
        """
        table, approval_id, call_id = self.table, uuid4().hex[:12], request.call.tool_call_id
        salt = token_hex(16)
        digest = digest_of(self._host.id, self._host.manager, request, salt)
        about = call_id, request.net
        before = table.deadlines.pop(about, None)
        time = before or self.deadlines.of_new(request)
        opener = self._host.bounded_by
        if about in table.voided:
            table.voided -= {about}
        elif (refusal := self._requests.refusal(opener)) is not None:
            return ApprovalAnswer(False, refusal, asked=False)
        asked = copy_with(
            self._request_event(request, approval_id, digest, preview, via, requested_input),
            {
                "digest_salt": salt,
                "expires": time.expires,
                "first_asked": None if before is None else before.since,
            },
        )
        answered: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        open_request = table.open[approval_id] = OpenRequest(
            approval_id,
            request,
            digest,
            salt,
            requested_input,
            answered,
            time.since,
            time.due,
            files_unchanged,
        )
        try:
            # A context manager's generator would stay in memory during the wait, here and in callers.
            self._requests.begin(opener)
            try:
                await self._host.record(asked, on_written=open_request.note)
                del asked  # as large as everything shown about it, and the wait may last for days
                self.deadlines.arm(open_request)
                self.deadlines.arm_escalation(open_request)
                if about in table.claims:
                    table.tasks.start(self.claims.renew(open_request))
                return await open_request.answered
            finally:
                self._requests.end(opener)
        except asyncio.CancelledError:
            # An answer that is being recorded ends the request itself. From now on no answer is accepted,
            # because none may follow the withdrawal.
            open_request.end_reason = self._host.end_reason(call_id)
            if not open_request.ending and not open_request.unasked:
                open_request.ending = True
                await self.withdrawals.withdraw(approval_id, call_id, open_request.end_reason)
            raise
        finally:
            table.open.pop(approval_id, None)
            open_request.cancel_timers()

    def _request_event(
        self,
        request: ApprovalRequest,
        approval_id: str,
        digest: str,
        preview: str | None,
        via: str | None,
        requested_input: RequestedInput | None,
    ) -> ApprovalRequested:
        """Return the event with which a request begins: everything that operators are shown about it."""
        manager, call, net = self._host.manager, request.call, request.skill_net
        commands, marked = marked_commands(net, call)
        planned = call.tool_name == PLAN and requested_input is None
        return ApprovalRequested(
            approval_id=approval_id,
            call_id=call.tool_call_id,
            tool=request.tool,
            called=call.tool_name,
            input=json_input(call.input),
            names=request.names,
            net=request.net,
            transition=request.transition.name,
            title=(requested_input or request).title,
            message=(requested_input or request).message,
            marking=dict(request.marking),
            rule=rule_record(request.rule),
            uninspectable=uninspectable(net, call),
            preview=preview,
            via=via,
            digest=digest,
            rules_digest=rules_digest(manager, request),
            risk=request.risk,
            people=request.people,
            approvers=request.transition.approvers,
            may_grant=request.may_grant and requested_input is None and not planned,
            exact_only=exact_input_reason(net, call),
            beyond=request.beyond,
            note=self._note_on(request),
            wants=None if requested_input is None else requested_input.schema,
            commands=commands,
            marked=marked,
            edited=request.edit is not None,
            edited_by=None if request.edit is None else request.edit.by,
            plan=plan_records(manager.plan_forecast(call.input)) if planned else (),
        )

    def _note_on(self, request: ApprovalRequest) -> str | None:
        """Return why a rule needs approval although it does not apply any more (G-67), or its note."""
        manager = self._host.manager
        if request.net and request.net in manager.nets and request.net not in manager.active:
            return "the call was made before the rule was turned off"
        if manager.mode == "shadow":
            return "the call was made before the session was switched to shadow mode"
        if (
            request.net
            and request.edit is not None
            and not manager.concerned(request.call, [request.net])
        ):
            return "the call was edited after the rule had asked"
        return request.note

    def keep(self, deadlines: Mapping[tuple[str, str], Deadline]) -> None:
        """Let requests that an earlier host had open keep their deadlines, by call and net (G-67)."""
        self.table.deadlines.update(deadlines)

    # Answers

    async def answer(self, approval_id: str, answer: OperatorAnswer) -> Reply | None:
        """Record an operator's answer, then release the call. Return `None` if it no longer waits.

        The first answer decides. If several people must approve, each must still be another person when
        the last of them approves (G-77), or all are asked again. Raises `JournalError` if the answer
        could not be recorded; the request then stays open.
        """
        approved, by, edited = answer.approved, answer.by.strip(), answer.edited
        credential, table = answer.credential, self.table
        open_request = table.open.get(approval_id)
        if open_request is None:
            return None
        async with open_request.turn:
            approval = await self._decisions.check_open(open_request, approved=approved)
            if not isinstance(approval, ApprovalState):
                return approval
            problem = self.checks.refusal(open_request, approval, answer, by)
            if problem is not None:
                return Reply(False, problem)
            lapsed = self.checks.lapsed(approval, credential) if approved else None
            if lapsed is not None:
                await table.void(open_request, lapsed)
                return Reply(False, f"{lapsed}: everybody is asked again")
            edits = approved and edited is not None and open_request.requested_input is None
            if edits and approval.renewed_by_edit:
                if not await table.void(open_request, f"edited by {by}", (edited, by)):
                    return None
                return Reply(True, _asked_anew(approval))
            try:
                proof = (
                    self.checks.proof(open_request, answer, by) if approved and approval.passkey else None
                )
            except KeyProofError as error:
                return Reply(False, self.checks.unproved(approval, error))
            missing = approval.people - len(approval.given) - 1
            if approved and missing > 0:
                await table.note(self._given_event(open_request, approval, answer, by, proof))
                return Reply(True, _more_needed(approval, by, missing))
            answer = replace(answer, by=by)
            if approved and (self.fuses.seconds_of(approval) > 0 or approval.late is not None):
                return await self.fuses.light(open_request, approval, answer, proof)
            if not await self._decisions.conclude(open_request, approval, answer, proof):
                return None
        return Reply(True, f"{approval.tool} {'approved' if approved else 'denied'} by {by}")

    def _given_event(
        self,
        open_request: OpenRequest,
        approval: ApprovalState,
        answer: OperatorAnswer,
        by: str,
        proof: KeyProof | None,
    ) -> ApprovalGiven:
        """Return the event of an approval after which more people must approve."""
        credential = answer.credential
        person = self.table.tokens.operator(by, credential)
        return ApprovalGiven(
            approval_id=open_request.approval_id,
            call_id=approval.call_id,
            by=by,
            digest=open_request.digest,
            token=None if credential is None else credential.token,
            groups=person.groups,
            login=person.login,
            proof=proof,
        )

    async def reveal(self, approval_id: str, by: str) -> Reply | None:
        """Record that an operator looks at masked text of a request that may be more than secrets."""
        by = by.strip()
        async with self.table.turn(approval_id) as found:
            if found is None:
                return None
            _, approval = found
            if not by:
                return Reply(False, "Not shown: this needs the name of an operator")
            if not is_among(by, approval.revealed):
                await self.table.note(
                    ApprovalRevealed(approval_id=approval_id, call_id=approval.call_id, by=by)
                )
        return Reply(True, f"The masked text of {approval.tool} is shown to {by}")

    # Void requests

    async def ask_again(self, reason: str) -> None:
        """Void the requests whose digest has changed: their calls are judged again.

        `reason` says what has changed, and by whom (G-67).
        """
        table = self.table
        await table.void_all(
            lambda open_request: None if open_request.over or table.is_current(open_request) else reason,
            AGAIN,
        )

    def schedule_renewal(self, reason: str) -> None:
        """Start to void the requests that were shown in a state that the gate has taken back."""
        if self.table.open:
            self.table.tasks.start(self.ask_again(reason))

    def schedule_block_check(self) -> None:
        """Start to void the requests of calls that a net now blocks (G-68)."""
        if self.table.open and not self._check_scheduled:
            self._check_scheduled = True
            self.table.tasks.start(self._withdraw_blocked())

    async def _withdraw_blocked(self) -> None:
        self._check_scheduled = False
        table = self.table
        await table.void_all(
            lambda open_request: (
                None if table.approval_of(open_request) is None else table.blocked(open_request)
            ),
            JUDGED,
        )


def _asked_anew(approval: ApprovalState) -> str:
    """Return the message about an edit that approves nothing."""
    if approval.called == PLAN:
        return "The edited plan is a new request, with a forecast of its own"
    return "The edited call is a new request, which everybody must approve"


def _more_needed(approval: ApprovalState, by: str, missing: int) -> str:
    """Return the message about an approval after which more are needed."""
    rest = "one more person" if missing == 1 else f"{missing} more people"
    so_far = f"{len(approval.given) + 1} of {approval.people}"
    return f"{approval.tool} approved by {by} ({so_far}); {rest} must approve"
