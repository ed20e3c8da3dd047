"""The calls of agents elsewhere that wait for an answer.

A call that nobody waits for any more is taken back after a while, so that no operator decides about it
for nothing.
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
from ..protocol.errors import told_in_codes
from ..protocol.framing import Code, WireError
from .limits import Limits, footprint

# Calls that wait for an answer: for whom each does, and how much of one token's is kept.


Listener: TypeAlias = Callable[[SessionEnded], object]


@dataclass(slots=True)
class Waiters:
    """Who waits for one call of `size` bytes; when nobody does, it is taken back after a while."""

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
    """The bytes of the inputs that wait, by whose they are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes: Counter[str] = Counter()

    def check(self, owner: str, size: int) -> None:
        """Raises `WireError` where a call of this size is too much."""
        held = self._bytes[owner]
        if held + size > self._most:
            raise WireError(
                Code.LIMIT,
                f"this token's calls that wait for an answer are {held} bytes, and with this one they "
                f"would be more than {self._most}, the most they may be; wait for some of them",
                {"limit": self._most},
            )

    def hold(self, owner: str, waiters: Waiters) -> None:
        """A call is kept."""
        self._bytes[owner] += waiters.size

    def let_go(self, owner: str, waiters: Waiters) -> None:
        """Nothing is kept for a call any more."""
        self._bytes[owner] -= waiters.size
        waiters.size = 0
        if not self._bytes[owner]:
            del self._bytes[owner]


log = logging.getLogger(__name__)


class OpenCalls:
    """The open calls of all sessions of a server; `held` is how much of them is kept."""

    def __init__(self, hub: Hub, limits: Limits, clock: Callable[[], float]) -> None:
        self.held = WaitingQuota(limits.waiting_bytes)
        self._hub = hub
        self._limits = limits
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def let_go(self, session: Open) -> None:
        """A session is over: nothing of it is kept."""
        for waiters in session.waiting.values():
            self.held.let_go(session.owner, waiters)

    def stop(self, session: Open) -> None:
        """The server ends: what was left is not taken back."""
        for waiters in session.waiting.values():
            if waiters.leaving is not None:
                waiters.leaving.cancel()

    def at_once(
        self, session: Open, asked: CallTool, told: Callable[[CallAnswer | BaseException], None]
    ) -> bool:
        """As `judge` does, a new call that the nets decide without a person: only its record takes time.

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

        with told_in_codes():
            if not self._hub.call_at_once(session.id, asked.call, asked.tool, asked.input, answered):
                return False
        session.used = self._clock()
        waiting[asked.call] = waiters
        self.held.hold(session.owner, waiters)
        return True

    async def judge(self, session: Open, asked: CallTool) -> CallAnswer:
        """Have a call judged; waits for a person where the nets want one."""
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
        with told_in_codes(), self._watching(session, asked.call, size):
            try:
                async with asyncio.timeout(longest):
                    answered = await self._hub.call(session.id, asked.call, asked.tool, asked.input)
            except TimeoutError:
                return CallAnswer(outcome="waiting", mode=(await self._hub.session(session.id)).mode)
            self._stop_watching(session, asked.call)
        return construct_model(CallAnswer, answered.__dict__)

    @contextmanager
    def _watching(self, session: Open, call_id: str, size: int) -> Generator[None, None, None]:
        """Somebody waits for a call. Once nobody does it is left, unless it was refused at once."""
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
        """A call has its answer: nothing is open any more."""
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
    """What the hub raised, as it goes over the wire where that is known."""
    try:
        with told_in_codes():
            raise error
    except BaseException as coded:
        return coded
