"""The loop as a two-way generator: call the model, decide its calls, run them, and repeat.

It yields events and receives, for each tool call, whether it may run. It does not depend on stores,
listeners or gates; a session drives it (A-21).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias

from ..decisions import Allow, ApprovedCall, Decision, Deny, Override, as_decision
from ..errors import ModelError
from ..events import (
    LoopEvent,
    MessageEvent,
    ReasoningDelta,
    StepEvent,
    TextDelta,
    ToolCallEvent,
    ToolInputDelta,
    ToolResultEvent,
)
from ..messages import AssistantMessage, Message, ProposedCall, RulesChange, UserMessage, with_own_ids
from ..models.base import (
    CallChunk,
    Chunk,
    Finish,
    InputChunk,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    ToolSpec,
)
from ..rules_notice import change_message, with_rules
from ..tool import input_problem, wants_approval
from .abort import AbortSignal, stream_chunks
from .compaction import prompt_of
from .execution import StepCall, StepExecution
from .loop_config import LoopConfig

SKIPPED = "Skipped: user sent a new message"
MALFORMED_SHOWN = 200

CallDecision: TypeAlias = Decision | ApprovedCall
"""Decision on one call. The arguments of an `ApprovedCall` are known to fit the tool."""


async def loop(
    messages: Sequence[Message],
    config: LoopConfig,
    abort: AbortSignal | None = None,
    *,
    undecided: Sequence[ProposedCall] = (),
) -> AsyncGenerator[LoopEvent, CallDecision]:
    """Run until the model requests no more tools, `max_steps` is reached or `abort` is set.

    After a `ToolCallEvent`, `asend` a decision. Values sent after other events are ignored, and plain
    iteration approves everything (A-52). `messages` is not changed. Raises the model's errors, and
    `CostLimitError` in place of a model call beyond the cost limit: messages sent by then have joined the
    conversation, for the next run (A-63).

    With `undecided`, the open calls of the model's last message, it first decides and runs these, using
    the tools in `config.offered`, as if the step had not been interrupted.
    """
    state = _LoopState(list(messages), config, abort or AbortSignal())
    calls = tuple(undecided)
    # Step 0 has no model call: it belongs to another run.
    for step in range(0 if calls else 1, config.max_steps + 1):
        if step > 0:
            async with aclosing(state.call_model()) as events:
                async for event in events:
                    yield event
            if state.reply is None:
                return
            calls = state.reply.tool_calls
        if calls:
            step_calls = state.check_calls(calls)
            for step_call in step_calls:
                if (request := state.decision_request(step_call)) is not None:
                    _decide(step_call, (yield request))
            async with aclosing(state.run_calls(step_calls)) as events:
                async for event in events:
                    yield event
        elif step < config.max_steps and await state.has_messages():
            for message in state.take_follow_ups():
                yield message
        else:
            return


@dataclass(slots=True)
class _LoopState:
    """Conversation as the model will get it, with the last reply, if it is complete.

    `batch` contains copies of all calls in the reply, for those who decide.
    """

    history: list[Message]
    config: LoopConfig
    signal: AbortSignal
    reply: AssistantMessage | None = None
    batch: tuple[ProposedCall, ...] = ()

    def joined(self, message: Message) -> MessageEvent:
        """Add a message to the conversation and return its event."""
        self.history.append(message)
        return MessageEvent(message=message)

    # Call the model

    async def call_model(self) -> AsyncGenerator[LoopEvent, None]:
        """Call the model after all messages that people have sent by now (drain point 1)."""
        self.reply = None
        config, inbox, signal = self.config, self.config.inbox, self.signal
        while inbox.steering and not signal.aborted:
            yield self.joined(inbox.steering.popleft())
        problem = None if config.spending is None else await config.spending.problem(config.model)
        while problem is not None and inbox and not signal.aborted:
            yield self.joined(inbox.next())
        if signal.aborted:
            return
        if problem is not None:
            raise problem

        tools = config.tools
        change = None if config.rules_changed is None else config.rules_changed(self.history)
        request = model_request(config, self.history, change)
        if config.before_model is not None:
            request = await config.before_model(request)
            if signal.aborted:
                return
        config.offered = {spec.name: tools[spec.name] for spec in request.tools}

        reply = _Reply()
        async with aclosing(stream_chunks(config.model, request, signal)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Finish) and config.spending is not None:
                    config.spending.add(config.model, chunk)
                if (event := reply.add(chunk)) is not None:
                    yield event
        if signal.aborted:
            # Text that a person has seen is kept; calls without results are not.
            if reply.text:
                yield self.joined(AssistantMessage(text=reply.text, rules=change))
            return
        if reply.finish is None:
            raise ModelError(f"{config.model.name}: the reply ended before it was complete")
        calls = with_own_ids(reply.calls, (*self.history, *request.messages))
        self.reply = AssistantMessage(text=reply.text, tool_calls=calls, rules=change)
        if reply.text or calls:
            yield self.joined(self.reply)
        yield StepEvent(usage=reply.finish.usage, finish_reason=reply.finish.reason)

    # Decide the calls

    def check_calls(self, calls: Sequence[ProposedCall]) -> list[StepCall]:
        """Return the calls for decision; refuse those that cannot run at all (A-49)."""
        last = next(
            message for message in reversed(self.history) if isinstance(message, AssistantMessage)
        )
        self.batch = copy.deepcopy(last.tool_calls)
        step_calls = [StepCall(call, self.config.offered.get(call.name)) for call in calls]
        for step_call in step_calls:
            call, tool = step_call.call, step_call.tool
            if tool is None:
                step_call.refuse(f"Tool not found: {call.name}")
            elif call.malformed is not None:
                excerpt = call.malformed[:MALFORMED_SHOWN]
                step_call.refuse(
                    f"Invalid arguments for {call.name}: expected a JSON object, got {excerpt!r}"
                )
            elif (problem := input_problem(tool, call.args)) is not None:
                step_call.refuse(problem)
        return step_calls

    def decision_request(self, step_call: StepCall) -> ToolCallEvent | None:
        """Return the event that requests a decision on a call; `None` if the call will not run.

        After a steering message or an abort, no further call runs (drain point 2).
        """
        call, tool = step_call.call, step_call.tool
        if step_call.output is not None or tool is None:
            return None
        if self.signal.aborted or self.config.inbox.steering:
            step_call.refuse(self.signal.call_text if self.signal.aborted else SKIPPED)
            return None
        return ToolCallEvent(
            call_id=call.call_id,
            name=call.name,
            args=call.args,
            batch=self.batch,
            index=[batch_call.call_id for batch_call in self.batch].index(call.call_id),
            needs_approval=wants_approval(tool, call.args),
            session_id=self.config.session_id,
        )

    # Run the calls

    async def run_calls(self, step_calls: Sequence[StepCall]) -> AsyncGenerator[LoopEvent, None]:
        """Run the approved calls, and add their results to the conversation."""
        conversation = functools.partial(_first, self.history, len(self.history))
        execution = StepExecution(step_calls, self.config, self.signal, conversation)
        async with aclosing(execution.run()) as events:
            async for event in events:
                yield event
                if isinstance(event, ToolResultEvent):
                    self.history.append(event.message)

    # Continue without calls

    async def has_messages(self) -> bool:
        """Return whether messages wait; if there are none, hooks may add one (drain point 3)."""
        assert self.reply is not None
        inbox, before_stop = self.config.inbox, self.config.before_stop
        if before_stop is not None and not (inbox or self.signal.aborted):
            text = await before_stop(self.reply.text)
            if text and not self.signal.aborted:
                inbox.put(UserMessage(text=text), "queue")
        return bool(inbox) and not self.signal.aborted

    def take_follow_ups(self) -> Iterator[MessageEvent]:
        """Yield messages that waited for the turn's end, unless a steering message goes first."""
        waiting = self.config.inbox.follow_ups
        if self.config.inbox.steering:
            return
        for _ in range(len(waiting) if self.config.follow_up == "all" else 1):
            if waiting and not self.signal.aborted:
                yield self.joined(waiting.popleft())


@dataclass(slots=True)
class _Reply:
    """The model's reply while it streams; `finish` is set once it is complete."""

    text: str = ""
    calls: list[ProposedCall] = field(default_factory=list[ProposedCall])
    finish: Finish | None = None

    def add(self, chunk: Chunk) -> LoopEvent | None:
        """Add a chunk; return the event that reports it, if any."""
        match chunk:
            case TextChunk() if chunk.text:
                delta = TextDelta(delta=chunk.text)
                self.text += delta.delta
                return delta
            case ReasoningChunk() if chunk.text:
                return ReasoningDelta(delta=chunk.text)
            case TextChunk() | ReasoningChunk():
                pass
            case InputChunk(index=index, name=name, text=text):
                return ToolInputDelta(index=index, name=name, delta=text)
            case CallChunk():
                self.calls.append(chunk.call)
            case Finish():
                self.finish = chunk
        return None


def _first(history: Sequence[Message], count: int) -> Sequence[Message]:
    return history[:count]


def model_request(
    config: LoopConfig, history: Sequence[Message], change: RulesChange | None = None
) -> ModelRequest:
    """Build the model request for `history` and a change of the rules, before hooks change it."""
    change_messages = () if change is None else (change_message(change),)
    return ModelRequest(
        messages=(*prompt_of(history), *change_messages),
        system_prompt=with_rules(config.system_prompt, config.rules),
        tools=tuple(ToolSpec(t.name, t.description, t.parameters) for t in config.tools.values()),
        session_id=config.session_id,
    )


def _decide(step_call: StepCall, decision: CallDecision) -> None:
    """Approve or refuse a call. An invalid decision refuses it (A-44)."""
    call, tool = step_call.call, step_call.tool
    assert tool is not None
    if isinstance(decision, ApprovedCall) and (decision.call_id, decision.name) == (
        call.call_id,
        call.name,
    ):
        step_call.approved = decision
        return
    try:
        match as_decision(decision):
            case Deny(reason=reason):
                step_call.refuse(reason)
            case Override(args=args):
                if (problem := input_problem(tool, args)) is not None:
                    step_call.refuse(problem)
                else:
                    step_call.approved = ApprovedCall(call.call_id, call.name, args)
            case Allow() | None:
                step_call.approved = ApprovedCall(call.call_id, call.name, call.args)
    except TypeError as error:
        step_call.refuse(str(error))
