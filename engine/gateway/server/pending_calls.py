"""Pending calls of external agents.

A call that no client waits for becomes late after a while (G-102), or is withdrawn, so that no operator
decides it in vain.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from ...history.errors import JournalError
from ...hub.hub import CallAnswer, CallRefused, Hub, UnknownSessionError
from ..protocol.agent_methods import CallTool, SessionEnded
from ..protocol.framing import Code, WireError
from .limits import Limits, footprint

Listener: TypeAlias = Callable[[SessionEnded], object]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PendingCall:
    """Call of `size` bytes; after a while without a waiting client, the timer `withdrawal` ends it.

    `answers` maps each future that a client waits for to the time of its request.
    """

    size: int
    answers: dict[asyncio.Future[CallAnswer], float] = field(
        default_factory=dict[asyncio.Future[CallAnswer], float]
    )
    withdrawal: asyncio.TimerHandle | None = None

    def keep(self) -> None:
        """Cancel the withdrawal timer."""
        if self.withdrawal is not None:
            self.withdrawal.cancel()
            self.withdrawal = None


@dataclass(slots=True)
class TokenSession:
    """A live session of a token, its `owner`; `used` is its last use by the server's clock.

    `rules` are the named sets that apply to it in addition to the server's own rules. `late` maps its
    late calls, by their ids in the record, to their sizes. `begun` is the number of its latest event when
    it was opened or resumed here: an end that is recorded before is that of an earlier run.
    """

    id: str
    owner: str
    used: float
    rules: tuple[str, ...] = ()
    pending: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall])
    late: dict[str, int] = field(default_factory=dict[str, int])
    listeners: set[Listener] = field(default_factory=set[Listener])
    begun: int = 0


class PendingCalls:
    """Pending calls of all sessions of a server; `sizes` are their total bytes, by owner.

    `late_sizes` are those of late calls, to which the same limit applies separately.
    """

    def __init__(self, hub: Hub, limits: Limits, clock: Callable[[], float]) -> None:
        self.sizes: Counter[str] = Counter()
        self.late_sizes: Counter[str] = Counter()
        self._hub = hub
        self._limits = limits
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def release(self, session: TokenSession) -> None:
        """Release everything of an ended session, which may be resumed and repeat its calls."""
        for call_id in list(session.pending):
            self._forget(session, call_id)
        for key in list(session.late):
            self._forget_late(session, key)

    @staticmethod
    def cancel_withdrawals(session: TokenSession) -> None:
        """Cancel the withdrawal of abandoned calls."""
        for pending in session.pending.values():
            pending.keep()

    def submit(self, session: TokenSession, call: CallTool) -> asyncio.Future[CallAnswer]:
        """Decide a call; a call that needs approval waits for its answer. Raises `WireError`.

        A client that cancels the returned future stops waiting. A call without any client is withdrawn
        later.
        """
        session.used = self._clock()
        pending = session.pending.get(call.call)
        is_new = pending is None
        if pending is None:
            pending = PendingCall(footprint(call.model_dump_json()))
            self._check(session, pending.size)
        answer = self._hub.submit_call(session.id, call.call, call.tool, call.input, call.subagent)
        if is_new:
            session.pending[call.call] = pending
            self.sizes[session.owner] += pending.size
        if session.late:
            self._forget_late(session, self._hub.recorded_id(session.id, call.call))
        pending.keep()
        pending.answers[answer] = session.used
        if not is_new:
            self._hub.note_connection(session.id, call.call, connected=True)

        call_id = call.call  # the call itself may be large, and its answer may come much later

        def done(answer: asyncio.Future[CallAnswer]) -> None:
            session.used = self._clock()
            del pending.answers[answer]
            is_cancelled = answer.cancelled()
            has_failed = not is_cancelled and answer.exception() is not None
            if not is_cancelled and not has_failed and answer.result().outcome != "waiting":
                self._forget(session, call_id)
            elif pending.answers or session.pending.get(call_id) is not pending:
                return
            elif is_new and has_failed:
                self._forget(session, call_id)
            else:
                pending.withdrawal = asyncio.get_running_loop().call_later(
                    self._limits.absent, self._withdraw, session, call_id, pending
                )
                if is_cancelled:
                    # Its connection is lost. A client that was answered `waiting` may ask again at any
                    # time.
                    self._hub.note_connection(session.id, call_id, connected=False)

        answer.add_done_callback(done)
        if call.wait is not None:
            # Most calls set no `wait` and need no timer.
            loop = asyncio.get_running_loop()
            timer = loop.call_later(call.wait, self._answer_waiting, session, answer)
            answer.add_done_callback(lambda _: timer.cancel())
        return answer

    async def give_up(self, session: TokenSession, call_id: str, reason: str) -> datetime | None:
        """Stop all clients' waits for a call; return the time until which its request stays open.

        See `Hub.give_up_call`. Clients that still wait for the call are told to ask again.
        """
        pending = session.pending.get(call_id)
        until = await self._leave(session, call_id, reason, 0 if pending is None else pending.size)
        pending = session.pending.get(call_id)
        if pending is not None and (until is not None or not pending.answers):
            self._forget(session, call_id)
            for answer in list(pending.answers):
                self._answer_waiting(session, answer)
        return until

    async def _leave(
        self, session: TokenSession, call_id: str, reason: str, size: int
    ) -> datetime | None:
        """Give up a call of `size` bytes; withdraw it if the token's late calls exceed the limit."""
        owner = session.owner
        if self.late_sizes[owner] + size > self._limits.waiting_bytes:
            await self._hub.withdraw_call(
                session.id, call_id, f"{reason}; the limit of late calls is reached"
            )
            return None
        until = await self._hub.give_up_call(session.id, call_id, reason)
        key = self._hub.recorded_id(session.id, call_id)
        if until is not None and size and key not in session.late:
            session.late[key] = size
            self.late_sizes[owner] += size
            self._hub.when_over(session.id, call_id, lambda: self._forget_late(session, key))
        return until

    def _forget_late(self, session: TokenSession, key: str) -> None:
        """Release the bytes of a late call, which was made again or has ended."""
        self.late_sizes[session.owner] -= session.late.pop(key, 0)
        if not self.late_sizes[session.owner]:
            del self.late_sizes[session.owner]

    def note_lost(self, session: TokenSession) -> None:
        """Note that no connection of a session is left that could ask again about its calls."""
        for call_id, pending in session.pending.items():
            if not pending.answers:
                self._hub.note_connection(session.id, call_id, connected=False)

    def end_waits(self, session: TokenSession) -> None:
        """Make clients ask again that have waited for the maximum time."""
        since = self._clock() - self._limits.wait
        for pending in session.pending.values():
            for answer, at in pending.answers.items():
                if at < since:
                    self._answer_waiting(session, answer)

    def _check(self, session: TokenSession, size: int) -> None:
        """Raise `WireError` if a further call of this size exceeds a limit."""
        limit, size_limit = self._limits.calls_per_session, self._limits.waiting_bytes
        if len(session.pending) >= limit:
            raise WireError(
                Code.LIMIT,
                f"session '{session.id}' has {limit} calls that wait for an answer, which is the limit",
                {"limit": limit},
            )
        pending_size = self.sizes[session.owner]
        if pending_size + size > size_limit:
            raise WireError(
                Code.LIMIT,
                f"this token's calls that wait for an answer have {pending_size} bytes, and this one "
                f"would exceed the limit of {size_limit}; wait for some of them",
                {"limit": size_limit},
            )

    def _answer_waiting(self, session: TokenSession, answer: asyncio.Future[CallAnswer]) -> None:
        """Answer a client with `waiting`, so that it asks again."""

        async def work() -> None:
            with suppress(UnknownSessionError):  # the call then ends the same way
                mode = (await self._hub.session(session.id)).mode
                freeze = self._hub.current_freeze()
                if not answer.done():
                    reason = None if freeze is None else freeze.words
                    answer.set_result(CallAnswer(outcome="waiting", mode=mode, reason=reason))

        self._start(work())

    def _forget(self, session: TokenSession, call_id: str) -> None:
        """Release a call's bytes and cancel its withdrawal: it is answered or no longer known."""
        pending = session.pending.pop(call_id, None)
        if pending is not None:
            self._hub.note_connection(session.id, call_id, connected=True)
            pending.keep()
            self.sizes[session.owner] -= pending.size
            if not self.sizes[session.owner]:
                del self.sizes[session.owner]

    def _withdraw(self, session: TokenSession, call_id: str, pending: PendingCall) -> None:
        async def work() -> None:
            with suppress(UnknownSessionError, CallRefused):
                try:
                    reason = "the agent is gone: nobody waits for it"
                    await self._leave(session, call_id, reason, pending.size)
                except JournalError:
                    log.exception("Call '%s' of session '%s' could not be withdrawn", call_id, session.id)

        if session.pending.get(call_id) is pending:
            self._forget(session, call_id)
            self._start(work())

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
