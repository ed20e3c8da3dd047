"""Resumption of a step that another process left amid its calls: all get results, some run on first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeAlias

from ..decisions import Decision
from ..events import LoopEvent
from ..messages import AssistantMessage, Message, ProposedCall, SummaryMessage, ToolMessage
from ..tool import ToolOutput
from .abort import AbortSignal
from .execution import ApprovedCall, Slot, StepExecution
from .loop import LoopConfig

Unfinished: TypeAlias = ApprovedCall | ToolMessage
"""A call of the open step: it goes on with these arguments, or has ended with this message."""


def at_rest(messages: Sequence[Message]) -> str | None:
    """Reason why a conversation needs no further reply of the model; `None` when it does."""
    last = next((m for m in reversed(messages) if not isinstance(m, SummaryMessage)), None)
    if last is None:
        return "nobody has said anything"
    if isinstance(last, AssistantMessage) and not last.tool_calls:
        return "the model had the last word"
    return None


async def finish(
    unfinished: Sequence[Unfinished], config: LoopConfig, signal: AbortSignal, said: Sequence[Message]
) -> AsyncGenerator[LoopEvent, Decision]:
    """Run the calls that resume concurrently, then give all results in the order of `unfinished` (A-56).

    Nothing is decided here: what resumes had been allowed. Raises what settling a call raised, after the
    results.
    """
    slots = [_slot(each, config) for each in unfinished]
    execution = StepExecution(
        slots,
        config.runtime,
        signal,
        config.session_id,
        config.settle,
        config.after_call,
        lambda: said,
        config.children,
    )
    async with aclosing(execution.run()) as printed:
        async for progress in printed:
            yield progress
    for slot in slots:
        yield slot.event()
    if execution.problem is not None:
        raise execution.problem


def _slot(each: Unfinished, config: LoopConfig) -> Slot:
    match each:
        case ApprovedCall():
            call = ProposedCall(call_id=each.call_id, name=each.name, args=each.args)
            return Slot(call, config.tools[each.name], approved=each)
        case ToolMessage():
            call = ProposedCall(call_id=each.call_id, name=each.name)
            return Slot(call, output=ToolOutput(each.text, is_error=each.is_error))
