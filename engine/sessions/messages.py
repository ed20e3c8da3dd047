"""Messages of operators to a hosted session, recorded before their sender gets an answer (A-63).

A message to a session at rest begins a run, which stores it. One to a session that works is recorded as
waiting, and in the same moment waits; so the record has exactly the messages that wait, also when the
session is resumed after its host has died.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from ..agents import AgentError, SendMode, SessionClosedError, UserMessage
from ..history.errors import JournalError
from ..history.model.events import EventBody, MessageAdded, MessageQueued, MessageWithdrawn, SessionStatus
from ..recording.ledger import EventRecorder

if TYPE_CHECKING:
    from ..agents import Session


def stopped(reason: str = "") -> str:
    """Reason given with messages that are handed back because the agent was stopped."""
    return f"the agent was stopped: {reason}" if reason else "the agent was stopped"


def stopped_by(by: str | None, reason: str) -> str:
    """Reason for which an agent is stopped: first the name of who does it, then `reason`."""
    return ": ".join(part for part in (by and f"stopped by {by}", reason) if part)


class MessageReceiver(EventRecorder, Protocol):
    """Part of `HostedSession` that messages need."""

    session: Session | None


class OperatorMessages:
    """Messages sent to one session, until each is stored or withdrawn.

    A message is recognised by its identity: agents pass on the very object that was sent.
    """

    _ending: frozenset[str] = frozenset()

    def __init__(self, hosted: MessageReceiver) -> None:
        self._hosted = hosted
        self._one_at_a_time = asyncio.Lock()
        self._waiting: dict[str, UserMessage] = {}
        self._expected: list[tuple[UserMessage, asyncio.Future[None]]] = []

    async def send(self, text: str, *, by: str | None, mode: SendMode) -> None:
        """Send a message; when this returns the record has it.

        Raises `JournalError` when it could not be recorded, `AgentError` when no run took it up,
        `SessionClosedError`, `ValueError` for an unknown mode, and what the session's `spawn` raises:
        then the agent did not get it.
        """
        session = self._hosted.session
        assert session is not None, "nobody can speak to a session before it is live"
        message = UserMessage(text=text, by=by)
        # The text as the message has it: what cannot be stored is replaced there.
        queued = MessageQueued(message_id=uuid4().hex[:12], mode=mode, text=message.text, by=by)
        async with self._one_at_a_time:
            if session.closed:
                raise SessionClosedError(f"Session '{session.id}' is closed")
            if session.status == "idle":
                await self._hosted.record(SessionStatus(status="running"))
            if session.status != "idle":
                await self._queue(session, message, queued)
                return
            session.send(message, mode=mode)
            stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._expected.append((message, stored))
        await self._until_stored(session, stored)

    async def _queue(self, session: Session, message: UserMessage, queued: MessageQueued) -> None:
        """Let a message wait, in the record and in the session at once."""
        refused: list[Exception] = []

        def deliver(durable: bool) -> None:
            if not durable:
                return
            self._waiting[queued.message_id] = message
            try:
                session.send(message, mode=queued.mode)
            except Exception as error:
                refused.append(error)

        await self._hosted.record(queued, on_written=deliver)
        if refused:
            await self.withdraw("it could not be delivered")
            raise refused[0]

    async def _until_stored(self, session: Session, stored: asyncio.Future[None]) -> None:
        """Return once the run that a message began has stored it. Raises when it ends without that."""
        resting = asyncio.ensure_future(session.wait_for_idle())
        try:
            await asyncio.wait({stored, resting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._expected = [each for each in self._expected if each[1] is not stored]
            resting.cancel()
        failure = resting.exception() if resting.done() and not resting.cancelled() else None
        if stored.done():
            return
        if isinstance(failure, JournalError):
            raise JournalError(f"Not said, the journal refused it: {failure}") from failure
        raise AgentError(
            f"Session '{session.id}' was stopped before it took up what was said"
        ) from failure

    # From the session

    async def store(self, message: UserMessage, body: MessageAdded) -> None:
        """Record a message that joins the conversation, and that it waits no more if it did."""
        ids = [i for i in self._unended() if self._waiting.get(i) is message][:1]

        def stored_now(durable: bool) -> None:
            for expected, stored in self._expected if durable else ():
                if expected is message and not stored.done():
                    stored.set_result(None)

        body = body.model_copy(update={"message_id": ids[0] if ids else None})
        await self._end(ids, body, on_written=stored_now)

    async def withdraw(self, reason: str, *events: EventBody) -> None:
        """Record as withdrawn what waited and was handed back, together with other events."""
        session = self._hosted.session
        # Of a session that never came to life nothing was handed back: it waits for the next that does.
        waiting = [] if session is None else self._unended()
        live = () if session is None else session.waiting_messages
        ids = [i for i in waiting if not any(self._waiting.get(i) is message for message in live)]
        withdrawn = (MessageWithdrawn(message_id=i, reason=reason) for i in ids)
        await self._end(ids, *withdrawn, *events)

    def restored(self) -> list[tuple[UserMessage, SendMode]]:
        """Messages that waited when the record ended, which wait again."""
        found: list[tuple[UserMessage, SendMode]] = []
        for waits in self._hosted.state.queued:
            message = self._waiting[waits.id] = UserMessage(text=waits.text, by=waits.by)
            found.append((message, waits.mode))
        return found

    def _unended(self) -> list[str]:
        """Ids of messages that wait in the record and whose end is not being recorded just now."""
        return [waits.id for waits in self._hosted.state.queued if waits.id not in self._ending]

    async def _end(
        self, ids: list[str], *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> None:
        """Record `bodies`, by which the messages of `ids` wait no more."""
        if not bodies:
            return
        self._ending = self._ending.union(ids)

        def note(durable: bool) -> None:
            self._ending = self._ending.difference(ids)
            for message_id in ids if durable else ():
                self._waiting.pop(message_id, None)
            if on_written is not None:
                on_written(durable)

        try:
            await self._hosted.record(*bodies, on_written=note)
        except JournalError:
            self._ending = self._ending.difference(ids)
            raise
