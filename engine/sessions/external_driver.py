"""Messages of operators to an external agent that was started from here, through its driver.

One turn runs at a time. A message is recorded before its sender gets an answer. A message sent while the
agent works waits, in the record. Steering such an agent interrupts its turn, because it reads messages
only between turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol
from uuid import uuid4

from ..agents import AgentError, SendMode
from ..agents.messages import clean_text
from ..history.errors import JournalError
from ..history.model.events import EventBody, MessageAdded, MessageQueued, MessageWithdrawn, SessionStatus
from ..history.model.state import QueuedState
from ..recording.ledger import EventRecorder, note_refusal
from .messages import stopped

log = logging.getLogger(__name__)


class Driver(Protocol):
    """The program with the agent's loop, while the session is live."""

    takes_edits: bool
    """True if its agent can run a call with an edited input."""

    async def turn(self, messages: Sequence[str]) -> str | None:
        """Send messages to the agent; return when it is idle, with the reason if it stopped early.

        Raises `AgentError`, or any other exception, if the turn failed.
        """
        ...

    def interrupt(self) -> None:
        """End the current turn, if there is one; never waits and never fails."""
        ...

    async def wait_for_exit(self) -> str:
        """Return how the program ended, when it has ended by itself; none of its calls waits then."""
        ...

    async def close(self) -> None:
        """End the program."""
        ...


class MessageHost(EventRecorder, Protocol):
    """The session that gets the messages; see `ExternalSession`."""

    def fail(self, error: JournalError) -> None:
        """Show an error of recording."""
        ...


class Prompts:
    """Operators' messages of one session, sent to its driver turn by turn."""

    def __init__(self, host: MessageHost, driver: Driver) -> None:
        self._host = host
        self._driver = driver
        self._one_at_a_time = asyncio.Lock()
        self._turns: asyncio.Task[None] | None = None
        self._over: str | None = None
        self._closing = False
        loop = asyncio.get_running_loop()
        self._watch = loop.create_task(self._see_it_end(), name=f"watch {host.id}")

    @property
    def takes_edits(self) -> bool:
        return self._driver.takes_edits

    async def send(self, text: str, *, by: str | None, mode: SendMode) -> None:
        """Send a message; it is recorded when this returns.

        Raises `JournalError` if it could not be recorded, and `AgentError` if the agent has ended.
        """
        text = str(clean_text(text))
        async with self._one_at_a_time:
            if self._over is not None:
                raise AgentError(f"Session '{self._host.id}' cannot receive messages: {self._over}")
            if self._turns is None:
                message = MessageAdded(role="user", text=text, by=by)
                await self._host.record(SessionStatus(status="running"), message)
                work = self._take_turns([text])
                self._turns = asyncio.get_running_loop().create_task(work, name=f"turns {self._host.id}")
                return
            await self._host.record(
                MessageQueued(message_id=uuid4().hex[:12], mode=mode, text=text, by=by)
            )
            if mode == "steer":
                self._driver.interrupt()

    async def abort(self, reason: str) -> None:
        """End the current turn and withdraw waiting messages. Raises `JournalError`."""
        if self._turns is not None:
            self._driver.interrupt()
        async with self._one_at_a_time:
            await self._hand_back(stopped(reason))

    async def wait(self) -> None:
        """Return when the agent is idle."""
        while (turns := self._turns) is not None:
            await asyncio.wait([turns])

    async def close(self, reason: str) -> None:
        """End the agent's program; no more messages are sent to it."""
        self._over, self._closing, turns = reason, True, self._turns
        try:
            await self._driver.close()
        finally:
            for task in (self._watch, turns):
                if task is not None:
                    task.cancel()
                    await asyncio.wait([task])
            self._turns = None
        async with self._one_at_a_time:
            with suppress(JournalError):  # its end cannot be recorded either, which is logged
                await self._hand_back(reason)

    async def _hand_back(self, reason: str) -> None:
        if withdrawn := self._withdrawn(reason):
            await self._host.record(*withdrawn)

    # Turns

    async def _take_turns(self, messages: Sequence[str]) -> None:
        try:
            while messages:
                failed, problem = False, None
                try:
                    problem = await self._driver.turn(messages)
                except Exception as error:
                    failed, problem = True, str(error) or type(error).__name__
                if self._closing:
                    return
                async with self._one_at_a_time:
                    messages = await self._next(problem, failed=failed)
        except JournalError as error:
            note_refusal(log, "The end of a turn of session '%s' is not in its record", self._host.id)
            self._host.fail(error)
        finally:
            if self._turns is asyncio.current_task():
                self._turns = None

    async def _next(self, problem: str | None, *, failed: bool) -> list[str]:
        """Record how a turn ended, and the messages of the next one; return these."""
        if self._over is not None and not failed:
            failed, problem = True, self._over
        following: Sequence[QueuedState] = [] if failed else _first(self._host.state.queued)
        bodies: list[EventBody] = []
        if failed:
            bodies += self._withdrawn("the agent failed")
            bodies.append(SessionStatus(status="failed", error=problem))
        elif not following:
            bodies.append(SessionStatus(status="idle", error=problem))
        elif problem is not None:
            bodies.append(SessionStatus(status="running", error=problem))
        bodies += (
            MessageAdded(role="user", text=each.text, by=each.by, message_id=each.id)
            for each in following
        )
        await self._host.record(*bodies)
        if not following:
            self._turns = None
        return [each.text for each in following]

    def _withdrawn(self, reason: str) -> list[EventBody]:
        return [MessageWithdrawn(message_id=each.id, reason=reason) for each in self._host.state.queued]

    async def _see_it_end(self) -> None:
        reason = await self._driver.wait_for_exit()
        async with self._one_at_a_time:
            if self._over is not None:
                return
            self._over = reason
            if self._turns is None:
                try:
                    await self._host.record(SessionStatus(status="failed", error=reason))
                except JournalError as error:
                    self._host.fail(error)


def _first(waiting: Sequence[QueuedState]) -> Sequence[QueuedState]:
    """Return the messages of the next turn: all steering ones, else the one that has waited longest."""
    return [each for each in waiting if each.mode == "steer"] or waiting[:1]
