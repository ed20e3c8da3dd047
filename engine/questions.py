"""The open requests of one hosted session: asked, answered, extended, expired, withdrawn.

Each of these is in the record before anybody acts on it. An answer counts for what was shown and for
nothing else: every request has a digest, and when what it stands for has changed, the request is void and
the call is judged anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar, Protocol, TypeAlias
from uuid import uuid4

from pydantic import JsonValue

from .answer_words import expired, more_needed, ungrantable
from .bound import digest_of
from .gate import GateManager
from .gate.inspecting import exact_only, uninspectable
from .gate.types import ApprovalAnswer, ApprovalRequest, GrantTerms
from .history.errors import JournalError
from .history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    EventBody,
)
from .history.state import ApprovalState, SessionState
from .lasting import lasting
from .records import json_input, rule_record
from .wanted import Wanted
from .withdrawing import RETRY, Tasks, Withdrawals

CHANGED = "what was shown has changed"

_End: TypeAlias = ApprovalDecided | ApprovalExpired | ApprovalWithdrawn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """What holds for requests where no rule says otherwise.

    `expire` is after how many seconds a request is denied; `None` lets it wait for ever. With
    `own_approvals` whoever started a session may be one of several people who approve its calls.
    """

    expire: float | None = None
    own_approvals: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of an operator's answer; `ended` says that the request is no longer open."""

    ok: bool
    message: str
    ended: bool = False


class Host(Protocol):
    """The session whose requests these are; see `HostedSession`."""

    id: str
    manager: GateManager
    interrupted: ClassVar[str]

    @property
    def state(self) -> SessionState: ...

    async def record(self, *bodies: EventBody, then: Callable[[bool], None] | None = None) -> None: ...

    def hand_over(self, *bodies: EventBody) -> asyncio.Future[None]: ...


@dataclass(slots=True)
class _Open:
    request: ApprovalRequest
    digest: str
    wanted: Wanted | None
    answered: asyncio.Future[ApprovalAnswer]
    # One answer at a time: who comes second learns what the first one did.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Something that ends the request is being recorded.
    ending: bool = False
    # The call is withdrawn: nobody waits for an answer.
    left: bool = False
    # The request itself could not be recorded: there is nothing to withdraw.
    unasked: bool = False
    timer: asyncio.TimerHandle | None = None

    def note(self, written: bool) -> None:
        """Whether the record has the request."""
        self.unasked = not written

    @property
    def over(self) -> bool:
        """It has its answer, or something that ends it is being recorded."""
        return self.ending or self.answered.done()


class Questions:
    """See the module. `clock` is what requests expire by, the journal's."""

    def __init__(self, host: Host, policy: ApprovalPolicy, clock: Callable[[], datetime]) -> None:
        self._host = host
        self._policy = policy
        self._clock = clock
        self._open: dict[str, _Open] = {}
        self._tasks = Tasks()
        self.withdrawals = Withdrawals(host, self._tasks, self._open)

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        preview: str | None,
        via: str | None,
        wanted: Wanted | None = None,
    ) -> ApprovalAnswer:
        """Record a request and wait for its end. Cancelling withdraws it.

        What is `wanted` stands in the recorded answer; the call itself is not changed by it.
        """
        approval_id = uuid4().hex[:12]
        call_id = request.call.tool_call_id
        digest = digest_of(self._host.id, self._host.manager, request)
        lasts = self._policy.expire if request.within is None else request.within
        asked = ApprovalRequested(
            approval_id=approval_id,
            call_id=call_id,
            tool=request.tool,
            called=request.call.tool_name,
            input=json_input(request.call.input),
            names=request.names,
            net=request.net,
            transition=request.transition.name,
            title=(wanted or request).title,
            message=(wanted or request).message,
            marking=dict(request.marking),
            rule=rule_record(request.rule),
            uninspectable=uninspectable(request.skill_net, request.call),
            preview=preview,
            via=via,
            digest=digest,
            risk=request.risk,
            people=request.people,
            expires=None if lasts is None else self._clock() + timedelta(seconds=lasts),
            may_grant=request.may_grant and wanted is None,
            exact_only=exact_only(request.skill_net, request.call),
            note=request.note,
            wants=None if wanted is None else wanted.schema,
        )
        waits = _Open(request, digest, wanted, asyncio.get_running_loop().create_future())
        self._open[approval_id] = waits
        try:
            await self._host.record(asked, then=waits.note)
            self._arm(approval_id, waits)
            return await waits.answered
        except asyncio.CancelledError:
            # An answer that is being recorded ends the request by itself. From here on nobody can
            # answer: an answer must not follow the withdrawal.
            waits.left = True
            if not waits.ending and not waits.unasked:
                waits.ending = True
                await self.withdrawals.withdraw(approval_id, call_id)
            raise
        finally:
            self._open.pop(approval_id, None)
            if waits.timer is not None:
                waits.timer.cancel()

    async def answer(
        self,
        approval_id: str,
        *,
        approved: bool,
        by: str,
        reason: str | None = None,
        edited: dict[str, JsonValue] | None = None,
        digest: str | None = None,
        grant: GrantTerms | None = None,
    ) -> Reply | None:
        """Record a person's answer, then release the call; `None` when nobody waits for it any more.

        Whoever comes first decides. Raises `JournalError` when the answer could not be recorded: the
        request then stays open.
        """
        by = by.strip()
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None:
                return None
            if not self._stands(waits):
                await self._void(approval_id, waits, CHANGED)
                return Reply(False, "The request has changed since it was shown and is asked again", True)
            problem = self._unfit(waits, shown, approved, by, digest, grant)
            if problem is None and approved and waits.wanted is not None:
                problem = waits.wanted.problem(edited)
            if problem is not None:
                return Reply(False, problem)
            if approved and shown.people > 1 and edited is not None and waits.wanted is None:
                return await self._edited(approval_id, waits, edited, by)
            missing = shown.people - len(shown.given) - 1
            if approved and missing > 0:
                given = ApprovalGiven(
                    approval_id=approval_id, call_id=shown.call_id, by=by, digest=waits.digest
                )
                await self._note(given)
                return Reply(True, more_needed(shown, by, missing))
            ran = edited if waits.wanted is None else None
            answer = ApprovalAnswer(approved, reason, ran, by, shown.given, grant)
            body = ApprovalDecided(
                approval_id=approval_id,
                call_id=shown.call_id,
                approved=approved,
                by=by,
                reason=reason,
                input=edited,
                others=shown.given if approved else (),
                digest=waits.digest,
            )
            if not await self._end(waits, body, answer):
                return None
        return Reply(True, f"{shown.tool} {'approved' if approved else 'denied'} by {by}", True)

    async def extend(self, approval_id: str, seconds: float | None, by: str) -> Reply | None:
        """Give a request `seconds` from now on, or let it wait for ever."""
        waits = self._open.get(approval_id)
        if waits is None:
            return None
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None:
                return None
            if shown.expires is not None and self._clock() >= shown.expires:
                return Reply(False, "The time for this request is over")
            until = None if seconds is None else self._clock() + timedelta(seconds=seconds)
            await self._note(
                ApprovalExtended(approval_id=approval_id, call_id=shown.call_id, until=until, by=by)
            )
            self._arm(approval_id, waits)
        rest = "waits for ever" if seconds is None else f"has {lasting(seconds)} from now"
        return Reply(True, f"{shown.tool} {rest}")

    async def ask_again(self) -> None:
        """Something that requests stand on has changed: void those it changed for.

        One whose withdrawal cannot be recorded stays, and no answer to it counts.
        """
        for approval_id, waits in list(self._open.items()):
            async with waits.turn:
                if not waits.over and not self._stands(waits):
                    try:
                        await self._void(approval_id, waits, CHANGED)
                    except JournalError:
                        log.exception("Request '%s' is void, and the journal refused it", approval_id)

    def _shown(self, approval_id: str, waits: _Open) -> ApprovalState | None:
        """A request as it stands, for who has its turn; `None` when nothing counts for it any more."""
        return None if waits.over else self._host.state.approvals.get(approval_id)

    def _stands(self, waits: _Open) -> bool:
        """Whether all is still as it was when the request was shown."""
        return digest_of(self._host.id, self._host.manager, waits.request) == waits.digest

    # How requests end

    async def _note(self, body: EventBody) -> None:
        """Record something after which a request stays open.

        The turn of whoever cancels this lasts until that is in the record: the next answer counts on it.
        """
        cut_off: asyncio.CancelledError | None = None
        # Handed over here and now: nothing comes between what was looked at and what is recorded.
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
        """Record the end of a request, then release who waits. False when that one has gone.

        Released in the moment in which the record has it, whatever becomes of whoever calls this.
        """
        released: list[bool] = []

        def release(written: bool) -> None:
            waits.ending = written
            if written and not waits.answered.done():
                waits.answered.set_result(answer)
                released.append(True)
            elif not written and waits.left:
                self.withdrawals.later(body.approval_id, body.call_id)

        waits.ending = True
        try:
            await self._host.record(body, then=release)
        except JournalError:
            waits.ending = False
            raise
        return bool(released)

    async def _void(
        self, approval_id: str, waits: _Open, why: str, answer: ApprovalAnswer | None = None
    ) -> bool:
        """Withdraw a request whose call is to be judged anew."""
        call_id = waits.request.call.tool_call_id
        gone = ApprovalWithdrawn(
            approval_id=approval_id, call_id=call_id, reason=f"{why}; asked again", again=True
        )
        return await self._end(waits, gone, answer or _AGAIN)

    async def _edited(
        self, approval_id: str, waits: _Open, edited: dict[str, JsonValue], by: str
    ) -> Reply | None:
        """Where several people must approve, an edit makes another request: all approve that one."""
        answer = replace(_AGAIN, input=edited, by=by)
        if not await self._void(approval_id, waits, f"edited by {by}", answer):
            return None
        return Reply(True, "The edited call is asked about anew: everybody approves that one", True)

    def _arm(self, approval_id: str, waits: _Open) -> None:
        """Have the request expire when its time is over."""
        if waits.timer is not None:
            waits.timer.cancel()
            waits.timer = None
        shown = self._host.state.approvals.get(approval_id)
        if shown is None or shown.expires is None:
            return
        left = (shown.expires - self._clock()).total_seconds()
        loop = asyncio.get_running_loop()
        waits.timer = loop.call_later(max(0.0, left), self._expire_soon, approval_id, waits)

    def _expire_soon(self, approval_id: str, waits: _Open) -> None:
        self._tasks.start(self._expire(approval_id, waits))

    async def _expire(self, approval_id: str, waits: _Open) -> None:
        async with waits.turn:
            shown = self._shown(approval_id, waits)
            if shown is None or shown.expires is None:
                return
            if self._clock() < shown.expires:
                # The machine slept, or its clock was set back.
                self._arm(approval_id, waits)
                return
            reason = expired(shown)
            body = ApprovalExpired(approval_id=approval_id, call_id=shown.call_id, reason=reason)
            try:
                await self._end(waits, body, ApprovalAnswer(False, reason))
            except JournalError:
                log.exception("Request '%s' has expired, and the journal refused it", approval_id)
                loop = asyncio.get_running_loop()
                waits.timer = loop.call_later(RETRY, self._expire_soon, approval_id, waits)

    # What makes an answer fit

    def _unfit(
        self,
        waits: _Open,
        shown: ApprovalState,
        approved: bool,
        by: str,
        digest: str | None,
        grant: GrantTerms | None,
    ) -> str | None:
        """Why an answer cannot be taken; `None` when it can."""
        if digest is not None and digest != waits.digest:
            return "This is not the request that was shown: look again"
        if shown.expires is not None and self._clock() >= shown.expires:
            return f"Too late: {expired(shown)}"
        if not by:
            return "Nobody has decided: an answer needs the name of an operator"
        if not approved:
            return None if grant is None else "A denial grants nothing"
        if shown.people > 1:
            started = (self._host.state.opened_by or "").strip()
            if by == started and not self._policy.own_approvals:
                return f"{by} started this session: {shown.people} other people must approve"
            if by in shown.given:
                return f"{by} has approved already: somebody else must approve too"
        return None if grant is None else ungrantable(shown, grant)


_AGAIN = ApprovalAnswer(False, again=True)
