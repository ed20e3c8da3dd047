"""Messages of operators to a hosted session, recorded before their sender gets an answer (A-63).

A message to an idle session begins a run, which stores it. One to a working session is recorded as
waiting and queued at the same moment. So the record always has exactly the messages that wait, also when
the session is resumed after its host has died.
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
    """Return the reason given with messages that are withdrawn because the agent was stopped."""
    return f"the agent was stopped: {reason}" if reason else "the agent was stopped"


def stopped_by(by: str | None, reason: str) -> str:
    """Return the reason for stopping an agent: first the operator's name, then `reason`."""
    return ": ".join(part for part in (by and f"stopped by {by}", reason) if part)


class MessageReceiver(EventRecorder, Protocol):
    """Part of `HostedSession` that messages need."""

    session: Session | None


class OperatorMessages:
    """Messages sent to one session, until each is stored or withdrawn.

    A message is recognised by object identity: agents pass on the very object that was sent.
    """

    _ending: frozenset[str] = frozenset()

    def __init__(self, hosted: MessageReceiver) -> None:
        self._hosted = hosted
        self._one_at_a_time = asyncio.Lock()
        self._waiting: dict[str, UserMessage] = {}
        self._expected: list[tuple[UserMessage, asyncio.Future[None]]] = []

    async def send(self, text: str, *, by: str | None, mode: SendMode) -> None:
        """Send a message; it is recorded when this returns.

        Raises `JournalError` if it could not be recorded, `AgentError` if no run took it up,
        `SessionClosedError`, `ValueError` for an unknown mode, and the errors of the session's `spawn`.
        The agent did not get the message then.
        """
        session = self._hosted.session
        assert session is not None, "nobody can speak to a session before it is live"
        message = UserMessage(text=text, by=by)
        # The text as in the message, where characters that cannot be stored are replaced.
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
        """Queue a message in the record and in the session at once."""
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
        """Return once the run that a message began has stored it. Raises if the run ends without that."""
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
            raise JournalError(f"Not sent, the journal refused it: {failure}") from failure
        raise AgentError(f"Session '{session.id}' was stopped before it took up the message") from failure

    # Calls from the session

    async def store(self, message: UserMessage, body: MessageAdded) -> None:
        """Record a message that joins the conversation, and that it no longer waits if it was queued."""
        ids = [i for i in self._unended() if self._waiting.get(i) is message][:1]

        def stored_now(durable: bool) -> None:
            for expected, stored in self._expected if durable else ():
                if expected is message and not stored.done():
                    stored.set_result(None)

        body = body.model_copy(update={"message_id": ids[0] if ids else None})
        await self._end(ids, body, on_written=stored_now)

    async def withdraw(self, reason: str, *events: EventBody) -> None:
        """Record the waiting messages that were handed back as withdrawn, together with other events."""
        session = self._hosted.session
        # A session that never became live handed nothing back: its messages wait for the next resumption.
        waiting = [] if session is None else self._unended()
        live = () if session is None else session.waiting_messages
        ids = [i for i in waiting if not any(self._waiting.get(i) is message for message in live)]
        withdrawn = (MessageWithdrawn(message_id=i, reason=reason) for i in ids)
        await self._end(ids, *withdrawn, *events)

    def restored(self) -> list[tuple[UserMessage, SendMode]]:
        """Return the messages that waited when the record ended, which wait again."""
        found: list[tuple[UserMessage, SendMode]] = []
        for queued in self._hosted.state.queued:
            message = self._waiting[queued.id] = UserMessage(text=queued.text, by=queued.by)
            found.append((message, queued.mode))
        return found

    def _unended(self) -> list[str]:
        """Return ids of messages that wait in the record and whose end is not being recorded now."""
        return [queued.id for queued in self._hosted.state.queued if queued.id not in self._ending]

    async def _end(
        self, ids: list[str], *bodies: EventBody, on_written: Callable[[bool], None] | None = None
    ) -> None:
        """Record `bodies`, which end the waiting of the messages with `ids`."""
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
