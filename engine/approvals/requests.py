"""The open requests of one hosted session: asked, answered, extended, expired, withdrawn.

Each of these is in the record before it takes effect. An answer counts for what was shown and for nothing
else: every request has a digest, and when what it covers has changed, the request is void and the call is
judged again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from secrets import token_hex
from typing import Literal, Protocol, TypeAlias
from uuid import uuid4
from weakref import WeakSet

from pydantic import JsonValue

from ..core.approvers import ANYBODY, Approvers, Operator, Operators, some_of
from ..core.durations import format_duration
from ..core.people import involvement_reason, is_among, same_person
from ..core.plan import PLAN
from ..core.rights import may
from ..core.rule import people_to_loosen
from ..gate import GateManager
from ..gate.classify import exact_input_reason, marked_commands, uninspectable
from ..gate.grants.net import from_subagent
from ..gate.reasons import EDITED_EFFECTS
from ..gate.types import ApprovalAnswer, ApprovalRequest, GrantTerms
from ..history.audit.canonical_json import canonical
from ..history.audit.passkeys import ApprovedRequest, KeyProofError, request_digest
from ..history.errors import JournalError
from ..history.model.events import (
    ApprovalClaimed,
    ApprovalCommented,
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalRevealed,
    ApprovalTakenBack,
    ApprovalUnclaimed,
    ApprovalWithdrawn,
    CallLate,
    CallRepeated,
    EventBody,
)
from ..history.model.records import ExtensionRecord, KeyProof
from ..history.model.state import ApprovalState, SessionState
from ..recording.records import json_input, net_record, plan_records, rule_record
from ..recording.resume_checks import Deadline
from .input_form import RequestedInput
from .passkeys import Challenge, KeyAnswer, Passkeys
from .withdrawals import RETRY, Tasks, WithdrawalHost, Withdrawals

CLAIM = 600.0
"""Seconds for which a person has a request that they took on."""
TIME_OVER = "its time is over"
"""Reason for which a claim ends by itself."""
MOST_COMMENTS = 50
"""Comments on one request."""
NO_KEYS = "this hub knows no passkeys, and the rule asks for one"
KEY_GONE = "their passkey was removed"
CHANGED = "the request has changed"
AGAIN = "asked again"
JUDGED = "judged again"
"""Consequences for a call whose request is withdrawn."""
FILE_CHANGED = "the file has changed since it was shown"

_End: TypeAlias = ApprovalDecided | ApprovalExpired | ApprovalWithdrawn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Terms of requests where no rule says otherwise.

    `expire` is after how many seconds a request is denied; `None` lets it wait for ever. With
    `own_approvals` those who started a session may be among several people who approve its calls. `fuse`
    is for how many seconds an approval of high risk can be taken back before its call is released. `late`
    is for how many seconds a request stays open whose client has gone (G-102).
    """

    expire: float | None = None
    own_approvals: bool = False
    fuse: float = 0.0
    late: float = 0.0


TokenCheck: TypeAlias = Callable[[str, Literal["decide", "administer"]], bool]
"""Tells whether an operator's token, by its id, may be used now for deciding, or for administering."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The token an operator came with, by its id, and which tokens are in force now (G-77).

    `operator` is who that is, as the server's login has it.
    """

    token: str
    in_force: TokenCheck
    operator: Operator | None = None


@dataclass(slots=True)
class OperatorTokens:
    """The operators there are, and which of their tokens are in force (G-77).

    A server that lets them reach the hub sets `check`; without one no token can be looked up, and none is
    in force. `operators` are those of the configuration, `person` looks up who has logged in at a
    provider, by name. `keys` are the passkeys that operators enrolled.
    """

    check: TokenCheck | None = None
    operators: Operators = field(default_factory=Operators)
    person: Callable[[str], Operator | None] | None = None
    keys: Passkeys | None = None

    def operator(self, name: str, credential: Credential | None = None) -> Operator:
        """The operator of this name, with a `credential`; without one the name is only claimed."""
        known = None if credential is None else credential.operator
        if known is None and self.person is not None:
            known = self.person(name)
        return known or self.operators.find(name)

    def overstepped(
        self, name: str, credential: Credential | None, needed: Literal["decide", "administer"]
    ) -> str | None:
        """Reason why a person's role does not allow what needs `needed`; `None` where it does."""
        rights = self.operator(name, credential).rights
        if may(rights, needed):
            return None
        return f"The role of {name} is '{rights}', and this needs '{needed}': see [operators]"

    def in_force(
        self,
        token: str | None,
        credential: Credential | None,
        needed: Literal["decide", "administer"] = "decide",
    ) -> bool:
        """Tell whether what a person did with a token still counts, for one who comes with `credential`.

        Without a token it was done here, where the name alone counts.
        """
        if token is None:
            return True
        if credential is not None:
            return credential.in_force(token, needed)
        return self.check is not None and self.check(token, needed)


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of an operator's action; with `needs_reason` it was refused only for want of one."""

    ok: bool
    message: str
    needs_reason: bool = False


@dataclass(frozen=True, slots=True)
class OperatorAnswer:
    """An operator's answer to a request; `edited` is an input instead, `digest` of what was shown.

    `passkey` is what their browser said to the challenge for it, where the rule asks for a passkey.
    """

    approved: bool
    by: str
    reason: str | None = None
    edited: dict[str, JsonValue] | None = None
    digest: str | None = None
    grant: GrantTerms | None = None
    credential: Credential | None = None
    passkey: KeyAnswer | None = None


@dataclass(slots=True)
class OpenRequests:
    """Open requests of one hub. `most` is how many of one opener may wait; `None` lets any number."""

    most: int | None = None
    _waiting: Counter[str | None] = field(default_factory=Counter[str | None])
    _sessions: WeakSet[ApprovalRequests] = field(default_factory=WeakSet["ApprovalRequests"])

    def join(self, session: ApprovalRequests) -> None:
        """Let late requests of a session make room for others of its opener."""
        self._sessions.add(session)

    def refusal(self, opener: str | None) -> str | None:
        """The reason why nothing more is asked for one opener; `None` while there is room.

        Where there is none, the oldest that is late and that nobody has approved yet is withdrawn:
        an agent that goes on comes before calls that nobody waits for.
        """
        if opener is None or self.most is None or self._waiting[opener] < self.most:
            return None
        late = [each for session in self._sessions for each in session.undecided_late(opener)]
        for _, drop in sorted(late, key=lambda each: each[0]):
            if drop():
                return None
        return (
            f"{self.most} requests of '{opener}' wait for a person already, the most that may. "
            "Wait until some of them are decided, or go on with what needs no approval"
        )

    @contextmanager
    def counted(self, opener: str | None) -> Generator[None, None, None]:
        """Count a request as open inside the block."""
        self._waiting[opener] += 1
        try:
            yield
        finally:
            self._waiting[opener] -= 1
            if not self._waiting[opener]:
                del self._waiting[opener]


class RequestHost(WithdrawalHost, Protocol):
    """The session whose requests these are; see `HostedSession`."""

    manager: GateManager

    @property
    def shown(self) -> SessionState: ...

    @property
    def bounded_by(self) -> str | None:
        """Opener with whose open requests the session's are counted."""
        ...

    def drop_late(self, call_id: str) -> bool:
        """Withdraw a late call in favour of newer ones; false where it is none, or is being ended."""
        ...

    def sessions_of(self, call_id: str) -> tuple[SessionState, ...]: ...

    async def wait_for_freeze_end(self) -> None:
        """Return when the agents are not frozen."""
        ...


@dataclass(slots=True)
class _Fuse:
    """The last approval that a request needs, which releases its call when the `timer` ends.

    While the request is late there is no timer: its agent releases it by making the call again (G-102).
    `taken_back` is who took it back where the journal refused to say so. `proof` is that of a passkey.
    """

    answer: OperatorAnswer
    proof: KeyProof | None = None
    timer: asyncio.TimerHandle | None = None
    taken_back: str | None = None


@dataclass(frozen=True, slots=True)
class _Claim:
    """A claim: whose it is, until when, and the console whose end ends it."""

    by: str
    until: datetime
    console: str | None


@dataclass(slots=True)
class _Open:
    approval_id: str
    request: ApprovalRequest
    digest: str
    salt: str
    requested_input: RequestedInput | None
    answered: asyncio.Future[ApprovalAnswer]
    # Time at which people were first asked.
    since: datetime
    # Time beyond which one person cannot lengthen where several must approve.
    latest_expiry: datetime | None
    # Tells whether the files that its preview shows are as they were.
    files_unchanged: Callable[[], Awaitable[bool]] | None
    # One answer at a time: the second one learns what the first did.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Something that ends the request is being recorded.
    ending: bool = False
    # Reason why no call waits for an answer any more, once that is so.
    end_reason: str | None = None
    # The request itself could not be recorded: there is nothing to withdraw.
    unasked: bool = False
    timer: asyncio.TimerHandle | None = None
    escalation: asyncio.TimerHandle | None = None
    # The approval that releases the call in a moment.
    fuse: _Fuse | None = None
    # The console whose end ends the claim on it, and what ends it in time.
    console: str | None = None
    claim_timer: asyncio.TimerHandle | None = None

    def note(self, written: bool) -> None:
        """Note whether the record has the request."""
        self.unasked = not written

    @property
    def over(self) -> bool:
        """True if it has its answer, or something that ends it is being recorded."""
        return self.ending or self.answered.done()


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
        self._policy = policy
        self._tokens = tokens or OperatorTokens()
        self._clock = clock
        self._open: dict[str, _Open] = {}
        # Of requests that are asked again, by call and net.
        self._deadlines: dict[tuple[str, str], Deadline] = {}
        self._claims: dict[tuple[str, str], _Claim] = {}
        # Those of them that were voided here, which no agent can bring about.
        self._voided: set[tuple[str, str]] = set()
        self._tasks = Tasks()
        self._check_scheduled = False
        self.withdrawals = Withdrawals(host, self._tasks, self._open)
        self._requests.join(self)

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
        `files_unchanged` tells, at an approval, whether what the `preview` shows still holds; otherwise
        all are asked again. No request is made while too many of the same opener are open, but for what
        was voided here.
        """
        approval_id = uuid4().hex[:12]
        call_id = request.call.tool_call_id
        salt = token_hex(16)
        digest = digest_of(self._host.id, self._host.manager, request, salt)
        about = call_id, request.net
        before = self._deadlines.pop(about, None)
        time = before or self._deadline(request)
        opener = self._host.bounded_by
        if about in self._voided:
            self._voided.discard(about)
        elif (refusal := self._requests.refusal(opener)) is not None:
            return ApprovalAnswer(False, refusal, asked=False)
        commands, marked = marked_commands(request.skill_net, request.call)
        planned = request.call.tool_name == PLAN and requested_input is None
        asked = ApprovalRequested(
            approval_id=approval_id,
            call_id=call_id,
            tool=request.tool,
            called=request.call.tool_name,
            input=json_input(request.call.input),
            names=request.names,
            net=request.net,
            transition=request.transition.name,
            title=(requested_input or request).title,
            message=(requested_input or request).message,
            marking=dict(request.marking),
            rule=rule_record(request.rule),
            uninspectable=uninspectable(request.skill_net, request.call),
            preview=preview,
            via=via,
            digest=digest,
            digest_salt=salt,
            first_asked=None if before is None else before.since,
            rules_digest=rules_digest(self._host.manager, request),
            risk=request.risk,
            people=request.people,
            approvers=request.transition.approvers,
            expires=time.expires,
            may_grant=request.may_grant and requested_input is None and not planned,
            exact_only=exact_input_reason(request.skill_net, request.call),
            beyond=request.beyond,
            note=self._note_on(request),
            wants=None if requested_input is None else requested_input.schema,
            commands=commands,
            marked=marked,
            edited=request.edit is not None,
            edited_by=None if request.edit is None else request.edit.by,
            plan=plan_records(self._host.manager.plan_forecast(request.call.input)) if planned else (),
        )
        answered: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        waits = self._open[approval_id] = _Open(
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
            with self._requests.counted(opener):
                await self._host.record(asked, on_written=waits.note)
                self._arm(approval_id, waits)
                self._arm_escalation(approval_id, waits)
                if (claim := self._claims.pop(about, None)) is not None:
                    self._tasks.start(self._claim_again(waits, claim))
                return await waits.answered
        except asyncio.CancelledError:
            # An answer that is being recorded ends the request by itself. From here on no answer is
            # taken: one must not follow the withdrawal.
            waits.end_reason = self._host.end_reason(call_id)
            if not waits.ending and not waits.unasked:
                waits.ending = True
                await self.withdrawals.withdraw(approval_id, call_id, waits.end_reason)
            raise
        finally:
            self._open.pop(approval_id, None)
            fuse_timer = None if waits.fuse is None else waits.fuse.timer
            for timer in (waits.timer, waits.escalation, fuse_timer, waits.claim_timer):
                if timer is not None:
                    timer.cancel()

    async def answer(self, approval_id: str, answer: OperatorAnswer) -> Reply | None:
        """Record a person's answer, then release the call; `None` when it no longer waits for one.

        The first answer decides. Where several must approve, each must still be another person when the
        last of them approves (G-77), or all are asked again. Raises `JournalError` when the answer could
        not be recorded: the request then stays open.
        """
        approved, by, edited = answer.approved, answer.by.strip(), answer.edited
        credential = answer.credential
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = await self._check_open(approval_id, waits, approved=approved)
            if not isinstance(shown, ApprovalState):
                return shown
            problem = self._unfit(waits, shown, answer, by)
            if problem is not None:
                return Reply(False, problem)
            lapsed = self._lapsed(shown, credential) if approved else None
            if lapsed is not None:
                await self._void(approval_id, waits, lapsed)
                return Reply(False, f"{lapsed}: everybody is asked anew")
            edits = approved and edited is not None and waits.requested_input is None
            if edits and shown.renewed_by_edit:
                if not await self._void(approval_id, waits, f"edited by {by}", (edited, by)):
                    return None
                return Reply(True, _asked_anew(shown))
            try:
                proof = self._proof(waits, shown, answer, by) if approved and shown.passkey else None
            except KeyProofError as error:
                return Reply(False, self._unproved(shown, error))
            person = self._tokens.operator(by, credential)
            missing = shown.people - len(shown.given) - 1
            if approved and missing > 0:
                given = ApprovalGiven(
                    approval_id=approval_id,
                    call_id=shown.call_id,
                    by=by,
                    digest=waits.digest,
                    token=None if credential is None else credential.token,
                    groups=person.groups,
                    login=person.login,
                    proof=proof,
                )
                await self._note(given)
                return Reply(True, _more_needed(shown, by, missing))
            answer = replace(answer, by=by)
            if approved and (self._fuse_of(shown) > 0 or shown.late is not None):
                return await self._light(approval_id, waits, shown, answer, proof)
            if not await self._conclude(waits, shown, answer, proof):
                return None
        return Reply(True, f"{shown.tool} {'approved' if approved else 'denied'} by {by}")

    async def _check_open(
        self, approval_id: str, waits: _Open, *, approved: bool
    ) -> ApprovalState | Reply | None:
        """State of a request that is as it was shown; else the reply to who answers, and it is void.

        `None` when nothing counts for it any more.
        """
        # First, for it takes a while: nothing comes between the looks below and what is recorded.
        same_file = not approved or waits.files_unchanged is None or await waits.files_unchanged()
        shown = self._shown(approval_id, waits)
        if shown is None:
            return None
        if not same_file:
            await self._void(approval_id, waits, FILE_CHANGED)
            return Reply(False, "The file has changed since it was shown: it is asked again")
        if not self._is_current(waits):
            await self._void(approval_id, waits, CHANGED)
            return Reply(False, "The request has changed since it was shown and is asked again")
        blocked = self._blocked(waits)
        if blocked is not None:
            await self._void(approval_id, waits, blocked, outcome=JUDGED)
            return Reply(False, f"Not decided: {blocked}")
        if await self._escalated(waits):
            # Timers stop while the machine sleeps: who counts by now can answer at once.
            shown = self._shown(approval_id, waits) or shown
        return shown

    async def _conclude(
        self, waits: _Open, shown: ApprovalState, answer: OperatorAnswer, proof: KeyProof | None
    ) -> bool:
        """Record an answer that decides, then release the call. False when that has gone."""
        ran = answer.edited if waits.requested_input is None else None
        person = self._tokens.operator(answer.by, answer.credential)
        outcome = ApprovalAnswer(
            answer.approved,
            answer.reason,
            ran,
            answer.by,
            shown.given,
            answer.grant,
            groups={**dict(zip(shown.given, shown.given_groups, strict=False)), answer.by: person.groups},
            escalated=shown.escalated is not None,
            keys=(
                *(name for name, key in zip(shown.given, shown.given_keys, strict=False) if key),
                *([answer.by] if proof is not None else []),
            ),
        )
        body = ApprovalDecided(
            approval_id=shown.id,
            call_id=shown.call_id,
            approved=answer.approved,
            by=answer.by,
            reason=answer.reason,
            input=answer.edited,
            others=shown.given if answer.approved else (),
            digest=waits.digest,
            groups=person.groups,
            login=person.login,
            proof=proof,
        )
        return await self._end(waits, body, outcome)

    # The fuse between an approval of high risk and the release of its call

    def _fuse_of(self, shown: ApprovalState) -> float:
        """Seconds for which an approval of a request can be taken back."""
        return self._policy.fuse if shown.risk == "high" else 0.0

    async def _light(
        self,
        approval_id: str,
        waits: _Open,
        shown: ApprovalState,
        answer: OperatorAnswer,
        proof: KeyProof | None,
    ) -> Reply:
        """Record an approval that can be taken back for a while, and release the call after it.

        That of a late request is held until its agent makes the call again, too.
        """
        seconds, credential = self._fuse_of(shown), answer.credential
        person = self._tokens.operator(answer.by, credential)
        fused = ApprovalFused(
            approval_id=approval_id,
            call_id=shown.call_id,
            by=answer.by,
            until=self._clock() + timedelta(seconds=seconds),
            reason=answer.reason,
            input=answer.edited,
            digest=waits.digest,
            token=None if credential is None else credential.token,
            groups=person.groups,
            login=person.login,
            held=shown.late,
            proof=proof,
        )
        fuse = waits.fuse = _Fuse(answer, proof)
        try:
            await self._note(fused)
        except JournalError:
            waits.fuse = None
            raise
        finally:
            # It burns also where who approved is gone by now: the record has it.
            if waits.fuse is fuse:
                self._release_in(seconds, approval_id, waits, fuse)
        return Reply(True, f"{shown.tool} approved by {answer.by}: {self._release_words(shown, seconds)}")

    def _release_words(self, shown: ApprovalState, seconds: float) -> str:
        """Words on the time at which an approved call runs; `seconds` are those of its fuse."""
        if shown.late is None:
            return f"it runs in {format_duration(seconds)} unless taken back"
        left = format_duration(max(1.0, (shown.late - self._clock()).total_seconds()))
        return f"its client has gone, so it runs once the agent makes the call again, within {left}"

    def _release_in(self, seconds: float, approval_id: str, waits: _Open, fuse: _Fuse) -> None:
        # The loop's clock is monotonic: no change of the machine's time makes it shorter.
        fuse.timer = asyncio.get_running_loop().call_later(
            seconds, lambda: self._tasks.start(self._release(approval_id, waits, fuse))
        )

    async def _release(self, approval_id: str, waits: _Open, fuse: _Fuse) -> None:
        """Release a call whose fuse has burnt, if all is still as it was when it was approved."""
        await self._host.wait_for_freeze_end()
        answer = fuse.answer
        async with waits.turn:
            if waits.fuse is not fuse:
                return
            stands = self._host.state.approvals.get(approval_id)
            if stands is not None and stands.late is not None:
                fuse.timer = None
                return
            try:
                shown = await self._check_open(approval_id, waits, approved=True)
                if not isinstance(shown, ApprovalState):
                    return
                void = f"taken back by {fuse.taken_back}" if fuse.taken_back else None
                void = void or self._expired_approval(shown, answer, fuse.proof)
                if void is not None:
                    await self._void(approval_id, waits, void)
                else:
                    await self._conclude(waits, shown, answer, fuse.proof)
            except JournalError:
                log.exception("Request '%s' was approved, and the journal refused it", approval_id)
                self._release_in(RETRY, approval_id, waits, fuse)

    async def take_back(
        self, approval_id: str, by: str, credential: Credential | None = None
    ) -> Reply | None:
        """Take an approval back before its call is released: everybody is asked again.

        `None` when the request is over. Raises `JournalError` where that could not be recorded: its call
        is then not released, either, but asked about again.
        """
        by = by.strip()
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None:
                return None
            if not by:
                return Reply(False, "Nobody takes it back: this needs the name of an operator")
            overstepped = self._tokens.overstepped(by, credential, "decide")
            if overstepped is not None:
                return Reply(False, overstepped)
            fuse = waits.fuse
            if fuse is None:
                return Reply(False, "Nothing can be taken back: no approval of this request waits")
            fuse.taken_back = by
            taken = ApprovalTakenBack(approval_id=approval_id, call_id=shown.call_id, by=by)
            try:
                await self._note(taken)
            finally:
                stands = self._host.state.approvals.get(approval_id)
                if stands is not None and stands.fuse is None:
                    if fuse.timer is not None:
                        fuse.timer.cancel()
                    waits.fuse = None
                    self._arm(approval_id, waits)
        return Reply(True, f"{shown.tool}: {by} took back the approval of {fuse.answer.by}")

    # Late requests: their client has gone, and an answer waits until the agent makes the call again

    async def leave(self, call_id: str, subagent: str = "") -> datetime | None:
        """Record that nobody waits for the answer about a call; its request stays open until then.

        `None` where no request about it is open, or none stays so without a client. One that is late
        already is so for no longer. Raises `JournalError`.
        """
        found = self._about(call_id)
        if found is None or self._policy.late <= 0:
            return None
        approval_id, waits = found
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None or waits.requested_input is not None:
                return None
            if shown.late is not None:
                return shown.late if shown.late > self._clock() else None
            until = self._clock() + timedelta(seconds=self._policy.late)
            await self._note(CallLate(call_id=call_id, until=until, subagent=subagent))
        return until

    async def rejoin(self, call_id: str, made_as: str) -> None:
        """Record that an agent has made a late call again, and release it where it is approved.

        Raises `JournalError`: its approval is then held as before.
        """
        again = CallRepeated(call_id=call_id, made_as=made_as)
        found = self._about(call_id)
        if found is None:
            await self._host.record(again)
            return
        approval_id, waits = found
        async with waits.turn:
            await self._note(again)
            fuse = waits.fuse
            if fuse is not None and fuse.timer is None:
                self._release_in(0.0, approval_id, waits, fuse)

    def _about(self, call_id: str) -> tuple[str, _Open] | None:
        """The open request about a call."""
        found = self._open.items()
        return next((each for each in found if each[1].request.call.tool_call_id == call_id), None)

    async def reveal(self, approval_id: str, by: str) -> Reply | None:
        """Record that a person looks at the masked text of a request that may be more than secrets."""
        by = by.strip()
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None:
                return None
            if not by:
                return Reply(False, "Nobody has asked: this needs the name of an operator")
            if not is_among(by, shown.revealed):
                await self._note(ApprovalRevealed(approval_id=approval_id, call_id=shown.call_id, by=by))
        return Reply(True, f"The masked text of {shown.tool} is shown to {by}")

    async def extend(
        self, approval_id: str, seconds: float | None, by: str, credential: Credential | None = None
    ) -> Reply | None:
        """Give a request `seconds` from now on, or let it wait for ever.

        Where several must approve, two other people have to want it to wait beyond the time it had when
        it was asked (G-77); the shorter of their times counts.
        """
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None:
                return None
            if shown.expires is not None and self._clock() >= shown.expires:
                return Reply(False, "The time for this request is over")
            overstepped = self._tokens.overstepped(by, credential, "decide")
            if overstepped is not None:
                return Reply(False, overstepped)
            until = None if seconds is None else self._clock() + timedelta(seconds=seconds)
            others: tuple[str, ...] = ()
            if (
                shown.people > 1
                and waits.latest_expiry is not None
                and (until is None or until > waits.latest_expiry)
            ):
                by = by.strip()
                same = self._same(shown, by)
                if not by or same is not None:
                    why = same or "Nobody has asked: this needs the name of an operator"
                    return Reply(False, f"{why}: two other people must lengthen this request")
                first = self._first(shown, by, credential)
                if first is None:
                    token = None if credential is None else credential.token
                    proposed = ExtensionRecord(until=until, by=by, token=token)
                    await self._note(
                        ApprovalExtended(
                            approval_id=approval_id,
                            call_id=shown.call_id,
                            until=shown.expires,
                            by=by,
                            proposed=proposed,
                        )
                    )
                    return Reply(True, f"{shown.tool}: a second person must lengthen it as well")
                others = (first.by,)
                until = min((each for each in (until, first.until) if each is not None), default=None)
            extended = ApprovalExtended(
                approval_id=approval_id, call_id=shown.call_id, until=until, by=by, others=others
            )
            await self._note(extended)
            if others:
                waits.latest_expiry = until
            self._arm(approval_id, waits)
        if until is None:
            return Reply(True, f"{shown.tool} now has no deadline")
        seconds = (until - self._clock()).total_seconds()
        return Reply(True, f"{shown.tool} now expires in {format_duration(seconds)}")

    # Who takes a request on, and what people say of it

    async def claim(self, approval_id: str, by: str, console: str | None = None) -> Reply | None:
        """Note that a person takes a request on, for a while and as long as their `console` is there.

        Others may decide it all the same. `None` when it is over.
        """
        by = by.strip()
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None:
                return None
            if not by:
                return Reply(False, "Nobody has this: a claim needs the name of an operator")
            if shown.claim is not None:
                if self._clock() < shown.claim.until:
                    return Reply(False, f"{shown.claim.by} has this already")
                # Timers stop while the machine sleeps.
                await self._note(_claim_end(shown, shown.claim.by, TIME_OVER))
            until = self._clock() + timedelta(seconds=CLAIM)
            await self._set_claim(waits, shown, _Claim(by, until, console))
        return Reply(True, f"{by} has {shown.tool}, for {format_duration(CLAIM)}")

    async def _set_claim(self, waits: _Open, shown: ApprovalState, claim: _Claim) -> None:
        """Record a claim, for the holder of the turn, and have it end in time."""
        approval_id = waits.approval_id
        waits.console = claim.console
        await self._note(
            ApprovalClaimed(
                approval_id=approval_id, call_id=shown.call_id, by=claim.by, until=claim.until
            )
        )
        if waits.claim_timer is not None:
            waits.claim_timer.cancel()
        left = max(0.0, (claim.until - self._clock()).total_seconds())
        waits.claim_timer = asyncio.get_running_loop().call_later(
            left, lambda: self._tasks.start(self._end_claim(approval_id, waits, TIME_OVER))
        )

    async def _claim_again(self, waits: _Open, claim: _Claim) -> None:
        """Have a request that is asked anew claimed as the one before it was."""
        async with waits.turn:
            shown = self._shown(waits.approval_id, waits)
            if shown is None or shown.claim is not None or claim.until <= self._clock():
                return
            try:
                await self._set_claim(waits, shown, claim)
            except JournalError:
                log.exception("That %s has request '%s' is not recorded", claim.by, waits.approval_id)

    async def unclaim(self, approval_id: str, by: str) -> Reply | None:
        """Give a claim up. `None` when the request is over."""
        waits = self._open.get(approval_id)
        shown = None if waits is None else self._host.state.approvals.get(approval_id)
        if waits is None or shown is None:
            return None
        if shown.claim is None or not same_person(shown.claim.by, by):
            return Reply(False, f"{by.strip()} does not have this")
        await self._end_claim(approval_id, waits, "given up")
        return Reply(True, f"{shown.claim.by} has {shown.tool} no more")

    async def end_claims(self, console: str) -> None:
        """End the claims of a console that is gone."""
        self._claims = {key: each for key, each in self._claims.items() if each.console != console}
        for approval_id, waits in list(self._open.items()):
            if waits.console == console:
                await self._end_claim(approval_id, waits, "their console is gone")

    async def _end_claim(self, approval_id: str, waits: _Open, reason: str) -> None:
        async with waits.turn:
            if waits.claim_timer is not None:
                waits.claim_timer.cancel()
            shown = self._shown(approval_id, waits)
            if shown is None or shown.claim is None:
                return
            try:
                await self._note(_claim_end(shown, shown.claim.by, reason))
            except JournalError:
                # It is only who looks at it first: the next claim finds it taken.
                log.exception("That nobody has request '%s' any more is not recorded", approval_id)
            else:
                waits.console = None

    async def comment(self, approval_id: str, by: str, text: str, to: str | None = None) -> Reply | None:
        """Record what a person says of a request, perhaps `to` another. `None` when it is over."""
        by, text, to = by.strip(), text.strip(), (to or "").strip().removeprefix("@") or None
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None:
                return None
            if not by or not (text or to):
                return Reply(False, "Nothing said: a comment needs a text, and the name of an operator")
            if len(shown.comments) >= MOST_COMMENTS:
                return Reply(False, f"A request has {MOST_COMMENTS} comments at most")
            await self._note(
                ApprovalCommented(approval_id=approval_id, call_id=shown.call_id, by=by, text=text, to=to)
            )
        return Reply(True, f"Said of {shown.tool}" if to is None else f"{to} is asked to look at this")

    async def ask_again(self, reason: str) -> None:
        """Void the requests whose digest has changed: their calls are judged, and asked about, again.

        `reason` says what has changed, and by whom (G-67).
        """
        await self._void_all(
            lambda _, waits: None if waits.over or self._is_current(waits) else reason, AGAIN
        )

    async def _void_all(self, reason: Callable[[str, _Open], str | None], outcome: str) -> None:
        """Void the requests that there is a `reason` to.

        One whose withdrawal cannot be recorded stays, and no answer to it counts.
        """
        for approval_id, waits in list(self._open.items()):
            async with waits.turn:
                found = reason(approval_id, waits)
                if found is None:
                    continue
                try:
                    await self._void(approval_id, waits, found, outcome=outcome)
                except JournalError:
                    log.exception("Request '%s' is void, and the journal refused it", approval_id)

    def schedule_renewal(self, reason: str) -> None:
        """Void, in a moment, the requests that were shown under what the gate has taken back."""
        if self._open:
            self._tasks.start(self.ask_again(reason))

    def schedule_block_check(self) -> None:
        """Void, in a moment, the requests of calls that a net blocks by now (G-68)."""
        if self._open and not self._check_scheduled:
            self._check_scheduled = True
            self._tasks.start(self._withdraw_blocked())

    async def _withdraw_blocked(self) -> None:
        self._check_scheduled = False
        await self._void_all(
            lambda key, waits: None if self._shown(key, waits) is None else self._blocked(waits), JUDGED
        )

    def _blocked(self, waits: _Open) -> str | None:
        """Reason why no answer is needed: a net blocks the call by now. A flow's question is no call."""
        if waits.requested_input is not None:
            return None
        reason = self._host.manager.block_reason(waits.request.call)
        return None if reason is None else f"the call is blocked by now: {reason.rstrip('.')}"

    def keep(self, deadlines: Mapping[tuple[str, str], Deadline]) -> None:
        """Have requests that an earlier host had asked keep their deadlines, by call and net (G-67)."""
        self._deadlines.update(deadlines)

    def _deadline(self, request: ApprovalRequest) -> Deadline:
        """Deadline of a request that was not asked before."""
        lasts, now = self._policy.expire if request.within is None else request.within, self._clock()
        due = None if lasts is None else now + timedelta(seconds=lasts)
        return Deadline(now, due, due)

    def _note_on(self, request: ApprovalRequest) -> str | None:
        """Reason why a rule asks though it is off, in shadow mode or passed by (G-67); else its note."""
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

    def undecided_late(self, opener: str) -> Iterator[tuple[datetime, Callable[[], bool]]]:
        """Late requests of an opener that nobody has approved, each since when, and how to withdraw it.

        That says whether it has begun.
        """
        if self._host.bounded_by != opener:
            return
        for approval_id, waits in self._open.items():
            shown = self._shown(approval_id, waits)
            if shown is not None and shown.late is not None and not shown.given and waits.fuse is None:
                yield waits.since, partial(self._host.drop_late, shown.call_id)

    def _shown(self, approval_id: str, waits: _Open) -> ApprovalState | None:
        """State of a request, for the holder of its turn; `None` when nothing counts for it any more."""
        return None if waits.over else self._host.state.approvals.get(approval_id)

    def _is_current(self, waits: _Open) -> bool:
        """True if all is still as it was when the request was shown."""
        made = digest_of(self._host.id, self._host.manager, waits.request, waits.salt)
        return made == waits.digest

    # Ends of requests

    async def _note(self, body: EventBody) -> None:
        """Record something after which a request stays open.

        The caller's turn lasts until that is in the record, even if cancelled: the next answer needs it.
        """
        cut_off: asyncio.CancelledError | None = None
        # Handed over at once: nothing comes between what was checked and what is recorded.
        record = self._host.hand_over(body)
        while not record.done():
            try:
                await asyncio.wait([record])
            except asyncio.CancelledError as error:
                cut_off = error
        if cut_off is not None and record.exception() is None:
            raise cut_off
        record.result()

    async def _end(self, waits: _Open, body: _End, answer: ApprovalAnswer) -> bool:
        """Record the end of a request, then release the call that waits. False when that has gone.

        It is released in the moment in which the record has the end, even if the caller is cancelled.
        """
        released: list[bool] = []

        def release(written: bool) -> None:
            waits.ending = written
            if written and not waits.answered.done():
                waits.answered.set_result(answer)
                released.append(True)
            elif not written and waits.end_reason is not None:
                self.withdrawals.retry(body.approval_id, body.call_id, waits.end_reason)

        waits.ending = True
        try:
            await self._host.record(body, on_written=release)
        except JournalError:
            waits.ending = False
            raise
        return bool(released)

    async def _void(
        self,
        approval_id: str,
        waits: _Open,
        reason: str,
        edit: tuple[dict[str, JsonValue] | None, str | None] = (None, None),
        outcome: str = AGAIN,
    ) -> bool:
        """Withdraw a request whose call is to be judged again; it keeps its time (G-67).

        An `edit` is another input, and who has chosen it (G-75).
        """
        call_id = waits.request.call.tool_call_id
        shown = self._host.state.approvals.get(approval_id)
        if shown is not None:
            about = call_id, waits.request.net
            self._deadlines[about] = Deadline(waits.since, shown.expires, waits.latest_expiry)
            self._voided.add(about)
            if shown.claim is not None:
                self._claims[about] = _Claim(shown.claim.by, shown.claim.until, waits.console)
        chosen, by = edit
        withdrawn = ApprovalWithdrawn(
            approval_id=approval_id,
            call_id=call_id,
            reason=f"{reason}; {outcome}",
            again=True,
            input=chosen,
            by=by,
        )
        return await self._end(waits, withdrawn, ApprovalAnswer(False, input=chosen, by=by, again=True))

    def _arm(self, approval_id: str, waits: _Open) -> None:
        """Have the request expire when its time is over."""
        if waits.timer is not None:
            waits.timer.cancel()
            waits.timer = None
        shown = self._host.state.approvals.get(approval_id)
        if shown is not None and shown.expires is not None:
            self._expire_in((shown.expires - self._clock()).total_seconds(), approval_id, waits)

    def _expire_in(self, seconds: float, approval_id: str, waits: _Open) -> None:
        waits.timer = asyncio.get_running_loop().call_later(
            max(0.0, seconds), lambda: self._tasks.start(self._expire(approval_id, waits))
        )

    async def _expire(self, approval_id: str, waits: _Open) -> None:
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None or shown.expires is None or waits.fuse is not None:
                # An answer that can still be taken back came in time.
                return
            if self._clock() < shown.expires:
                # The machine slept, or its clock was set back.
                self._arm(approval_id, waits)
                return
            reason = _expired(shown, waits.since)
            body = ApprovalExpired(approval_id=approval_id, call_id=shown.call_id, reason=reason)
            try:
                await self._end(waits, body, ApprovalAnswer(False, reason))
            except JournalError:
                log.exception("Request '%s' has expired, and the journal refused it", approval_id)
                self._expire_in(RETRY, approval_id, waits)

    # Escalations

    def _arm_escalation(self, approval_id: str, waits: _Open) -> None:
        """Have the request escalated when it has been open for so long since it was first asked."""
        due = _escalation_of(waits)
        if due is not None:
            self._escalate_in((due - self._clock()).total_seconds(), approval_id, waits)

    def _escalate_in(self, seconds: float, approval_id: str, waits: _Open) -> None:
        waits.escalation = asyncio.get_running_loop().call_later(
            max(0.0, seconds), lambda: self._tasks.start(self._escalate(approval_id, waits))
        )

    async def _escalate(self, approval_id: str, waits: _Open) -> None:
        async with waits.turn:
            try:
                if self._shown(approval_id, waits) is not None and not await self._escalated(waits):
                    # The machine slept, or its clock was set back.
                    self._arm_escalation(approval_id, waits)
            except JournalError:
                log.exception("Request '%s' is not escalated: the journal refused it", approval_id)
                self._escalate_in(RETRY, approval_id, waits)

    async def _escalated(self, waits: _Open) -> bool:
        """Record an escalation that is due, for the holder of the turn; returns whether it is."""
        terms, due = waits.request.approvers.escalation, _escalation_of(waits)
        if terms is None or due is None or self._clock() < due:
            return False
        shown = self._shown(waits.approval_id, waits)
        if shown is not None and shown.escalated is None:
            await self._note(
                ApprovalEscalated(approval_id=waits.approval_id, call_id=shown.call_id, group=terms.group)
            )
        return True

    # Checks of answers

    def _unfit(self, waits: _Open, shown: ApprovalState, answer: OperatorAnswer, by: str) -> str | None:
        """Reason why an answer cannot be taken now; `None` when it can."""
        grant, credential = answer.grant, answer.credential
        if answer.digest not in (None, waits.digest):
            return "This is not the request that was shown: look again"
        if waits.fuse is not None and answer.approved:
            when = "it runs in a moment" if shown.late is None else "it waits for its agent"
            return f"{waits.fuse.answer.by} has approved it already: {when}"
        if waits.fuse is None and shown.expires is not None and self._clock() >= shown.expires:
            return f"Too late: {_expired(shown, waits.since)}"
        if not by:
            return "Nobody has decided: an answer needs the name of an operator"
        problem = None
        if answer.approved:
            problem = self._unapprovable(shown, by, credential)
        elif grant is not None:
            problem = "A denial grants nothing"
        if problem is None and grant is not None:
            problem = self._ungrantable(waits, shown, answer, grant, by)
        if problem is None and answer.approved:
            problem = self._unfit_input(waits, answer)
        if problem is None and credential and not credential.in_force(credential.token, "decide"):
            problem = f"The token of {by} is no longer in force"
        needed = "decide" if grant is None else "administer"
        return problem or self._tokens.overstepped(by, credential, needed)

    def _unfit_input(self, waits: _Open, answer: OperatorAnswer) -> str | None:
        """Reason why an approval's own input cannot be taken; `None` when it can, and without one."""
        if waits.requested_input is not None:
            return waits.requested_input.problem(answer.edited)
        if answer.edited is None or waits.request.call.tool_name != PLAN:
            return None
        problem = self._host.manager.plan_problem(answer.edited)
        return problem and f"Not edited, this is no plan any more: {problem}"

    def _unapprovable(self, shown: ApprovalState, by: str, credential: Credential | None) -> str | None:
        """Reason why a person cannot approve; `None` when they can."""
        unseen = self._unseen(shown, by)
        if unseen is not None or not shown.asks_for:
            return unseen
        same = self._same(shown, by) if shown.people > 1 or not _terms(shown).author else None
        if same is not None:
            return f"{same}: {_others(shown)} must approve"
        outside = self._outside(shown, by, self._tokens.operator(by, credential))
        if outside is not None:
            return outside
        if is_among(by, shown.given):
            return f"{by} has approved already: somebody else must approve too"
        return None

    def _outside(self, shown: ApprovalState, by: str, operator: Operator) -> str | None:
        """Reason why an approval does not count: the person is in no group that must give it."""
        terms, escalated = _terms(shown), shown.escalated is not None
        if terms.counts(operator.groups, escalated=escalated):
            return None
        groups = " or ".join(terms.groups(escalated=escalated))
        return f"{by} is not in {groups}: {shown.needs} must approve"

    def _ungrantable(
        self,
        waits: _Open,
        shown: ApprovalState,
        answer: OperatorAnswer,
        grant: GrantTerms,
        by: str,
    ) -> str | None:
        """Reason why an approval with these terms cannot be taken; `None` when it can.

        Where it takes others to turn the rule off, one of them must give the grant (G-67).
        """
        refusal = _refused_grant(shown, grant)
        if refusal is not None:
            return refusal
        if not (answer.reason or "").strip():
            return "Nothing granted: say why, the reason is recorded with the grant"
        if people_to_loosen(waits.request.rule):
            same = self._same(shown, by)
            if same is not None:
                return f"{same}: another person must grant what has a high risk"
        if from_subagent(waits.request.call) and not grant.subagents:
            return f"A subagent made this call of {shown.called}: the grant must say that it reaches them"
        if answer.edited is not None and waits.requested_input is None:
            call = replace(waits.request.call, input=answer.edited)
            if set(self._host.manager.names_of(call)) != set(shown.names):
                return f"Nothing can be granted with this edit: {EDITED_EFFECTS}"
        return None

    def _unseen(self, shown: ApprovalState, by: str) -> str | None:
        """Reason why a person cannot approve yet: masked text that may be more than a secret."""
        found = self._host.shown.approvals.get(shown.id)
        if found is None or not found.hidden or is_among(by, found.revealed):
            return None
        places = ", ".join(dict.fromkeys(hidden.place for hidden in found.hidden))
        return f"What is masked in {places} may be more than a secret: look at it first"

    def _same(self, shown: ApprovalState, name: str) -> str | None:
        """Reason why a person is no other than those behind the call of a request."""
        sessions = self._host.sessions_of(shown.call_id)
        own_approvals = self._policy.own_approvals and _terms(shown).author
        return involvement_reason(name, *sessions, own_approvals=own_approvals)

    def _first(
        self, shown: ApprovalState, by: str, credential: Credential | None
    ) -> ExtensionRecord | None:
        """Extension that another person proposed, where they may be the first of two to lengthen it."""
        first = shown.extension
        if first is None or same_person(first.by, by) or self._same(shown, first.by) is not None:
            return None
        return first if self._tokens.in_force(first.token, credential) else None

    # Passkeys

    def key_challenge(
        self, approval_id: str, digest: str, by: str, origin: str, credential: Credential | None = None
    ) -> Challenge | Reply | None:
        """A challenge for a person's key, to approve what was shown; else why there is none.

        `None` when the request is over.
        """
        by = by.strip()
        waits = self._open.get(approval_id)
        shown = None if waits is None else self._shown(approval_id, waits)
        if waits is None or shown is None:
            return None
        if not shown.passkey:
            return Reply(False, "The rule of this request asks for no passkey")
        problem = self._unfit(
            waits, shown, OperatorAnswer(True, by, digest=digest, credential=credential), by
        )
        if problem is not None:
            return Reply(False, problem)
        if self._tokens.keys is None:
            return Reply(False, NO_KEYS)
        try:
            return self._tokens.keys.challenge(self._approved(waits, by), origin)
        except KeyProofError as error:
            return Reply(False, f"Not approved: {error}")

    def _proof(self, waits: _Open, shown: ApprovalState, answer: OperatorAnswer, by: str) -> KeyProof:
        """The proof of the key of a person who approves. Raises `KeyProofError`."""
        if self._tokens.keys is None:
            raise KeyProofError(NO_KEYS)
        return self._tokens.keys.prove(self._approved(waits, by), answer.passkey)

    def _approved(self, waits: _Open, by: str) -> ApprovedRequest:
        return ApprovedRequest(self._host.id, waits.approval_id, waits.digest, by)

    def _unproved(self, shown: ApprovalState, error: KeyProofError) -> str:
        """Message to a person whose approval came without a proof that holds."""
        keys = self._tokens.keys
        remedy = "" if keys is None else f"; {keys.remedy(shown.id)}"
        return f"Not approved: {error}{remedy}"

    def _holds(self, name: str, key: str | None) -> bool:
        """Tell whether a key with which a person approved is still theirs."""
        return self._tokens.keys is not None and self._tokens.keys.holds(name, key)

    # Lapsed approvals

    def _lapsed(self, shown: ApprovalState, credential: Credential | None) -> str | None:
        """Reason why an approval that was given before does not count any more; `None` when all do."""
        for name, token, key in zip_longest(shown.given, shown.tokens, shown.given_keys):
            why = self._same(shown, name)
            if why is None and not self._tokens.in_force(token, credential):
                why = f"the token of {name} is no longer in force"
            if why is None:
                why = self._outside(shown, name, self._tokens.operator(name))
            if why is None and shown.passkey and not self._holds(name, key):
                why = KEY_GONE
            if why is not None:
                return f"The approval of {name} no longer counts, {why}"
        return None

    def _expired_approval(
        self, shown: ApprovalState, answer: OperatorAnswer, proof: KeyProof | None
    ) -> str | None:
        """Reason why an approval that is to release its call does not count any more."""
        by, credential = answer.by, answer.credential
        # Whoever has left the group since counts no more, as among those who approved before.
        why = self._unapprovable(shown, by, credential) or self._outside(
            shown, by, self._tokens.operator(by)
        )
        if why is None and credential and not credential.in_force(credential.token, "decide"):
            why = f"the token of {by} is no longer in force"
        needed = "decide" if answer.grant is None else "administer"
        why = why or self._tokens.overstepped(by, credential, needed)
        if why is None and shown.passkey and not self._holds(by, proof and proof.credential):
            why = KEY_GONE
        if why is not None:
            return f"The approval of {by} no longer counts, {why}"
        return self._lapsed(shown, credential)


def _escalation_of(waits: _Open) -> datetime | None:
    """Time at which a request is escalated; `None` where its rule says none."""
    terms = waits.request.approvers.escalation
    return None if terms is None else waits.since + timedelta(seconds=terms.after)


def _claim_end(shown: ApprovalState, by: str, reason: str) -> ApprovalUnclaimed:
    """The end of somebody's claim on a request."""
    return ApprovalUnclaimed(approval_id=shown.id, call_id=shown.call_id, by=by, reason=reason)


def _terms(shown: ApprovalState) -> Approvers:
    """Terms on the people who may approve a request."""
    return shown.approvers or ANYBODY


def _others(shown: ApprovalState) -> str:
    """People who must approve where those behind a session do not count."""
    group = _terms(shown).group
    if group is not None:
        return f"{some_of(shown.people, group)}, other people,"
    return f"{shown.people} other people" if shown.people > 1 else "another person"


def digest_of(session_id: str, manager: GateManager, request: ApprovalRequest, salt: str) -> str:
    """Hash of the call, of what asks about it and of all rules in force: if one changes, so does this."""
    return request_digest(
        session=session_id,
        call_id=request.call.tool_call_id,
        called=request.call.tool_name,
        arguments=json_input(request.call.input),
        names=request.names,
        tool=request.tool,
        net=request.net,
        transition=request.transition.name,
        people=request.people,
        rules=rules_digest(manager, request),
        salt=salt,
    )


def rules_digest(manager: GateManager, request: ApprovalRequest) -> str:
    """Hash of all rules in force when a request is shown, and of the one that asks."""
    bound: dict[str, JsonValue] = {
        "net": net_record(request.net, request.skill_net).model_dump(mode="json"),
        "active": list(manager.active),
        "replaced": manager.replacements,
        "mode": manager.mode,
    }
    return sha256(canonical(bound).encode()).hexdigest()


def _asked_anew(shown: ApprovalState) -> str:
    """The consequence of an edit that approves nothing."""
    if shown.called == PLAN:
        return "The edited plan is asked about anew, with a forecast of its own"
    return "The edited call is asked about anew: everybody approves that one"


def _more_needed(shown: ApprovalState, by: str, missing: int) -> str:
    """One of several people has approved."""
    rest = "one more person" if missing == 1 else f"{missing} more people"
    so_far = f"{len(shown.given) + 1} of {shown.people}"
    return f"{shown.tool} approved by {by} ({so_far}); {rest} must approve"


def _expired(shown: ApprovalState, since: datetime) -> str:
    """The reason for which a late request is denied; `since` is when it was first asked."""
    assert shown.expires is not None
    where = "" if shown.rule is None else f" ({shown.rule.where})"
    time = (shown.expires - since).total_seconds()
    return f"nobody decided within {format_duration(time)}{where}"


def _refused_grant(shown: ApprovalState, grant: GrantTerms) -> str | None:
    """Reason why this request gives no such grant; `None` when it does."""
    if not shown.may_grant:
        why = "its rule asks for several people" if shown.people > 1 else "its rule says 'no grants'"
        why = "its rule asks for a passkey, each time" if shown.passkey else why
        return f"{shown.tool} cannot be granted beyond this call: {why}"
    if grant.scope == "names" and shown.exact_only is not None:
        return f"Only this exact input can be granted: {shown.exact_only}"
    return None
