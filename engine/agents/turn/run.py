"""One run of a session: drives the loop, stores before it reports, decides calls, ends in one way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from ..decisions import ApprovedCall, Deny, ResumedCall
from ..errors import describe
from ..events import (
    ErrorEvent,
    Event,
    LoopEvent,
    MessageEvent,
    StatusEvent,
    StepEvent,
    StepStart,
    StopReason,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
)
from ..gating import Decider, ManagerGate
from ..messages import (
    UNKNOWN_OUTCOME,
    AssistantMessage,
    Message,
    ProposedCall,
    RulesChange,
    ToolMessage,
    UserMessage,
    open_calls,
)
from ..models.base import ModelRequest
from ..rules_notice import current_rules, first_rules, rules_change
from ..session.config import SessionConfig
from ..session.conversation import Conversation
from ..tool import Tool, ToolOutput
from .abort import AbortSignal, unless_aborted
from .loop import SKIPPED, CallDecision, loop, model_request
from .loop_config import LoopConfig
from .resume_step import resume_calls

log = logging.getLogger(__name__)


class Run:
    """One run: from a user message, or the conversation as it is, to the turn's end or an error.

    `failure` is the error with which the run failed. A failure stops the run like an abort, but ends it
    with an `error` event; later events are still stored and reported, and further errors are only logged.
    Once `is_over` is true, only the last event is still being reported: messages that arrive now belong
    to the next run. `unstored_message` is the user's message that has left the queue but is not stored
    yet.

    Calls that an earlier run left open are answered with an unknown outcome. With `decide_open`, which
    states that none of them was ever decided, they are first decided and run. With `resumed_calls`, which
    states how each of them resumes or has ended, they are first completed accordingly.
    """

    def __init__(
        self,
        conversation: Conversation,
        decider: Decider,
        config: SessionConfig,
        first: UserMessage | None,
        decide_open: bool = False,
        resumed_calls: Sequence[ResumedCall] = (),
    ) -> None:
        self.signal = AbortSignal()
        self.failure: BaseException | None = None
        self.is_over = False
        self._conversation = conversation
        self._decider = decider
        self._hooks = config.hooks
        self._gate = config.gate
        self.config = self._loop_config(config)
        self._first = first
        self.unstored_message = first
        self._decide_open = decide_open
        self._resumed_calls = resumed_calls
        self._start = len(conversation.messages)
        self._steps = 0
        self._undelivered: tuple[str, ...] = ()
        self._streamed_text = ""
        self._reply_text: str | None = None
        self._turn_text = ""
        self._has_calls = False
        self._settle_error: Exception | None = None
        self._store_failed = False
        self._results: dict[str, ToolMessage] = {}
        self._decision_task: asyncio.Task[None] | None = None
        self.signal.on_abort(self.stop)

    def _loop_config(self, config: SessionConfig) -> LoopConfig:
        return LoopConfig(
            model=config.model,
            runtime=config.runtime,
            tools=config.tools,
            system_prompt=config.system_prompt,
            max_steps=config.max_steps,
            follow_up=config.follow_up,
            inbox=self._conversation.inbox,
            settle=None if config.gate is None else self.settle,
            before_start=None if config.gate is None else self._decider.before_start,
            after_call=config.hooks.after_tool_call if config.hooks else None,
            rules=self._conversation.rules or (),
            rules_changed=self.rules_changed if config.tell_rules else None,
            before_model=self.before_model,
            before_stop=self.before_stop if config.hooks else None,
            session_id=self._conversation.id,
            subagents=config.subagents,
            spending=config.spending,
        )

    # Called by the session

    def interrupt(self) -> None:
        """Withdraw the current decision, if there is one (A-78). Applies once per decision."""
        task, self._decision_task = self._decision_task, None
        if task is not None:
            task.cancel()

    def drop_unstored(self) -> tuple[str, ...]:
        """Give up the message that is not stored yet, because this run was cancelled; return its text."""
        message, self.unstored_message = self.unstored_message, None
        return () if message is None else (message.text,)

    async def drive(self) -> None:
        """Run to the end. Raises nothing: see `failure`."""
        has_inherited_calls = not self._decide_open
        undecided_calls: list[ProposedCall] = []
        try:
            if self._conversation.reported_status == "idle":
                self._conversation.reported_status = "busy"
                await self._emit(StatusEvent(status="busy"))
            await self._emit(TurnStart())
            if self._decide_open:
                undecided_calls = open_calls(self._conversation.messages)
                self.config.offered = await self._offered_before() if undecided_calls else {}
            else:
                if not self._resumed_calls:
                    await self._close_open_calls(UNKNOWN_OUTCOME)
                has_inherited_calls = bool(open_calls(self._conversation.messages))
            self._start = len(self._conversation.messages)
            if self._resumed_calls:
                history = tuple(self._conversation.messages)
                await self._follow(resume_calls(self._resumed_calls, self.config, self.signal, history))
            if self._first is not None:
                await self._handle(MessageEvent(message=self._first))
            events = loop(
                self._conversation.messages, self.config, self.signal, undecided=undecided_calls
            )
            await self._follow(events)
        except asyncio.CancelledError:
            self.signal.abort("cancelled")
        except Exception as error:
            self._fail(error)
        self._hand_back_unstored()
        # The outcome of calls that an earlier run left open is unknown.
        await self._close_open_calls(UNKNOWN_OUTCOME if has_inherited_calls else self.signal.call_text)
        self.is_over = True
        if self.failure is None:
            await self._emit(self._turn_end())
        has_failed = await self._report_failure()
        await self.report_idle()
        if not has_failed:
            await self._report_failure()

    async def settle(self, call: ApprovedCall, output: ToolOutput, seconds: float) -> str | None:
        """Report a call's result to the gate; if the gate cannot accept it, the run fails."""
        try:
            return await self._decider.settle(call, output, seconds)
        except Exception as error:
            self._settle_error = self._settle_error or error
            raise

    def rules_changed(self, history: Sequence[Message]) -> RulesChange | None:
        """Change of the gate's rules that the model has not been shown yet (G-73)."""
        now = current_rules(self._gate)
        if now is None:
            return None
        first = self._conversation.rules
        if first is None:
            first = self._conversation.rules = first_rules(now, history)
        self.config.rules = first
        return rules_change(first, history, now)

    async def before_model(self, request: ModelRequest) -> ModelRequest:
        """Report the start of a model call, and let hooks change its request."""
        self._steps += 1
        await self._emit(StepStart(number=self._steps))
        if self.signal.aborted or not self._hooks:
            return request
        try:
            return await unless_aborted(self.signal, self._hooks.before_model_call(request)) or request
        except Exception as error:
            self._fail(error)
            return request

    async def _offered_before(self) -> Mapping[str, Tool]:
        """The tools of the step that was left open, without those that hooks removed from its call."""
        messages, tools = self._conversation.messages, self.config.tools
        if not self._hooks:
            return tools
        reply_at = max(n for n, message in enumerate(messages) if isinstance(message, AssistantMessage))
        reply = messages[reply_at]
        change = reply.rules if isinstance(reply, AssistantMessage) else None
        request = model_request(self.config, messages[:reply_at], change)
        hooked_request = await unless_aborted(self.signal, self._hooks.before_model_call(request))
        return {spec.name: tools[spec.name] for spec in (hooked_request or request).tools}

    async def before_stop(self, text: str) -> str | None:
        """Text from hooks with which the run continues; `None` if there is none."""
        try:
            return await unless_aborted(self.signal, self._hooks.before_stop(text))
        except Exception as error:
            self._fail(error)
            return None

    # Events

    async def _follow(self, events: AsyncGenerator[LoopEvent, CallDecision]) -> None:
        async with aclosing(events):
            decision: CallDecision = None
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
        """Store an event's message, then report the event (A-11)."""
        match event:
            case TextDelta():
                self._streamed_text += event.delta
            case MessageEvent(message=AssistantMessage() as message):
                if self.failure is not None:
                    # The text of a failed reply is only in the error event.
                    return
                if not await self._store(message):
                    return
                self._reply_text, self._streamed_text = message.text, ""
                self._has_calls = bool(message.tool_calls)
            case MessageEvent(message=UserMessage() as message):
                self.unstored_message = message
                # After a failed append nothing is stored: no message may come between calls and their
                # results.
                if self._store_failed or not await self._store(message):
                    self._hand_back_unstored()
                    return
                self.unstored_message = None
                if isinstance(self._gate, ManagerGate):
                    self._gate.hear(message.text)
            case ToolResultEvent():
                if event.ran is not None and self._decider.keeps_record:
                    event = event.model_copy(update={"ran": None})
                self._results[event.call_id] = event.message
                # After a failed append, later messages must not be stored ahead of the missing one.
                if self._store_failed or not await self._store(event.message):
                    return
            case StepEvent():
                if self._reply_text is None:
                    self._has_calls = False
                self._turn_text, self._reply_text, self._streamed_text = self._reply_text or "", None, ""
                self._conversation.usage += event.usage
                self._conversation.prompt_tokens = event.usage.input
            case _:
                pass
        await self._emit(event)

    async def _store(self, message: Message) -> bool:
        conversation = self._conversation
        try:
            await conversation.store.append(conversation.id, message)
        except Exception as error:
            self._store_failed = True
            self._fail(self._settle_error or error)
            return False
        conversation.messages.append(message)
        return True

    async def _emit(self, event: Event) -> None:
        try:
            await self._conversation.listeners.emit(event)
        except Exception as error:
            self._fail(error)

    # Decisions

    async def _decide(self, event: ToolCallEvent) -> ApprovedCall | Deny:
        """Decide one call; a steering message or an abort withdraws the decision (A-78, A-96)."""
        await self._emit(event)
        if self.signal.aborted or self._conversation.inbox.steering:
            return Deny(reason=self._why_interrupted())
        # A task that is cancelled in its last step loses its return value, so it is stored here.
        decisions: list[ApprovedCall | Deny] = []

        async def decide() -> None:
            tool = self.config.offered[event.name]
            decisions.append(await self._decider.decide(event, tool, self._why_interrupted))

        task = self._decision_task = asyncio.ensure_future(decide())
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self.signal.abort("cancelled")
            await asyncio.wait({task})
        was_interrupted = self._decision_task is not task
        self._decision_task = None
        if task.cancelled():
            why = self._why_interrupted() if was_interrupted else "The decision was cancelled"
            for decision in decisions:
                if isinstance(decision, ApprovedCall):
                    await self._not_run(decision, why)
            return Deny(reason=why)
        error = task.exception()
        if error is not None:
            self._fail(error)
            return Deny(reason=self.signal.call_text)
        [decision] = decisions
        return decision

    async def _not_run(self, call: ApprovedCall, reason: str) -> None:
        """Settle a call that the gate had allowed, but whose decision was withdrawn."""
        try:
            await self._decider.not_run(call, reason)
        except Exception as error:
            self._fail(error)

    def _why_interrupted(self) -> str:
        return self.signal.call_text if self.signal.aborted else SKIPPED

    # End of the run

    def stop(self) -> None:
        """Return waiting messages, and end the current work."""
        if not self.is_over:
            self._undelivered += self._conversation.hand_back_messages()
        self.interrupt()

    def _hand_back_unstored(self) -> None:
        texts = self.drop_unstored()
        self._undelivered += texts
        self._conversation.undelivered.extend(texts)

    async def _report_failure(self) -> bool:
        """Report the run's failure, if there is one; return whether there was."""
        if self.failure is None:
            return False
        self._undelivered += self._conversation.hand_back_messages()
        await self._emit(
            ErrorEvent(
                error=self.failure, partial_text=self._streamed_text, undelivered=self._undelivered
            )
        )
        return True

    async def report_idle(self) -> None:
        """See `Conversation.report_idle`."""
        await self._conversation.report_idle(self._emit)

    def _fail(self, error: BaseException) -> None:
        """Fail with `error`, unless the run has already failed."""
        if self.failure is not None:
            log.error("After the run of session '%s' failed", self._conversation.id, exc_info=error)
            return
        self.failure = error
        self.signal.abort(describe(error), call_text=f"Tool call not executed: {describe(error)}")

    async def _close_open_calls(self, text: str) -> None:
        """Answer every call without a result, so that the history stays valid (A-32)."""
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
        text = self._turn_text if self._reply_text is None else self._reply_text
        self._conversation.text = text
        stop_reason: StopReason = "completed"
        if self.signal.aborted:
            stop_reason = "aborted"
        elif self._has_calls or self._conversation.inbox:
            # A reply without calls ends a run only if no message waits, unless its steps are used up.
            stop_reason = "max_steps"
        return TurnEnd(
            messages=messages,
            text=text,
            stop_reason=stop_reason,
            reason=self.signal.reason,
            undelivered=self._undelivered,
        )
