"""One run of a session: drives the loop, stores before it tells, decides calls, ends in one way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from .abort import AbortSignal
from .decisions import Decision, Deny, Override
from .errors import describe
from .events import (
    ErrorEvent,
    Event,
    LoopEvent,
    MessageEvent,
    StepEvent,
    StopReason,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    Usage,
)
from .execution import ApprovedCall
from .gating import Decider
from .inbox import Inbox
from .listeners import Listeners
from .loop import SKIPPED, LoopConfig, loop
from .messages import AssistantMessage, Message, ToolMessage, UserMessage, open_calls
from .store import SessionStore
from .tool import ToolOutput

log = logging.getLogger(__name__)

UNKNOWN_OUTCOME = "Outcome unknown: the session ended before a result was recorded"


@dataclass(slots=True)
class Conversation:
    """What the runs of a session share. `messages` is what the store holds, in its order (A-77)."""

    id: str
    store: SessionStore
    listeners: Listeners = field(default_factory=Listeners)
    inbox: Inbox = field(default_factory=Inbox)
    messages: list[Message] = field(default_factory=list[Message])
    usage: Usage = field(default_factory=Usage)
    text: str = ""


class Run:
    """From one user message to the turn's end, an error or an abort.

    `failure` is what the run failed with. A failure stops the run as an abort does, but ends in an
    `error` event; what happens after it is stored and told, and further errors are only logged. Once it
    is `over`, only its last event is still being told: messages that come now are the next run's.
    """

    def __init__(
        self,
        conversation: Conversation,
        decider: Decider,
        config: Callable[[Run], LoopConfig],
        first: UserMessage,
    ) -> None:
        self.signal = AbortSignal()
        self.failure: BaseException | None = None
        self.over = False
        self._conversation = conversation
        self._decider = decider
        self._config = config(self)
        self._first = first
        self._start = len(conversation.messages)
        self._undelivered: tuple[str, ...] = ()
        self._partial = ""
        self._said: str | None = None
        self._text = ""
        self._unrecorded: Exception | None = None
        self._results: dict[str, ToolMessage] = {}
        self._deciding: asyncio.Task[None] | None = None
        self.signal.on_abort(self._stop)

    # From the session

    def interrupt(self) -> None:
        """Withdraw the decision that is under way, if one is (A-78). Counts once per decision."""
        deciding, self._deciding = self._deciding, None
        if deciding is not None:
            deciding.cancel()

    async def drive(self) -> None:
        """Run to the end. Raises nothing: see `failure`."""
        try:
            await self._close_open_calls(UNKNOWN_OUTCOME)
            self._start = len(self._conversation.messages)
            await self._handle(MessageEvent(message=self._first))
            await self._follow(loop(self._conversation.messages, self._config, self.signal))
        except asyncio.CancelledError:
            self.signal.abort("cancelled")
        except Exception as error:
            self._fail(error)
        await self._close_open_calls(self.signal.call_text)
        self.over = True
        if self.failure is None:
            await self._emit(self._turn_end())
        if self.failure is not None:
            await self._emit(
                ErrorEvent(
                    error=self.failure,
                    partial_text=self._partial,
                    undelivered=(*self._undelivered, *self._conversation.inbox.clear()),
                )
            )

    async def settle(self, call: ApprovedCall, output: ToolOutput, seconds: float) -> None:
        """Tell the gate how a call ended; a gate that cannot take it is what the run fails with."""
        try:
            await self._decider.settle(call, output, seconds)
        except Exception as error:
            self._unrecorded = self._unrecorded or error
            raise

    # Events

    async def _follow(self, events: AsyncGenerator[LoopEvent, Decision]) -> None:
        async with aclosing(events):
            decision: Decision = None
            while True:
                try:
                    event = await events.asend(decision)
                except StopAsyncIteration:
                    return
                decision = None
                if isinstance(event, ToolCallEvent):
                    decision = await self._decide(event)
                else:
                    await self._handle(event)

    async def _handle(self, event: LoopEvent) -> None:
        """Store what the event says, then tell everybody (A-11)."""
        match event:
            case TextDelta():
                self._partial += event.delta
            case MessageEvent(message=AssistantMessage() as message):
                if self.failure is not None:
                    # What is left of a reply that failed is in the error event only.
                    return
                if not await self._store(message):
                    return
                self._said, self._partial = message.text, ""
            case MessageEvent(message=message):
                if not await self._store(message):
                    if isinstance(message, UserMessage):
                        self._undelivered += (message.text,)
                    return
            case ToolResultEvent():
                self._results[event.call_id] = event.message
                if not await self._store(event.message):
                    return
            case StepEvent():
                self._text, self._said, self._partial = self._said or "", None, ""
                self._conversation.usage += event.usage
            case _:
                pass
        await self._emit(event)

    async def _store(self, message: Message) -> bool:
        conversation = self._conversation
        try:
            await conversation.store.append(conversation.id, message)
        except Exception as error:
            self._fail(self._unrecorded or error)
            return False
        conversation.messages.append(message)
        return True

    async def _emit(self, event: Event) -> None:
        try:
            await self._conversation.listeners.emit(event)
        except Exception as error:
            self._fail(error)

    # Decisions

    async def _decide(self, event: ToolCallEvent) -> Decision:
        """The decision on one call; a steering message or an abort withdraws it (A-78, A-96)."""
        await self._emit(event)
        if self.signal.aborted or self._conversation.inbox.steering:
            return Deny(reason=self._why_interrupted())
        # A task that is cancelled in its very last step drops what it returns; this keeps it.
        returned: list[Decision] = []

        async def decide() -> None:
            returned.append(await self._decider.decide(event, self._why_interrupted))

        task = self._deciding = asyncio.ensure_future(decide())
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self.signal.abort("cancelled")
            await asyncio.wait({task})
        interrupted = self._deciding is not task
        self._deciding = None
        if task.cancelled():
            why = self._why_interrupted() if interrupted else "The decision was cancelled"
            for decision in returned:
                await self._take_back(event, decision, why)
            return Deny(reason=why)
        error = task.exception()
        if error is not None:
            self._fail(error)
            return Deny(reason=self.signal.call_text)
        [decision] = returned
        return decision

    async def _take_back(self, event: ToolCallEvent, decision: Decision, why: str) -> None:
        """Settle a call that the gate had allowed when its decision was withdrawn."""
        if isinstance(decision, Override):
            try:
                await self._decider.not_run(ApprovedCall(event.call_id, event.name, decision.args), why)
            except Exception as error:
                self._fail(error)

    def _why_interrupted(self) -> str:
        return self.signal.call_text if self.signal.aborted else SKIPPED

    # Ends

    def _stop(self) -> None:
        if not self.over:
            self._undelivered += self._conversation.inbox.clear()
        self.interrupt()

    def _fail(self, error: BaseException) -> None:
        """Fail with `error`, unless the run has failed before."""
        if self.failure is not None:
            log.error("After the run of session '%s' failed", self._conversation.id, exc_info=error)
            return
        self.failure = error
        self.signal.abort(describe(error), call_text=f"Tool call not executed: {describe(error)}")

    async def _close_open_calls(self, text: str) -> None:
        """Answer every call that has no result yet, so that the history stays valid (A-32)."""
        for call in open_calls(self._conversation.messages):
            message = self._results.get(call.call_id) or ToolMessage(
                call_id=call.call_id, name=call.name, text=text, is_error=True
            )
            if not await self._store(message):
                return
            await self._emit(
                ToolResultEvent(
                    call_id=message.call_id,
                    name=message.name,
                    result=message.text,
                    is_error=message.is_error,
                )
            )

    def _turn_end(self) -> TurnEnd:
        messages = tuple(self._conversation.messages[self._start :])
        text = self._text if self._said is None else self._said
        self._conversation.text = text
        stop_reason: StopReason = "completed"
        if self.signal.aborted:
            stop_reason = "aborted"
        elif messages and isinstance(messages[-1], ToolMessage):
            stop_reason = "max_steps"
        return TurnEnd(
            messages=messages,
            text=text,
            stop_reason=stop_reason,
            reason=self.signal.reason,
            undelivered=self._undelivered,
        )
