"""Compaction of a session: the model summarizes, the summary is stored, then reported."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from contextlib import aclosing

from ..errors import CompactionError, ModelError, describe
from ..events import (
    CompactedEvent,
    CompactionFailed,
    CompactionStart,
    Event,
    StatusEvent,
    StepEvent,
    StepStart,
)
from ..messages import SummaryMessage, UserMessage, open_calls
from ..models.base import Finish, TextChunk
from ..turn.abort import AbortSignal, stream_chunks, unless_aborted
from ..turn.compaction import Plan, plan, summary_request
from .config import SessionConfig
from .conversation import Conversation

log = logging.getLogger(__name__)

_UNUSABLE = {
    "length": "it was cut off at the model's limit of tokens",
    "content-filter": "the provider's content filter stopped it",
    "error": "the provider reports an error",
}


AUTOMATIC_SENDER = "interlock"
"""Name under which an automatic compaction is recorded."""


def plan_compaction(conversation: Conversation, keep_last: int) -> Plan | None:
    """See `plan`. Raises `CompactionError` while a call is open: its result would follow the summary."""
    if unanswered_calls := open_calls(conversation.messages):
        calls = ", ".join(f"{call.name} (call {call.call_id})" for call in unanswered_calls)
        raise CompactionError(
            f"Session '{conversation.id}' was not compacted: no result yet of {calls}; "
            "send a message or continue it first"
        )
    return plan(conversation.messages, keep_last)


class Compaction:
    """One compaction of a session, handled like a run: the session is busy during it.

    Its request passes the `before_model_call` hooks and counts like any other model call. Nothing changes
    until the summary is stored. `failure` is always `None`: an error is raised by `outcome` for the
    caller who requested the compaction, or else reported by an event, and the session continues.
    """

    unstored_message: UserMessage | None = None
    failure: BaseException | None = None

    def __init__(
        self,
        conversation: Conversation,
        config: SessionConfig,
        plan: Plan,
        instructions: str | None,
        by: str | None,
        *,
        automatic: bool = False,
    ) -> None:
        self.signal = AbortSignal()
        self.is_over = False
        self._conversation = conversation
        self._config = config
        self._plan = plan
        self._instructions = instructions
        self._by = by
        self._automatic = automatic
        self._summary: SummaryMessage | None = None
        self._error: BaseException | None = None
        self._undelivered: tuple[str, ...] = ()
        self.signal.on_abort(self.stop)

    def outcome(self) -> SummaryMessage:
        """Return the summary. Raises `CompactionError`, or a listener's error after it was stored."""
        if self._summary is None:
            raise CompactionError(self._failure_reason()) from self._error
        if self._error is not None:
            raise self._error
        return self._summary

    def _failure_reason(self) -> str:
        stop_text = f"it was stopped ({self.signal.reason})" if self.signal.reason else "it was stopped"
        why = stop_text if self._error is None else describe(self._error)
        return f"Session '{self._conversation.id}' was not compacted: {why}"

    def interrupt(self) -> None:
        """Do nothing: there is no decision to withdraw, and a steering message waits for the end."""

    def drop_unstored(self) -> tuple[str, ...]:
        """Return nothing: all messages sent during the compaction wait in the queue."""
        return ()

    async def drive(self) -> None:
        """Summarize, store and report. Raises nothing: see `outcome`."""
        conversation = self._conversation
        try:
            if conversation.reported_status == "idle":
                conversation.reported_status = "busy"
                await conversation.listeners.emit(StatusEvent(status="busy"))
            await conversation.listeners.emit(CompactionStart())
            if (summary := await self._summarize()) is not None:
                await conversation.store.append(conversation.id, summary)
                conversation.messages.append(summary)
                conversation.prompt_tokens = 0
                self._summary = summary
        except CancelledError:
            self.signal.abort("cancelled")
        except Exception as error:
            self._error = error
        self.is_over = True
        if self._summary is not None:
            await self._tell(CompactedEvent(message=self._summary))
        elif self._automatic and not self.signal.aborted:
            await self._tell(CompactionFailed(reason=self._failure_reason()))
        await self.report_idle()
        if self._automatic and self._error is not None:
            log.warning(
                "Automatic compaction of session '%s' failed", conversation.id, exc_info=self._error
            )

    async def report_idle(self) -> None:
        """See `Conversation.report_idle`."""
        undelivered_texts, self._undelivered = self._undelivered, ()
        await self._conversation.report_idle(self._tell, undelivered_texts)

    async def _summarize(self) -> SummaryMessage | None:
        """Return the model's summary; `None` if aborted. Raises the errors of model and hooks."""
        conversation, config, model = self._conversation, self._config, self._config.model
        problem = None if config.spending is None else await config.spending.problem(model)
        if problem is not None:
            raise problem
        request = summary_request(self._plan, self._instructions, conversation.id)
        text = ""
        finish: Finish | None = None
        await conversation.listeners.emit(StepStart(number=1))
        if config.hooks:
            hooked_request = await unless_aborted(self.signal, config.hooks.before_model_call(request))
            if hooked_request is None:
                return None
            request = hooked_request
        async with aclosing(stream_chunks(model, request, self.signal)) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk():
                        text += chunk.text
                    case Finish():
                        finish = chunk
                        if config.spending is not None:
                            config.spending.add(model, finish)
                    case _:
                        pass
        if finish is not None:
            conversation.usage += finish.usage
            await conversation.listeners.emit(StepEvent(usage=finish.usage, finish_reason=finish.reason))
        if self.signal.aborted:
            return None
        if finish is None:
            raise ModelError(f"{model.name}: the summary ended before it was complete")
        if finish.reason in _UNUSABLE:
            raise ModelError(f"{model.name}: the summary is unusable, {_UNUSABLE[finish.reason]}")
        if not text.strip():
            raise ModelError(f"{model.name} gave no summary: its reply has no text")
        return SummaryMessage(text=text.strip(), kept=self._plan.kept, by=self._by)

    async def _tell(self, event: Event) -> None:
        try:
            await self._conversation.listeners.emit(event)
        except Exception as error:
            if self._error is not None:
                log.exception("After session '%s' was compacted", self._conversation.id)
            self._error = self._error or error

    def stop(self) -> None:
        if not self.is_over:
            self._undelivered += self._conversation.hand_back_messages()
