"""Open requests of one session: a call that waits for its answer, and the recorded events about it.

Everything is recorded before it takes effect. Code that changes a request holds its turn.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol, TypeAlias
from weakref import WeakSet

from pydantic import JsonValue

from ..core.approvers import ANYBODY, Approvers
from ..core.durations import format_duration
from ..gate import GateManager
from ..gate.types import ApprovalAnswer, ApprovalRequest, GrantTerms
from ..history.errors import JournalError
from ..history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalWithdrawn,
    EventBody,
)
from ..history.model.records import KeyProof
from ..history.model.state import ApprovalState, SessionState
from ..recording.interrupted_calls import Deadline
from ..recording.ledger import note_refusal
from .digests import digest_of
from .input_form import RequestedInput
from .passkeys import KeyAnswer
from .policy import ApprovalPolicy, Credential, OperatorTokens
from .withdrawals import Tasks, WithdrawalHost, Withdrawals

AGAIN = "asked again"
JUDGED = "judged again"
"""Consequences for a call whose request is withdrawn."""

NOTICED_LATE = 2.0
"""Seconds after its deadline at which the end of a request no longer shows that nobody answered."""

End: TypeAlias = ApprovalDecided | ApprovalExpired | ApprovalWithdrawn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """Result of an operator's action; with `needs_reason` it was rejected only for lack of a reason."""

    ok: bool
    message: str
    needs_reason: bool = False


@dataclass(frozen=True, slots=True)
class OperatorAnswer:
    """An operator's answer to a request; `edited` is a new input, `digest` is that of what was shown.

    `passkey` is their browser's answer to the challenge, if the rule requires a passkey.
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
    """Open requests of one hub. `most` is the limit per opener; `None` means no limit."""

    most: int | None = None
    _waiting: Counter[str | None] = field(default_factory=Counter[str | None])
    _sessions: WeakSet[RequestTable] = field(default_factory=WeakSet["RequestTable"])

    def join(self, session: RequestTable) -> None:
        """Let late requests of a session make room for others of its opener."""
        self._sessions.add(session)

    def refusal(self, opener: str | None) -> str | None:
        """Return why an opener can make no more requests; `None` while there is room.

        If there is none, the oldest late request without an approval is withdrawn: calls of a waiting
        agent come before calls that nobody waits for.
        """
        if opener is None or self.most is None or self._waiting[opener] < self.most:
            return None
        late = [each for session in self._sessions for each in session.undecided_late(opener)]
        for _, drop in sorted(late, key=lambda each: each[0]):
            if drop():
                return None
        return (
            f"{self.most} requests of '{opener}' are open already, which is the limit. "
            "Wait until some of them are decided, or continue with calls that need no approval"
        )

    def begin(self, opener: str | None) -> None:
        """Count a request of an opener as open until `end` is called."""
        self._waiting[opener] += 1

    def end(self, opener: str | None) -> None:
        """Stop counting a request of an opener as open."""
        self._waiting[opener] -= 1
        if not self._waiting[opener]:
            del self._waiting[opener]


class RequestHost(WithdrawalHost, Protocol):
    """The session with the requests; see `HostedSession`."""

    manager: GateManager

    @property
    def shown(self) -> SessionState: ...

    @property
    def bounded_by(self) -> str | None:
        """Opener for whose limit the session's open requests are counted."""
        ...

    def drop_late(self, call_id: str) -> bool:
        """Withdraw a late call in favour of newer ones; return false if it is not late, or is ending."""
        ...

    def sessions_of(self, call_id: str) -> tuple[SessionState, ...]: ...

    @property
    def is_frozen(self) -> bool:
        """Return whether all agents are frozen."""
        ...

    async def wait_for_freeze_end(self) -> None:
        """Return when the agents are not frozen."""
        ...


@dataclass(slots=True)
class Fuse:
    """The last approval that a request needs, which releases its call when the `timer` ends.

    A late request has no timer: its agent releases the call by making it again (G-102). `taken_back` is
    who took the approval back if the journal rejected the event. `proof` is that of a passkey.
    """

    answer: OperatorAnswer
    proof: KeyProof | None = None
    timer: asyncio.TimerHandle | None = None
    taken_back: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: its owner, its end, and the console whose disconnection ends it."""

    by: str
    until: datetime
    console: str | None


@dataclass(slots=True)
class OpenRequest:
    """An open request, with its timers and its turn.

    `since` is when operators were first asked. If several must approve, one person cannot extend the
    request beyond `latest_expiry`. `files_unchanged` returns whether the files in its preview are
    unchanged.
    """

    approval_id: str
    request: ApprovalRequest
    digest: str
    salt: str
    requested_input: RequestedInput | None
    answered: asyncio.Future[ApprovalAnswer]
    since: datetime
    latest_expiry: datetime | None
    files_unchanged: Callable[[], Awaitable[bool]] | None
    # One answer at a time: a second one is checked after the first took effect.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    # An event that ends the request is being recorded.
    ending: bool = False
    # Reason why no call waits for an answer any more, if none does.
    end_reason: str | None = None
    # The request itself could not be recorded: there is nothing to withdraw.
    unasked: bool = False
    timer: asyncio.TimerHandle | None = None
    escalation: asyncio.TimerHandle | None = None
    # The approval that releases the call when its time is over.
    fuse: Fuse | None = None
    # The console whose disconnection ends the claim, and the timer of the claim's end.
    console: str | None = None
    claim_timer: asyncio.TimerHandle | None = None

    @property
    def call_id(self) -> str:
        """The id of the call that waits."""
        return self.request.call.tool_call_id

    @property
    def about(self) -> tuple[str, str]:
        """The call and the net that requires approval; a request that is asked again has the same."""
        return self.call_id, self.request.net

    def note(self, written: bool) -> None:
        """Note whether the request was recorded."""
        self.unasked = not written

    @property
    def over(self) -> bool:
        """True if it has its answer, or an event that ends it is being recorded."""
        return self.ending or self.answered.done()

    def cancel_timers(self) -> None:
        """Cancel everything that would happen to it after some time."""
        fuse_timer = None if self.fuse is None else self.fuse.timer
        for timer in (self.timer, self.escalation, fuse_timer, self.claim_timer):
            if timer is not None:
                timer.cancel()


_NONE_VOIDED: frozenset[tuple[str, str]] = frozenset()


class RequestTable:
    """The open requests of one session by id, and their recorded events.

    `clock` is the journal's.
    """

    def __init__(
        self,
        host: RequestHost,
        policy: ApprovalPolicy,
        clock: Callable[[], datetime],
        tokens: OperatorTokens,
    ) -> None:
        self.host = host
        self.policy = policy
        self.clock = clock
        self.tokens = tokens
        self.tasks = Tasks()
        self.open: dict[str, OpenRequest] = {}
        self.deadlines: dict[tuple[str, str], Deadline] = {}
        """Deadlines of requests that are asked again, by call and net."""
        self.claims: dict[tuple[str, str], Claim] = {}
        """Claims on requests that are asked again, by call and net."""
        self.voided: frozenset[tuple[str, str]] = _NONE_VOIDED
        """Requests that were voided here, by call and net; these do not count for the limit."""
        self.withdrawals = Withdrawals(host, self.tasks, self.open)

    def approval_of(self, open_request: OpenRequest) -> ApprovalState | None:
        """Return the state of a request, `None` if it is over. The caller holds the turn."""
        return None if open_request.over else self.host.state.approvals.get(open_request.approval_id)

    @asynccontextmanager
    async def turn(
        self, approval_id: str
    ) -> AsyncGenerator[tuple[OpenRequest, ApprovalState] | None, None]:
        """Hold a request's turn; yields the request and its state, or `None` if it is over."""
        open_request = self.open.get(approval_id)
        if open_request is None:
            yield None
            return
        async with open_request.turn:
            approval = self.approval_of(open_request)
            yield None if approval is None else (open_request, approval)

    def undecided_late(self, opener: str) -> Iterator[tuple[datetime, Callable[[], bool]]]:
        """Yield an opener's late requests without an approval: their time, and how to withdraw them.

        The function returns whether the withdrawal has begun.
        """
        if self.host.bounded_by != opener:
            return
        for open_request in self.open.values():
            approval = self.approval_of(open_request)
            if (
                approval is not None
                and approval.late is not None
                and not approval.given
                and open_request.fuse is None
            ):
                yield open_request.since, partial(self.host.drop_late, approval.call_id)

    def of_call(self, call_id: str) -> OpenRequest | None:
        """Return the open request about a call."""
        return next((each for each in self.open.values() if each.call_id == call_id), None)

    def is_current(self, open_request: OpenRequest) -> bool:
        """True if everything is still as it was when the request was shown."""
        made = digest_of(self.host.id, self.host.manager, open_request.request, open_request.salt)
        return made == open_request.digest

    def blocked(self, open_request: OpenRequest) -> str | None:
        """Return why a net now blocks the call, or `None`. A flow's question is not a call."""
        if open_request.requested_input is not None:
            return None
        reason = self.host.manager.block_reason(open_request.request.call)
        return None if reason is None else f"the call is now blocked: {reason.rstrip('.')}"

    async def note(self, body: EventBody) -> None:
        """Record an event after which a request stays open.

        The caller holds its turn until the event is recorded, even if cancelled: the next answer needs
        it.
        """
        cut_off: asyncio.CancelledError | None = None
        # Handed over at once, so that nothing comes between the checks and the record.
        record = self.host.hand_over(body)
        while not record.done():
            try:
                await asyncio.wait([record])
            except asyncio.CancelledError as error:
                cut_off = error
        if cut_off is not None and record.exception() is None:
            raise cut_off
        record.result()

    async def end(self, open_request: OpenRequest, body: End, answer: ApprovalAnswer) -> bool:
        """Record the end of a request, then release the waiting call. Return false if the call has gone.

        The call is released at the moment of the record, even if the caller is cancelled.
        """
        released: list[bool] = []

        def release(written: bool) -> None:
            open_request.ending = written
            if written and not open_request.answered.done():
                open_request.answered.set_result(answer)
                released.append(True)
            elif not written and open_request.end_reason is not None:
                self.withdrawals.retry(body.approval_id, body.call_id, open_request.end_reason)

        open_request.ending = True
        try:
            await self.host.record(body, on_written=release)
        except JournalError:
            open_request.ending = False
            raise
        return bool(released)

    async def void(
        self,
        open_request: OpenRequest,
        reason: str,
        edit: tuple[dict[str, JsonValue] | None, str | None] = (None, None),
        outcome: str = AGAIN,
    ) -> bool:
        """Withdraw a request whose call must be judged again; its deadline is kept (G-67).

        An `edit` is a new input, and the operator who chose it (G-75).
        """
        approval = self.host.state.approvals.get(open_request.approval_id)
        if approval is not None:
            about = open_request.about
            self.deadlines[about] = Deadline(
                open_request.since, approval.expires, open_request.latest_expiry
            )
            self.voided |= {about}
            if approval.claim is not None:
                self.claims[about] = Claim(approval.claim.by, approval.claim.until, open_request.console)
        chosen, by = edit
        withdrawn = ApprovalWithdrawn(
            approval_id=open_request.approval_id,
            call_id=open_request.call_id,
            reason=f"{reason}; {outcome}",
            again=True,
            input=chosen,
            by=by,
        )
        return await self.end(
            open_request, withdrawn, ApprovalAnswer(False, input=chosen, by=by, again=True)
        )

    async def void_all(self, reason: Callable[[OpenRequest], str | None], outcome: str) -> None:
        """Void the requests for which `reason` returns one.

        A request whose withdrawal cannot be recorded stays open, and answers to it do not count.
        """
        for open_request in list(self.open.values()):
            async with open_request.turn:
                found = reason(open_request)
                if found is None:
                    continue
                try:
                    await self.void(open_request, found, outcome=outcome)
                except JournalError:
                    said = "Request '%s' is void, and the journal refused it"
                    note_refusal(log, said, open_request.approval_id)


def terms_of(approval: ApprovalState) -> Approvers:
    """Return the conditions on who may approve a request."""
    return approval.approvers or ANYBODY


def expiry_reason(approval: ApprovalState, since: datetime, at: datetime) -> str:
    """Return the reason for denying a request at its deadline; `since` is when it was first asked.

    A server that notices the deadline only later, `at` a time after a pause or a restart, cannot know
    whether somebody answered in time.
    """
    assert approval.expires is not None
    where = "" if approval.rule is None else f" ({approval.rule.where})"
    lasted = (approval.expires - since).total_seconds()
    # The request is recorded a moment after its deadline was set.
    time = format_duration(math.ceil(lasted - 0.001) if lasted > 1 else lasted)
    late = (at - approval.expires).total_seconds()
    if late < NOTICED_LATE:
        return f"nobody decided within {time}{where}"
    return (
        f"no decision was recorded within {time}{where}, and its server could act on that only "
        f"{format_duration(late)} later"
    )
