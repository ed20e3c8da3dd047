"""Running the calls of a step that were approved, together (A-55 … A-58)."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from pydantic import JsonValue

from ...core.json_equality import same_json
from ...gate.types import Step
from ..errors import OPERATION_ABORTED, ToolError, describe
from ..events import ToolProgress, ToolResultEvent
from ..hooks import FinishedCall
from ..messages import Message, ProposedCall
from ..runtime.base import Runtime
from ..tool import Tool, ToolContext, ToolOutput, as_output, outcome
from .abort import AbortSignal, unless_aborted

if TYPE_CHECKING:
    from ..session.subagents import Children


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """A call that may run, with the arguments that were approved.

    `steps` are what the gate moved for it. `started` is false once it is certain that its tool never did
    and never will. `note` is text for the model about the arguments.
    """

    call_id: str
    name: str
    args: dict[str, JsonValue]
    steps: tuple[Step, ...] = field(default=(), compare=False)
    started: bool = field(default=True, compare=False)
    note: str | None = field(default=None, compare=False)


Settle: TypeAlias = Callable[[ApprovedCall, ToolOutput, float], Awaitable[str | None]]
"""Takes how a call ended; gives what the model is told before the output."""
AfterCall: TypeAlias = Callable[[FinishedCall], Coroutine[object, object, ToolOutput]]


@dataclass(slots=True)
class Slot:
    """One call of a step on its way to a result; refused calls have `output` from the start.

    `ran` are the arguments that ran, where they are not those that the model wrote.
    """

    call: ProposedCall
    tool: Tool | None = None
    approved: ApprovedCall | None = None
    output: ToolOutput | None = None
    ran: dict[str, JsonValue] | None = None

    def refuse(self, reason: str) -> None:
        """The call will not run; `reason` goes to the model."""
        self.output = ToolOutput(reason, is_error=True)

    def event(self) -> ToolResultEvent:
        """The result, once there is one."""
        assert self.output is not None
        return ToolResultEvent(
            call_id=self.call.call_id,
            name=self.call.name,
            result=self.output.text,
            is_error=self.output.is_error,
            metadata=self.output.metadata,
            ran=self.ran,
        )


@dataclass(slots=True)
class StepExecution:
    """All calls of one step, run side by side.

    Every approved call is settled exactly once, whether its tool ran, failed, was stopped or never
    started. `after_call` then says what the model reads of calls whose tool has started. `problem` is the
    first error that one of the two raised; `said` gives tools the conversation.
    """

    slots: Sequence[Slot]
    runtime: Runtime
    abort: AbortSignal
    session_id: str
    settle: Settle | None
    after_call: AfterCall | None = None
    said: Callable[[], Sequence[Message]] = tuple
    children: Children | None = None
    problem: Exception | None = None
    _printed: list[ToolProgress] = field(default_factory=list[ToolProgress])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> AsyncGenerator[ToolProgress, None]:
        """Run the approved calls to their end; gives what they print meanwhile."""
        tasks = {
            asyncio.ensure_future(self._run(slot, slot.approved, slot.tool))
            for slot in self.slots
            if slot.approved is not None and slot.tool is not None
        }
        for task in tasks:
            task.add_done_callback(lambda _: self._changed.set())
        try:
            while not all(task.done() for task in tasks) or self._printed:
                if not self._printed:
                    self._changed.clear()
                    await self._changed.wait()
                printed, self._printed = _joined(self._printed), []
                for progress in printed:
                    yield progress
            for task in tasks:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _run(self, slot: Slot, call: ApprovedCall, tool: Tool) -> None:
        # A tool may change what it is given.
        ran = None if same_json(call.args, slot.call.args) else copy.deepcopy(call.args)
        output, seconds = await self._execute(call, tool)
        slot.ran = None if output is None else ran
        slot.output = output or ToolOutput(self.abort.call_text, is_error=True)
        note: str | None = None
        if self.settle is not None:
            try:
                note = await self.settle(replace(call, started=output is not None), slot.output, seconds)
            except Exception as error:
                self.problem = self.problem or error
                slot.refuse(f"The call ended, but its result could not be recorded: {describe(error)}")
                return
        if self.after_call is not None and output is not None:
            await self._look_over(slot, call, output, seconds, self.after_call)
        if note is not None and output is not None:
            slot.output = replace(slot.output, text=f"{note}\n{slot.output.text}")

    async def _look_over(
        self, slot: Slot, call: ApprovedCall, output: ToolOutput, seconds: float, after_call: AfterCall
    ) -> None:
        """Let hooks say what the model reads. When they cannot, it does not read the tool's own words."""
        if self.abort.aborted and output.text == OPERATION_ABORTED:
            return
        slot.refuse("The run was aborted before the call's result was looked over")
        ended = FinishedCall(call.call_id, call.name, call.args, output, seconds, self.session_id)
        try:
            read = await unless_aborted(self.abort, after_call(ended))
        except Exception as error:
            self.problem = self.problem or error
            slot.refuse(f"The call ended, but its result could not be looked over: {describe(error)}")
        else:
            slot.output = read or slot.output

    async def _execute(self, call: ApprovedCall, tool: Tool) -> tuple[ToolOutput | None, float]:
        """The tool's output, `None` if it never started, and its seconds.

        Cancelling stops the tool and still returns.
        """
        if self.abort.aborted:
            return None, 0.0
        started: list[float] = []

        returned: list[ToolOutput] = []

        async def body() -> None:
            started.append(time.perf_counter())
            try:
                ctx = self._context(call)
                value = await outcome(tool.execute(call.args, ctx), ctx.progress, ToolOutput)
                returned.append(as_output(value))
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
        if not started:
            return None, 0.0
        # A tool that aborts its own run as its last act has still returned.
        output = returned[0] if returned else ToolOutput(_why_failed(task), is_error=True)
        return output, time.perf_counter() - started[0]

    def _context(self, call: ApprovedCall) -> ToolContext:
        def progress(text: str) -> None:
            if text:
                self._printed.append(ToolProgress(call_id=call.call_id, text=text))
                self._changed.set()

        return ToolContext(
            runtime=self.runtime,
            abort=self.abort,
            session_id=self.session_id,
            call_id=call.call_id,
            progress=progress,
            said=self.said,
            children=self.children,
        )


def _why_failed(task: asyncio.Task[None]) -> str:
    error = None if task.cancelled() else task.exception()
    return OPERATION_ABORTED if error is None else describe(error)


def _joined(printed: Sequence[ToolProgress]) -> list[ToolProgress]:
    """Neighbouring pieces of one call as one piece, so that a chatty tool does not flood listeners."""
    joined: list[ToolProgress] = []
    for piece in printed:
        if joined and joined[-1].call_id == piece.call_id:
            text = joined[-1].text + piece.text
            joined[-1] = ToolProgress(call_id=piece.call_id, text=text)
        else:
            joined.append(piece)
    return joined
