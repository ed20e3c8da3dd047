"""Resumption of a step whose process ended amid its calls: some run on first, then all get results."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from ..decisions import ApprovedCall, ResumedCall
from ..events import LoopEvent
from ..messages import Message, ProposedCall, ToolMessage
from ..tool import ToolOutput
from .abort import AbortSignal
from .execution import StepCall, StepExecution
from .loop import CallDecision
from .loop_config import LoopConfig


async def resume_calls(
    resumed_calls: Sequence[ResumedCall],
    config: LoopConfig,
    signal: AbortSignal,
    conversation: Sequence[Message],
) -> AsyncGenerator[LoopEvent, CallDecision]:
    """Run the calls that resume concurrently, then yield all results in order (A-56).

    Nothing is decided here: the resumed calls had been allowed. Raises errors of settling calls, after
    the results.
    """
    step_calls = [_step_call(call, config) for call in resumed_calls]
    async with aclosing(StepExecution(step_calls, config, signal, lambda: conversation).run()) as events:
        async for event in events:
            yield event


def _step_call(resumed_calls: ResumedCall, config: LoopConfig) -> StepCall:
    match resumed_calls:
        case ApprovedCall(call_id=call_id, name=name, args=args):
            call = ProposedCall(call_id=call_id, name=name, args=args)
            return StepCall(call, config.tools[name], approved=resumed_calls)
        case ToolMessage(call_id=call_id, name=name):
            output = ToolOutput(resumed_calls.text, is_error=resumed_calls.is_error)
            return StepCall(ProposedCall(call_id=call_id, name=name), output=output)
