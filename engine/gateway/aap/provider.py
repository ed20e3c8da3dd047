"""Provider of the Agent Approval Protocol: its requests are calls of sessions at the gate.

A request's id is derived from its token and idempotency key, so that the same request is found after a
restart. Rules decide at once or require approval; the session's record contains the result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Final, Literal, NamedTuple
from uuid import UUID, uuid5
from weakref import WeakValueDictionary

from pydantic import TypeAdapter

from ...agents.messages import clean_text
from ...core.clock import Clock, timer_delay
from ...core.durations import parse_time
from ...history.errors import JournalError
from ...history.journal.reader import SessionNotFound
from ...history.model.events import RequestStep
from ...hub.hub import CallAnswer, CallRefused, Hub, UnknownSessionError
from ...hub.request_api import PREFIX, RequestAct, RequestActAnswer
from ...net.net import NetError
from ...recording.protocol_requests import ProtocolRequest
from ...recording.resume_checks import ResumeError
from ..protocol.agent_methods import CallTool, OpenSession, ResumeSession, SessionEnded
from ..protocol.framing import Code, WireError
from ..protocol.tokens import Identity, TokenFile
from ..server.agent_sessions import AgentSessions
from .receiver import WebhookReceiver
from .webhooks import SPACE, Webhooks
from .wire import CreateRequest, Outcome

VALID: Final = 300.0
"""Seconds for which an approval can be used."""
LONGEST: Final = 7 * 24 * 3600
"""Maximum seconds for which a request may wait; its client may set less."""
KEPT: Final = timedelta(days=8)
"""Age up to which requests are found again after a restart."""
AT_ONCE: Final = 2.0
"""Seconds for which the answer to a new request waits for a decision without operators."""
LONGEST_WAIT: Final = 30.0
LOOK: Final = 1.0
"""Seconds between reads of the record of a request at another server."""
LEAVING: Final = 60.0
"""Seconds for which a server that shuts down may still own a session that it has ended."""
MOST_KEPT: Final = 10_000
"""Requests whose sessions are cached; those of others are looked up in the journal."""
UNUSED: Final = "Outcome unknown: the approval was not used in time, and the call may have run without"
NOT_RUN: Final = "Not run: its request had ended when the call was allowed"

ConflictCode = Literal[
    "idempotency_conflict",
    "already_terminal",
    "already_consumed",
    "not_approved",
    "approval_expired",
    "not_consumed",
    "outcome_conflict",
]

log = logging.getLogger(__name__)


class RequestNotFoundError(LookupError):
    """This token has no such request."""

    def __init__(self) -> None:
        super().__init__("This token has no such request")


class RequestConflictError(Exception):
    """The operation conflicts with the request's state, or the idempotency key with another request."""

    def __init__(self, code: ConflictCode, text: str) -> None:
        super().__init__(text)
        self.code: Final = code


class ProviderUnavailableError(Exception):
    """The operation is impossible now; a retry may succeed."""


class _RequestOwner(NamedTuple):
    session: str
    owner: str


class ApprovalProvider:
    """Requests of all agents of a server. Call `start`, then `close`.

    Deadlines and the time in which an approval can be used are by the hub's clock, as the events are.
    """

    def __init__(
        self,
        sessions: AgentSessions,
        tokens: TokenFile,
        receivers: Mapping[str, WebhookReceiver] | None = None,
        *,
        valid: float = VALID,
        clock: Clock | None = None,
        pause: float = 1.0,
    ) -> None:
        self._sessions = sessions
        self._hub: Hub = sessions.hub
        self._tokens = tokens
        self._valid = valid
        self._clock = clock or self._hub.clock
        self._webhooks = Webhooks(receivers or {}, self._note_delivery, pause=pause)
        self._requests: dict[str, _RequestOwner] = {}
        self._live: set[str] = set()
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()

    # Start and end

    async def start(self) -> None:
        """Restore the requests of an earlier server; those that waited for operators wait again.

        Requests owned by another server of the database are left to that server.
        """
        self._webhooks.start()
        self._hub.request_actor = self._act
        since = self._clock() - KEPT
        for entry in self._tokens.tokens():
            if entry.kind != "agent":
                continue
            for session in await self._hub.requesting_sessions(entry.name, since):
                await self._recover(entry.identity, session)
        self._forget_old()

    def take(self, session: str) -> None:
        """Continue the requests of a session whose server has ended."""
        if session.startswith(PREFIX):
            self._start(self._take(session))

    async def _take(self, session: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LEAVING
        while await self._hub.has_elsewhere(session) and loop.time() < until:  # noqa: ASYNC110 - it is asked
            await asyncio.sleep(LOOK)
        recorded_session = await self._hub.recorded_external(session, whole=True)
        if (
            recorded_session is not None
            and (identity := self._identity(recorded_session.opened_by)) is not None
        ):
            await self._recover(identity, session)

    def _identity(self, agent: str | None) -> Identity | None:
        """Identity of an agent's token, by the agent's name."""
        entries = (each for each in self._tokens.tokens() if each.kind == "agent" and each.name == agent)
        return next((each.identity for each in entries), None)

    async def _recover(self, identity: Identity, session: str) -> None:
        """Continue the requests of a session that no other server owns; log a failure."""
        try:
            if await self._hub.has_elsewhere(session):
                return
            recorded_session = await self._hub.recorded_external(session, whole=True)
            if recorded_session is None or recorded_session.opened_by != identity.name:
                return
            requests = [
                each for each in (await self._hub.recorded_requests(session)).values() if each.called
            ]
            now = self._clock()
            for request in requests:
                self._requests[request.id] = _RequestOwner(session, identity.name)
                if (
                    request.decision is not None
                    and not request.notified
                    and request.decision.at > now - KEPT
                ):
                    self._webhooks.notify(identity.name, request.id, request.decision.at)
            if any(_goes_on(each, now) for each in requests):
                await self._open(identity, session)
        except (JournalError, NetError, ResumeError, SessionNotFound, WireError, ValueError):
            log.exception("the requests of session '%s' could not be resumed", session)

    async def close(self) -> None:
        """Stop the waits in this process; recorded requests continue at another server."""
        self._hub.request_actor = None
        for timer in self._timers:
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._webhooks.close()

    # Operations

    async def create(
        self, identity: Identity, key: str, message: CreateRequest
    ) -> tuple[ProtocolRequest, bool]:
        """Return the request for a token's idempotency key, and true if it is new.

        Raises `RequestConflictError`, `ProviderUnavailableError`, `WireError`, and `JournalError` if it
        could not be recorded.
        """
        request_id = str(uuid5(SPACE, f"request\0{identity.name}\0{key}"))
        async with self._lock(request_id):
            session = _session_id(identity, message.conversation)
            earlier_request = await self._request_of(identity, request_id, session)
            if earlier_request is not None and earlier_request.arguments is not None:
                if not message.is_same(earlier_request):
                    raise RequestConflictError(
                        "idempotency_conflict", "This idempotency key was used for another request"
                    )
                return earlier_request, False
            act = RequestAct(
                step="create", agent=identity.name, key=key, body=message.model_dump(exclude_unset=True)
            )
            if (answer := await self._elsewhere(session, act)) is not None:
                return await self.get(identity, request_id), answer.is_new
            await self._open(identity, session)
            seconds = min(parse_time(message.timeout) or LONGEST, LONGEST)
            event = message.made(request_id, self._clock() + timedelta(seconds=seconds), self._valid)
            await self._hub.note_request(session, event)
            self._requests[request_id] = _RequestOwner(session, identity.name)
            self._forget_old()
            request = ProtocolRequest(request_id, session, event, self._clock(), message.called)
            self._submit(identity, request, message.arguments)
            return await self._until(request, _is_open_or_ended, AT_ONCE), True

    async def get(self, identity: Identity, request_id: str, wait: float = 0.0) -> ProtocolRequest:
        """Return a request once it has ended, or after `wait` seconds. Raises `RequestNotFoundError`.

        A request owned by another server of the database is read from its record.
        """
        request = await self._request_of(identity, request_id)
        if request is None or request.arguments is None:
            raise RequestNotFoundError
        if request.decision is None and request.session not in self._live:
            await self._recover(identity, request.session)
        if request.decision is None and wait:
            return await self._until(request, _has_ended, min(wait, LONGEST_WAIT))
        return request

    async def cancel(self, identity: Identity, request_id: str) -> ProtocolRequest:
        """Withdraw a request. Raises `RequestConflictError` if it has ended otherwise; see `get`."""
        async with self._lock(request_id):
            request = await self.get(identity, request_id)
            if request.decision is None:
                act = RequestAct(step="cancel", agent=identity.name, request=request_id)
                if await self._elsewhere(request.session, act) is not None:
                    return await self.get(identity, request_id)
                await self._open(identity, request.session)
                request = await self._end(request, "cancelled", "its client cancelled the request")
            if request.decision is None or request.decision.status != "cancelled":
                raise RequestConflictError("already_terminal", "The request has ended already")
            return request

    async def consume(self, identity: Identity, request_id: str, key: str) -> ProtocolRequest:
        """Use an approval once: the call may start when this returns.

        Raises `RequestConflictError`, `ProviderUnavailableError` while all agents are frozen, and the
        errors of `get`.
        """
        return await self._consume(identity, request_id, sha256(key.encode()).hexdigest())

    async def _consume(self, identity: Identity, request_id: str, hashed: str) -> ProtocolRequest:
        async with self._lock(request_id):
            request = await self.get(identity, request_id)
            if request.used is not None and request.used_by == hashed:
                return request
            if request.used is not None:
                raise RequestConflictError("already_consumed", "The approval was used already")
            if request.decision is None or request.decision.status != "approved":
                raise RequestConflictError("not_approved", "The request is not approved")
            self._check_usable(request)
            act = RequestAct(step="consume", agent=identity.name, request=request_id, key=hashed)
            if await self._elsewhere(request.session, act) is not None:
                return await self.get(identity, request_id)
            await self._open(identity, request.session)
            self._check_usable(await self._current(request))  # a session takes a while to resume
            await self._note(request, "consumed", hashed)
            return await self.get(identity, request_id)

    def _check_usable(self, request: ProtocolRequest) -> None:
        """Raise `RequestConflictError` after an approval's expiry.

        Raises `ProviderUnavailableError` while all agents are frozen.
        """
        if _expiry(request) <= self._clock():
            raise RequestConflictError("approval_expired", "The approval was not used in time")
        if (freeze := self._hub.current_freeze()) is not None:
            raise ProviderUnavailableError(freeze.words)

    async def report(self, identity: Identity, request_id: str, outcome: Outcome) -> ProtocolRequest:
        """Record the outcome of a call. Raises `RequestConflictError` and the errors of `get`."""
        async with self._lock(request_id):
            request = await self.get(identity, request_id)
            note, is_error = str(clean_text(outcome.note)), outcome.status == "failed"
            if request.used is None:
                raise RequestConflictError("not_consumed", "The approval was not used")
            if (earlier := request.outcome) is not None:
                if (earlier.is_error, earlier.note) != (is_error, note):
                    raise RequestConflictError("outcome_conflict", "Another outcome is recorded")
                return request
            # An unset note is left out: the owner would refuse an empty one.
            body = outcome.model_dump(exclude_unset=True)
            act = RequestAct(step="report", agent=identity.name, request=request_id, body=body)
            if await self._elsewhere(request.session, act) is not None:
                return await self.get(identity, request_id)
            await self._open(identity, request.session)
            await self._hub.result(request.session, request_id, output=note, is_error=is_error)
            return await self.get(identity, request_id)

    # Other servers

    async def _elsewhere(self, session: str, act: RequestAct) -> RequestActAnswer | None:
        """Make the server that owns a session perform a step; `None` if that is this server, or none.

        Raises the errors that occurred there.
        """
        if session in self._live:
            return None
        answer = await self._hub.act_elsewhere(session, act)
        if answer is None:
            return None
        match answer.failure:
            case None:
                return answer
            case "conflict":
                raise RequestConflictError(
                    TypeAdapter(ConflictCode).validate_python(answer.code), answer.text
                )
            case "absent":
                raise RequestNotFoundError
            case "refused":
                raise CallRefused(answer.text)
            case "wire":
                raise WireError(int(answer.code), answer.text)
            case "unavailable":
                raise ProviderUnavailableError(answer.text)

    async def _act(self, act: RequestAct) -> RequestActAnswer:
        """Perform a step that a client at another server requests for a session of this server."""
        identity = self._identity(act.agent)
        if identity is None:
            raise JournalError(f"this server has no token of the agent '{act.agent}'")
        try:
            match act.step:
                case "create":
                    message = CreateRequest.model_validate(act.body)
                    _, is_new = await self.create(identity, act.key, message)
                    return RequestActAnswer(is_new=is_new)
                case "cancel":
                    await self.cancel(identity, act.request)
                case "consume":
                    await self._consume(identity, act.request, act.key)
                case "report":
                    await self.report(identity, act.request, Outcome.model_validate(act.body))
        except RequestConflictError as error:
            return RequestActAnswer(failure="conflict", code=error.code, text=str(error))
        except RequestNotFoundError:
            return RequestActAnswer(failure="absent")
        except CallRefused as error:
            return RequestActAnswer(failure="refused", text=str(error))
        except WireError as error:
            return RequestActAnswer(failure="wire", code=str(int(error.code)), text=str(error))
        except (ProviderUnavailableError, UnknownSessionError) as error:
            return RequestActAnswer(failure="unavailable", text=str(error))
        return RequestActAnswer()

    # Sessions

    async def _open(self, identity: Identity, session: str) -> None:
        """Make a session live: open it, or resume it with its nets and requests as they were."""
        if session in self._live:
            return
        try:
            await self._sessions.open(
                identity, OpenSession(agent=identity.name, session=session), self._note_end
            )
        except WireError as error:
            if error.code != Code.REFUSED:
                raise
            await self._sessions.resume(identity, ResumeSession(session=session), self._note_end)
        if session in self._live:  # opened by another task in the meantime
            return
        self._hub.follow_requests(session, self._note_change)
        self._live.add(session)
        now = self._clock()
        for request in list((await self._hub.recorded_requests(session)).values()):
            if not request.called or not _goes_on(request, now):
                continue
            self._requests[request.id] = _RequestOwner(session, identity.name)
            if request.decision is None:
                self._submit(identity, request, dict(request.arguments or {}))
            else:
                self._call_at(_expiry(request), lambda request=request: self._settle_unused(request))

    def _note_end(self, notice: SessionEnded) -> None:
        self._live.discard(notice.session)

    async def _request_of(
        self, identity: Identity, request_id: str, session: str | None = None
    ) -> ProtocolRequest | None:
        """Return a request of a token; `session` limits the search if it is known."""
        place = self._requests.get(request_id) or await self._find(identity.name, request_id, session)
        if place is None or place.owner != identity.name:
            return None
        if place.session in self._live:
            with suppress(UnknownSessionError):
                return self._hub.live_request(place.session, request_id)
        return (await self._hub.recorded_requests(place.session)).get(request_id)

    async def _find(
        self, owner: str, request_id: str, session: str | None = None
    ) -> _RequestOwner | None:
        """Find a token's request in the journal, if it is not cached or was made at another server."""
        try:
            if str(UUID(request_id)) != request_id:
                return None
        except ValueError:
            return None
        sessions = await self._hub.requesting_sessions(owner, self._clock() - KEPT)
        if session is not None:
            sessions = [each for each in sessions if each == session]
        session_id = await self._hub.session_of_request(request_id, sessions)
        if session_id is None:
            return None
        recorded_session = await self._hub.recorded_external(session_id, whole=True)
        if recorded_session is None or recorded_session.opened_by != owner:
            return None
        place = self._requests[request_id] = _RequestOwner(session_id, owner)
        self._forget_old()
        return place

    def _forget_old(self) -> None:
        """Drop the oldest ended requests from a full cache; the journal keeps them."""
        if len(self._requests) <= MOST_KEPT:
            return
        # Drops some more than needed, so that not every new request searches all of them.
        over = len(self._requests) - MOST_KEPT * 9 // 10
        ended_ids = (each for each, place in self._requests.items() if self._is_over(each, place))
        for request_id in list(islice(ended_ids, over)):
            del self._requests[request_id]

    def _is_over(self, request_id: str, place: _RequestOwner) -> bool:
        """Return whether nothing in this process waits for a request any longer."""
        if request_id in self._waiters:
            return False
        if place.session not in self._live:
            return True
        with suppress(UnknownSessionError):
            request = self._hub.live_request(place.session, request_id)
            return request is None or request.decision is not None
        return True

    # Decisions

    def _submit(
        self, identity: Identity, request: ProtocolRequest, arguments: Mapping[str, object]
    ) -> None:
        """Submit the call to the gate and follow its result. Raises `WireError` like any call."""
        call = CallTool.model_validate(
            {
                "session": request.session,
                "call": request.id,
                "tool": request.called,
                "input": dict(arguments),
            }
        )
        answer = self._sessions.call(identity, call)
        self._start(self._follow(identity, request, call, answer))
        self._call_at(request.made.deadline, lambda: self._expire(request))

    async def _follow(
        self,
        identity: Identity,
        request: ProtocolRequest,
        call: CallTool,
        answer: asyncio.Future[CallAnswer],
    ) -> None:
        """Wait for a call's decision in place of its client, which may not be connected."""
        pause = 1.0
        while True:
            try:
                call_answer = await answer
                if call_answer.outcome != "waiting":
                    break
            except CallRefused as error:
                async with self._lock(request.id):
                    await self._end(request, "cancelled", str(error))
                return
            except (UnknownSessionError, WireError):
                return
            except JournalError:
                log.exception("request '%s' could not be decided; trying again", request.id)
            await asyncio.sleep(pause)
            pause = min(60.0, 2 * pause)
            if (await self._current(request)).decision is not None:
                return
            try:
                answer = self._sessions.call(identity, call)
            except (UnknownSessionError, WireError):
                return
        current = await self._current(request)
        if call_answer.outcome != "allow" or current.decision is None:
            return
        if current.decision.status == "approved":
            self._call_at(_expiry(current), lambda: self._settle_unused(request))
        else:
            with suppress(CallRefused, UnknownSessionError):
                await self._hub.result(request.session, request.id, output=NOT_RUN, is_error=True)

    async def _end(
        self, request: ProtocolRequest, end: Literal["cancelled", "expired"], why: str
    ) -> ProtocolRequest:
        """End an undecided request, and then its call: the first result in the record counts."""
        if (await self._current(request)).decision is None:
            await self._note(request, end)
        with suppress(CallRefused, UnknownSessionError):
            await self._hub.withdraw_call(request.session, request.id, why)
        return await self._current(request)

    async def _expire(self, request: ProtocolRequest) -> None:
        async with self._lock(request.id):
            if (await self._current(request)).decision is None:
                await self._end(request, "expired", "nobody decided within the time its client gave it")

    async def _settle_unused(self, request: ProtocolRequest) -> None:
        async with self._lock(request.id):
            if (await self._current(request)).used is None:
                with suppress(UnknownSessionError):
                    await self._hub.settle_unknown(request.session, request.id, UNUSED)

    async def _current(self, request: ProtocolRequest) -> ProtocolRequest:
        with suppress(UnknownSessionError):
            return self._hub.live_request(request.session, request.id) or request
        return (await self._hub.recorded_requests(request.session)).get(request.id, request)

    async def _note(
        self,
        request: ProtocolRequest,
        step: Literal["cancelled", "expired", "consumed", "notified"],
        key: str | None = None,
    ) -> None:
        try:
            body = RequestStep(call_id=request.id, step=step, key=key)
            await self._hub.note_request(request.session, body)
        except UnknownSessionError as error:
            raise ProviderUnavailableError("The session of this request has ended") from error

    async def _note_delivery(self, agent: str, request_id: str) -> None:
        if (place := self._requests.get(request_id)) is None:
            place = await self._find(agent, request_id)
        if place is None:
            return
        with suppress(UnknownSessionError, JournalError):
            step = RequestStep(call_id=request_id, step="notified")
            await self._hub.note_request(place.session, step)

    # Changes and times

    def _note_change(self, request_id: str) -> None:
        for waiter in self._waiters.pop(request_id, set[asyncio.Future[None]]()):
            if not waiter.done():
                waiter.set_result(None)
        if (place := self._requests.get(request_id)) is not None:
            with suppress(UnknownSessionError):
                request = self._hub.live_request(place.session, request_id)
                if request is not None and request.decision is not None and not request.notified:
                    self._webhooks.notify(place.owner, request_id, request.decision.at)

    async def _until(
        self, request: ProtocolRequest, holds: Callable[[ProtocolRequest], bool], seconds: float
    ) -> ProtocolRequest:
        """Return a request as soon as `holds` is true for it, or its state after `seconds`."""
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not holds(state := await self._current(request)):
                    waiter: asyncio.Future[None] = loop.create_future()
                    waiters = self._waiters.setdefault(request.id, set[asyncio.Future[None]]())
                    waiters.add(waiter)
                    # There are no notifications of what another server records.
                    look = None if request.session in self._live else LOOK
                    try:
                        await asyncio.wait({waiter}, timeout=look)
                    finally:
                        waiters.discard(waiter)
                        if not waiters and self._waiters.get(request.id) is waiters:
                            del self._waiters[request.id]
                return state
        state = await self._current(request)
        if state.arguments is None:
            raise ProviderUnavailableError("The call is not recorded yet")
        return state

    def _lock(self, request_id: str) -> asyncio.Lock:
        lock = self._locks.get(request_id)
        if lock is None:
            lock = self._locks[request_id] = asyncio.Lock()
        return lock

    def _call_at(self, at: datetime, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start `work` at a time of this server's clock, which may be set: see `timer_delay`."""
        loop = asyncio.get_running_loop()

        def check() -> None:
            self._timers.discard(timer)
            if self._clock() < at:
                self._call_at(at, work)
            else:
                self._start(work())

        delay = max(0.0, (at - self._clock()).total_seconds())
        timer = loop.call_later(timer_delay(delay + 0.001), check)
        self._timers.add(timer)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("processing a request failed", exc_info=error)


def _session_id(identity: Identity, conversation: str) -> str:
    digest = sha256(f"{identity.name}\0{conversation}".encode()).hexdigest()[:16]
    name = "".join(each for each in identity.name if each.isascii() and (each.isalnum() or each in "._-"))
    return f"{PREFIX}{name[:40] or 'agent'}.{digest}"


def _expiry(request: ProtocolRequest) -> datetime:
    """Expiry of an approval; the request's creation time if it is not approved."""
    decision = request.decision
    return request.at if decision is None or decision.expires is None else decision.expires


def _goes_on(request: ProtocolRequest, now: datetime) -> bool:
    """Return whether a request waits for its decision, or for its approval to be used."""
    return request.decision is None or (_expiry(request) > now and request.used is None)


def _has_ended(request: ProtocolRequest) -> bool:
    return request.decision is not None


def _is_open_or_ended(request: ProtocolRequest) -> bool:
    return request.asked or _has_ended(request)
