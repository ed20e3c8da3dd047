"""Pending calls of external agents.

A call that no client waits for any more is withdrawn after a while, so that no operator decides it in
vain.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from ...history.errors import JournalError
from ...history.model.fast_models import construct_model
from ...hub.hub import CallAnswer as Answered
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
        """Release everything of an ended session."""
        for waiters in session.waiting.values():
            self.held.let_go(session.owner, waiters)

    def stop(self, session: Open) -> None:
        """Prepare for the server's end: abandoned calls are not withdrawn."""
        for waiters in session.waiting.values():
            if waiters.leaving is not None:
                waiters.leaving.cancel()

    def at_once(
        self, session: Open, asked: CallTool, told: Callable[[CallAnswer | BaseException], None]
    ) -> bool:
        """As `judge`, for a new call that rules decide without an operator: only its record takes time.

        `told` is called with the answer, or with what `judge` would have raised. False for any other
        call, and then nothing has happened.
        """
        waiting = session.waiting
        if (
            asked.wait is not None
            or asked.call in waiting
            or len(waiting) >= self._limits.calls_per_session
        ):
            return False
        waiters = Waiters(footprint(asked.model_dump_json()), 1)
        self.held.check(session.owner, waiters.size)

        def answered(found: Answered | BaseException) -> None:
            session.used = self._clock()
            if waiting.get(asked.call) is waiters:
                self._stop_watching(session, asked.call)
            told(
                _coded(found)
                if isinstance(found, BaseException)
                else construct_model(CallAnswer, found.__dict__)
            )

        with as_wire_errors():
            if not self._hub.call_at_once(session.id, asked.call, asked.tool, asked.input, answered):
                return False
        session.used = self._clock()
        waiting[asked.call] = waiters
        self.held.hold(session.owner, waiters)
        return True

    async def judge(self, session: Open, asked: CallTool) -> CallAnswer:
        """Decide a call; waits for an operator where it needs approval."""
        session.used = self._clock()
        limit = self._limits.calls_per_session
        if asked.call not in session.waiting and len(session.waiting) >= limit:
            raise WireError(
                Code.LIMIT,
                f"session '{session.id}' has {limit} calls that wait for an answer, the most it may have",
                {"limit": limit},
            )
        size = 0 if asked.call in session.waiting else footprint(asked.model_dump_json())
        self.held.check(session.owner, size)
        longest = self._limits.wait if asked.wait is None else min(asked.wait, self._limits.wait)
        with as_wire_errors(), self._watching(session, asked.call, size):
            try:
                async with asyncio.timeout(longest):
                    answered = await self._hub.call(session.id, asked.call, asked.tool, asked.input)
            except TimeoutError:
                return CallAnswer(outcome="waiting", mode=(await self._hub.session(session.id)).mode)
            self._stop_watching(session, asked.call)
        return construct_model(CallAnswer, answered.__dict__)

    @contextmanager
    def _watching(self, session: Open, call_id: str, size: int) -> Generator[None, None, None]:
        """Count a client as waiting; without any, the call is withdrawn later, unless it was refused."""
        waited_before = call_id in session.waiting
        if not waited_before:
            session.waiting[call_id] = Waiters(size)
            self.held.hold(session.owner, session.waiting[call_id])
        waiters = session.waiting[call_id]
        waiters.count += 1
        if waiters.leaving is not None:
            waiters.leaving.cancel()
            waiters.leaving = None
        refused = False
        try:
            yield
        except Exception:
            refused = not waited_before
            raise
        finally:
            waiters.count -= 1
            session.used = self._clock()
            if not waiters.count and session.waiting.get(call_id) is waiters:
                if refused:
                    self.held.let_go(session.owner, session.waiting.pop(call_id))
                else:
                    loop = asyncio.get_running_loop()
                    waiters.leaving = loop.call_later(
                        self._limits.absent, self._take_back, session, call_id, waiters
                    )

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
            task = asyncio.get_running_loop().create_task(self._withdraw_left(session.id, call_id))
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
