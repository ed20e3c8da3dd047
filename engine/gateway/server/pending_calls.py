"""Pending calls of external agents.

A call that no client waits for any more is withdrawn after a while, so that no operator decides it in
vain.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from ...history.errors import JournalError
from ...history.model.fast_models import construct_model
from ...hub.hub import CallAnswer as Decided
from ...hub.hub import CallRefused, Hub, UnknownSessionError
from ..protocol.agent_methods import CallAnswer, CallTool, SessionEnded
from ..protocol.errors import as_wire_errors
from ..protocol.framing import Code, WireError
from .limits import Limits, footprint

# Pending calls: the clients that wait for each, and the bytes kept for one token.


Listener: TypeAlias = Callable[[SessionEnded], object]


@dataclass(slots=True)
class Waiters:
    """Number of clients that wait for one call of `size` bytes; at zero it is withdrawn after a while."""

    size: int
    count: int = 0
    leaving: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class Open:
    """A live session of a token."""

    id: str
    owner: str
    used: float
    waiting: dict[str, Waiters] = field(default_factory=dict[str, Waiters])
    listeners: set[Listener] = field(default_factory=set[Listener])


class WaitingQuota:
    """Bytes of pending inputs, by owner."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes: Counter[str] = Counter()

    def check(self, owner: str, size: int) -> None:
        """Raises `WireError` where a call of this size exceeds the limit."""
        held = self._bytes[owner]
        if held + size > self._most:
            raise WireError(
                Code.LIMIT,
                f"this token's calls that wait for an answer are {held} bytes, and with this one they "
                f"would be more than {self._most}, the most they may be; wait for some of them",
                {"limit": self._most},
            )

    def hold(self, owner: str, waiters: Waiters) -> None:
        """Count the bytes of a call."""
        self._bytes[owner] += waiters.size

    def let_go(self, owner: str, waiters: Waiters) -> None:
        """Release the bytes of a call."""
        self._bytes[owner] -= waiters.size
        waiters.size = 0
        if not self._bytes[owner]:
            del self._bytes[owner]


log = logging.getLogger(__name__)


class OpenCalls:
    """The open calls of all sessions of a server; `held` counts their bytes."""

    def __init__(self, hub: Hub, limits: Limits, clock: Callable[[], float]) -> None:
        self.held = WaitingQuota(limits.waiting_bytes)
        self._hub = hub
        self._limits = limits
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def let_go(self, session: Open) -> None:
        """Release everything of an ended session; it may be resumed, and its calls made again."""
        self.stop(session)
        for waiters in session.waiting.values():
            self.held.let_go(session.owner, waiters)
        session.waiting.clear()

    def stop(self, session: Open) -> None:
        """Withdraw no abandoned calls any more."""
        for waiters in session.waiting.values():
            if waiters.leaving is not None:
                waiters.leaving.cancel()

    def judge(self, session: Open, asked: CallTool) -> asyncio.Future[CallAnswer]:
        """Decide a call; its answer, for which a call that needs approval waits. Raises `WireError`.

        A client that cancels it waits no more. Without any client the call is withdrawn later.
        """
        session.used = self._clock()
        waiters = session.waiting.get(asked.call)
        is_first = waiters is None
        if waiters is None:
            limit = self._limits.calls_per_session
            if len(session.waiting) >= limit:
                raise WireError(
                    Code.LIMIT,
                    f"session '{session.id}' has {limit} calls that wait for an answer, the most it may "
                    "have",
                    {"limit": limit},
                )
            waiters = Waiters(footprint(asked.model_dump_json()))
            self.held.check(session.owner, waiters.size)
        with as_wire_errors():
            decided = self._hub.submit_call(session.id, asked.call, asked.tool, asked.input)
        if is_first:
            session.waiting[asked.call] = waiters
            self.held.hold(session.owner, waiters)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[CallAnswer] = loop.create_future()
        timer: asyncio.TimerHandle | None = None
        if asked.wait is not None or not self._hub.is_decided(session.id, asked.call):
            longest = self._limits.wait if asked.wait is None else min(asked.wait, self._limits.wait)
            timer = loop.call_later(longest, self._answer_later, session, answer)
        waiters.count += 1
        if waiters.leaving is not None:
            waiters.leaving.cancel()
            waiters.leaving = None

        def give(decided: asyncio.Future[Decided]) -> None:
            if decided.cancelled():
                answer.cancel()
            elif answer.done():
                return
            elif (failure := decided.exception()) is not None:
                answer.set_exception(_coded(failure))
            else:
                self._stop_watching(session, asked.call)
                answer.set_result(construct_model(CallAnswer, decided.result().__dict__))

        def leave(answer: asyncio.Future[CallAnswer]) -> None:
            if timer is not None:
                timer.cancel()
            decided.cancel()
            waiters.count -= 1
            session.used = self._clock()
            if waiters.count or session.waiting.get(asked.call) is not waiters:
                return
            if is_first and not answer.cancelled() and answer.exception() is not None:
                self.held.let_go(session.owner, session.waiting.pop(asked.call))
            else:
                absent = self._limits.absent
                waiters.leaving = loop.call_later(absent, self._take_back, session, asked.call, waiters)

        decided.add_done_callback(give)
        answer.add_done_callback(leave)
        return answer

    def _answer_later(self, session: Open, answer: asyncio.Future[CallAnswer]) -> None:
        """Have the client ask again: it has waited for as long as one may."""
        self._start(self._say_waiting(session, answer))

    async def _say_waiting(self, session: Open, answer: asyncio.Future[CallAnswer]) -> None:
        with suppress(UnknownSessionError):  # then its call ends so, too
            mode = (await self._hub.session(session.id)).mode
            if not answer.done():
                answer.set_result(CallAnswer(outcome="waiting", mode=mode))

    def _stop_watching(self, session: Open, call_id: str) -> None:
        """Forget the waiting clients of an answered call."""
        waiters = session.waiting.pop(call_id, None)
        if waiters is not None:
            self.held.let_go(session.owner, waiters)
            if waiters.leaving is not None:
                waiters.leaving.cancel()

    def _take_back(self, session: Open, call_id: str, waiters: Waiters) -> None:
        if session.waiting.get(call_id) is waiters:
            self.held.let_go(session.owner, session.waiting.pop(call_id))
            self._start(self._withdraw_left(session.id, call_id))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _withdraw_left(self, session_id: str, call_id: str) -> None:
        with suppress(UnknownSessionError, CallRefused):
            try:
                await self._hub.withdraw_call(
                    session_id, call_id, "the agent is gone: nobody waits for it"
                )
            except JournalError:
                log.exception("Call '%s' of session '%s' could not be taken back", call_id, session_id)


def _coded(error: BaseException) -> BaseException:
    """Convert an error of the hub to the wire's, where it has a code."""
    try:
        with as_wire_errors():
            raise error
    except BaseException as coded:
        return coded
