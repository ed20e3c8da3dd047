"""The loop: model call, decisions, tools, and again, as a two-way generator.

It yields what happens and receives, for each tool call, whether it may run. It knows no store, no
listeners and no gate; a session drives it (A-21).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..decisions import Allow, Decision, Deny, Override, as_decision
from ..errors import ModelError
from ..events import (
    LoopEvent,
    MessageEvent,
    ReasoningDelta,
    StepEvent,
    TextDelta,
    ToolCallEvent,
    ToolInputDelta,
)
from ..messages import AssistantMessage, Message, ProposedCall, UserMessage
from ..models.base import (
    CallChunk,
    Finish,
    InputChunk,
    Model,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    ToolSpec,
)
from ..runtime.base import Runtime
from ..session.inbox import FollowUp, Inbox
from ..tool import Tool, input_problem, wants_approval
from .abort import AbortSignal, stream_chunks
from .compaction import prompt_of
from .execution import AfterCall, ApprovedCall, Settle, Slot, StepExecution
from .spending import Spending

if TYPE_CHECKING:
    from ..session.subagents import Children

BeforeModel: TypeAlias = Callable[[ModelRequest], Awaitable[ModelRequest]]
BeforeStop: TypeAlias = Callable[[str], Awaitable[str | None]]

SKIPPED = "Skipped: user sent a new message"
MALFORMED_SHOWN = 200


@dataclass(slots=True)
class LoopConfig:
    """Model, tools, limits and callbacks of a run.

    Another model, system prompt or table of tools counts from the next model call on; `offered` are the
    tools of the step under way.

    `max_steps` counts model calls (A-62). `settle` is awaited as soon as an approved call has ended and
    before its result is shown; the first error it raises ends the run after the step's results.
    `after_call` then gives the output that the model reads. `before_model` is awaited before each model
    call and gives the request to send; `before_stop` before a run ends, and may give text to continue
    with. `spending` is asked before each model call, and counts what it cost.
    """

    model: Model
    runtime: Runtime
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    system_prompt: str | None = None
    max_steps: int = 100
    follow_up: FollowUp = "one"
    inbox: Inbox = field(default_factory=Inbox)
    settle: Settle | None = None
    after_call: AfterCall | None = None
    before_model: BeforeModel | None = None
    before_stop: BeforeStop | None = None
    offered: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    session_id: str = ""
    children: Children | None = None
    spending: Spending | None = None


async def loop(
    messages: Sequence[Message],
    config: LoopConfig,
    abort: AbortSignal | None = None,
    *,
    undecided: Sequence[ProposedCall] = (),
) -> AsyncGenerator[LoopEvent, Decision]:
    """Run until the model asks for no more tools, `max_steps` is reached or `abort` is set.

    After a `ToolCallEvent`, `asend` a decision; what is sent after any other event is ignored, and
    iterating approves everything (A-52). `messages` is not changed. Raises what the model raises, and
    `CostLimitError` in place of a model call that would go beyond a limit: messages sent by then have
    joined the conversation, for the next run (A-63).

    With `undecided`, calls that the last model's message left open, it begins by deciding and running
    these, among the tools in `config.offered`, as if the step had never been interrupted.
    """
    signal = abort or AbortSignal()
    inbox = config.inbox
    history = list(messages)
    for step in range(0 if undecided else 1, config.max_steps + 1):
        if step == 0:
            # The model call that proposed them was another run's.
            calls, batch = tuple(undecided), _last_calls(history)
        else:
            # Drain point 1
            while inbox.steering and not signal.aborted:
                message = inbox.steering.popleft()
                yield MessageEvent(message=message)
                history.append(message)
            problem = None if config.spending is None else await config.spending.problem(config.model)
            while problem is not None and inbox and not signal.aborted:
                message = inbox.next()
                yield MessageEvent(message=message)
                history.append(message)
            if signal.aborted:
                return
            if problem is not None:
                raise problem

            tools = config.tools
            request = model_request(config, history)
            if config.before_model is not None:
                request = await config.before_model(request)
                if signal.aborted:
                    return
            config.offered = {spec.name: tools[spec.name] for spec in request.tools}

            text = ""
            proposed: list[ProposedCall] = []
            finish: Finish | None = None
            async with aclosing(stream_chunks(config.model, request, signal)) as chunks:
                async for chunk in chunks:
                    match chunk:
                        case TextChunk() if chunk.text:
                            event = TextDelta(delta=chunk.text)
                            text += event.delta
                            yield event
                        case ReasoningChunk() if chunk.text:
                            yield ReasoningDelta(delta=chunk.text)
                        case TextChunk() | ReasoningChunk():
                            pass
                        case InputChunk(index=index, name=name, text=written):
                            yield ToolInputDelta(index=index, name=name, delta=written)
                        case CallChunk():
                            proposed.append(chunk.call)
                        case Finish():
                            finish = chunk
                            if config.spending is not None:
                                config.spending.add(config.model, finish)
            if signal.aborted:
                # What a person saw is kept; calls that nobody answered are not.
                if text:
                    yield MessageEvent(message=AssistantMessage(text=text))
                return
            if finish is None:
                raise ModelError(f"{config.model.name}: the reply ended before it was complete")
            calls = _with_own_ids(proposed, (*history, *request.messages))
            if text or calls:
                said = AssistantMessage(text=text, tool_calls=calls)
                yield MessageEvent(message=said)
                history.append(said)
            yield StepEvent(usage=finish.usage, finish_reason=finish.reason)

            if not calls:
                # Drain point 3
                if (
                    config.before_stop is not None
                    and step < config.max_steps
                    and not (inbox or signal.aborted)
                ):
                    more = await config.before_stop(text)
                    if more and not signal.aborted:
                        inbox.put(UserMessage(text=more), "queue")
                if inbox.steering:
                    continue
                if not inbox.follow_ups or step == config.max_steps or signal.aborted:
                    return
                for _ in range(len(inbox.follow_ups) if config.follow_up == "all" else 1):
                    if not inbox.follow_ups or signal.aborted:
                        break
                    message = inbox.follow_ups.popleft()
                    yield MessageEvent(message=message)
                    history.append(message)
                continue
            batch = calls

        slots = [_slot(call, config.offered) for call in calls]
        shown = copy.deepcopy(batch)
        for slot in slots:
            if slot.output is not None or slot.tool is None:
                continue
            # Drain point 2
            if signal.aborted or inbox.steering:
                slot.refuse(signal.call_text if signal.aborted else SKIPPED)
                continue
            decision = yield ToolCallEvent(
                call_id=slot.call.call_id,
                name=slot.call.name,
                args=copy.deepcopy(slot.call.args),
                batch=shown,
                index=batch.index(slot.call),
                needs_approval=wants_approval(slot.tool, slot.call.args),
                session_id=config.session_id,
            )
            _apply(decision, slot, slot.tool)
        execution = StepExecution(
            slots,
            config.runtime,
            signal,
            config.session_id,
            config.settle,
            config.after_call,
            functools.partial(_first, history, len(history)),
            config.children,
        )
        async with aclosing(execution.run()) as printed:
            async for progress in printed:
                yield progress
        for slot in slots:
            result = slot.event()
            yield result
            history.append(result.message)
        if execution.problem is not None:
            raise execution.problem


def _last_calls(history: Sequence[Message]) -> tuple[ProposedCall, ...]:
    """All calls of the step that is open."""
    last = next((m for m in reversed(history) if isinstance(m, AssistantMessage)), None)
    return () if last is None else last.tool_calls


def _first(history: Sequence[Message], count: int) -> Sequence[Message]:
    return history[:count]


def model_request(config: LoopConfig, history: Sequence[Message]) -> ModelRequest:
    """Model request after `history`, before hooks change it."""
    return ModelRequest(
        messages=tuple(prompt_of(history)),
        system_prompt=config.system_prompt,
        tools=tuple(ToolSpec(t.name, t.description, t.parameters) for t in config.tools.values()),
        session_id=config.session_id,
    )


def _slot(call: ProposedCall, tools: Mapping[str, Tool]) -> Slot:
    """A call that may be decided, or one that is refused because it cannot run at all (A-49)."""
    slot = Slot(call, tools.get(call.name))
    if slot.tool is None:
        slot.refuse(f"Tool not found: {call.name}")
    elif call.malformed is not None:
        shown = call.malformed[:MALFORMED_SHOWN]
        slot.refuse(f"Invalid arguments for {call.name}: expected a JSON object, got {shown!r}")
    else:
        problem = input_problem(slot.tool, call.args)
        if problem is not None:
            slot.refuse(problem)
    return slot


def _apply(decision: object, slot: Slot, tool: Tool) -> None:
    """Approve or refuse a call. What is no decision refuses it (A-44)."""
    args = slot.call.args
    try:
        match as_decision(decision):
            case Deny(reason=reason):
                slot.refuse(reason)
                return
            case Override(args=args):
                problem = input_problem(tool, args)
                if problem is not None:
                    slot.refuse(problem)
                    return
            case Allow() | None:
                pass
    except TypeError as error:
        slot.refuse(str(error))
        return
    slot.approved = ApprovedCall(slot.call.call_id, slot.call.name, copy.deepcopy(args))


def _with_own_ids(calls: Sequence[ProposedCall], history: Sequence[Message]) -> tuple[ProposedCall, ...]:
    """The calls with ids that this conversation has not seen; some servers repeat ids in each reply."""
    used = {
        call.call_id
        for message in history
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    renamed: list[ProposedCall] = []
    for call in calls:
        base = call.call_id or "call"
        call_id, number = base, 1
        while call_id in used:
            number += 1
            call_id = f"{base}-{number}"
        used.add(call_id)
        renamed.append(call if call_id == call.call_id else call.model_copy(update={"call_id": call_id}))
    return tuple(renamed)
