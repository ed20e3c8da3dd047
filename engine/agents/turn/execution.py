"""Concurrent execution of a step's approved calls (A-55 … A-58)."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace

from ...core.json_values import same_json
from ..decisions import ApprovedCall
from ..errors import OPERATION_ABORTED, ToolError, describe
from ..events import ToolProgress, ToolResultEvent
from ..hooks import FinishedCall
from ..messages import Message, ProposedCall
from ..tool import Tool, ToolContext, ToolOutput, as_output, outcome
from .abort import AbortSignal, unless_aborted
from .loop_config import AfterCall, LoopConfig


@dataclass(slots=True)
class StepCall:
    """A step's call on its way to a result; a call that will not run has its `output` from the start."""

    call: ProposedCall
    tool: Tool | None = None
    approved: ApprovedCall | None = None
    output: ToolOutput | None = None

    def refuse(self, reason: str) -> None:
        """Give `reason` to the model in place of the tool's output."""
        self.output = ToolOutput(reason, is_error=True)

    def result(self) -> ToolResultEvent:
        """Return the result; valid once there is an output."""
        assert self.output is not None
        approval = self.approved
        ran = None
        if approval is not None and approval.started and not same_json(approval.args, self.call.args):
            ran = approval.args
        return ToolResultEvent(
            call_id=self.call.call_id,
            name=self.call.name,
            result=self.output.text,
            is_error=self.output.is_error,
            metadata=self.output.metadata,
            ran=ran,
        )


@dataclass(slots=True)
class StepExecution:
    """All calls of one step, run concurrently.

    Every approved call is settled exactly once, whether its tool ran, failed, was stopped or never
    started. `config.after_call` then determines what the model reads for calls whose tool has started.
    `conversation` returns the messages so far to tools.
    """

    calls: Sequence[StepCall]
    config: LoopConfig
    abort: AbortSignal
    conversation: Callable[[], Sequence[Message]]
    _problem: Exception | None = None
    _printed: list[ToolProgress] = field(default_factory=list[ToolProgress])
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> AsyncGenerator[ToolProgress | ToolResultEvent, None]:
        """Run the approved calls and yield their progress; then yield all results in order (A-56).

        Raises, after the results, the first error of `before_start`, `settle` and `after_call`.
        """
        tasks = {
            asyncio.ensure_future(self._run(step_call, step_call.approved, step_call.tool))
            for step_call in self.calls
            if step_call.approved is not None and step_call.tool is not None
        }
        for task in tasks:
            task.add_done_callback(lambda _: self._change.set())
        try:
            while not all(task.done() for task in tasks) or self._printed:
                if not self._printed:
                    self._change.clear()
                    await self._change.wait()
                progress_texts, self._printed = _join_output(self._printed), []
                for progress in progress_texts:
                    yield progress
            for task in tasks:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
        for step_call in self.calls:
            yield step_call.result()
        if self._problem is not None:
            raise self._problem

    async def _run(self, step_call: StepCall, call: ApprovedCall, tool: Tool) -> None:
        """Run one call and settle it; then let hooks determine what the model reads."""
        output, seconds = await self._execute(call, tool)
        if output is None:
            call = step_call.approved = replace(call, started=False)
        final_output = output or ToolOutput(self.abort.call_text, is_error=True)
        step_call.output = final_output
        note: str | None = None
        if self.config.settle is not None:
            try:
                note = await self.config.settle(call, final_output, seconds)
            except Exception as error:
                self._problem = self._problem or error
                step_call.refuse(
                    f"The call ended, but its result could not be recorded: {describe(error)}"
                )
                return
        if output is None:
            return
        if self.config.after_call is not None:
            await self._review(step_call, call, output, seconds, self.config.after_call)
        if note is not None:
            step_call.output = replace(step_call.output, text=f"{note}\n{step_call.output.text}")

    async def _review(
        self,
        step_call: StepCall,
        call: ApprovedCall,
        output: ToolOutput,
        seconds: float,
        review: AfterCall,
    ) -> None:
        """Let hooks determine what the model reads. If they fail, the tool's own output is withheld."""
        if self.abort.aborted and output.text == OPERATION_ABORTED:
            return
        step_call.refuse("The run was aborted before the call's result was looked over")
        finished_call = FinishedCall(
            call.call_id, call.name, call.args, output, seconds, self.config.session_id
        )
        try:
            step_call.output = await unless_aborted(self.abort, review(finished_call)) or step_call.output
        except Exception as error:
            self._problem = self._problem or error
            step_call.refuse(
                f"The call ended, but its result could not be looked over: {describe(error)}"
            )

    async def _execute(self, call: ApprovedCall, tool: Tool) -> tuple[ToolOutput | None, float]:
        """Return the tool's output, `None` if it never started, and its run time in seconds.

        Cancelling stops the tool, but this still returns.
        """
        if self.abort.aborted:
            return None, 0.0
        start_times: list[float] = []
        outputs: list[ToolOutput] = []

        def progress(text: str) -> None:
            if text:
                self._printed.append(ToolProgress(call_id=call.call_id, text=text))
                self._change.set()

        context = ToolContext(
            runtime=self.config.runtime,
            abort=self.abort,
            session_id=self.config.session_id,
            call_id=call.call_id,
            progress=progress,
            conversation=self.conversation,
            subagents=self.config.subagents,
        )

        async def body() -> None:
            if self.config.before_start is not None:
                await self.config.before_start(call)
            start_times.append(time.perf_counter())
            try:
                running = tool.execute(copy.deepcopy(call.args), context)
                value = await outcome(running, progress, ToolOutput)
                outputs.append(as_output(value))
            except SystemExit as error:
                raise ToolError(f"The tool tried to exit with {error.code}") from error

        task = asyncio.ensure_future(body())
        forget = self.abort.on_abort(task.cancel)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
        finally:
            forget()
        if not start_times:
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                self._problem = self._problem or error
            return None, 0.0
        # A tool whose last action aborts its own run has still returned a value.
        output = outputs[0] if outputs else ToolOutput(_why_failed(task), is_error=True)
        return output, time.perf_counter() - start_times[0]


def _why_failed(task: asyncio.Task[None]) -> str:
    error = None if task.cancelled() else task.exception()
    return OPERATION_ABORTED if error is None else describe(error)


def _join_output(printed: Sequence[ToolProgress]) -> list[ToolProgress]:
    """Join adjacent outputs of one call, so that a chatty tool does not flood listeners."""
    pieces: list[ToolProgress] = []
    for piece in printed:
        if pieces and pieces[-1].call_id == piece.call_id:
            text = pieces[-1].text + piece.text
            pieces[-1] = ToolProgress(call_id=piece.call_id, text=text)
        else:
            pieces.append(piece)
    return pieces
