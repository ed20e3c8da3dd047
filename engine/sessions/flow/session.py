"""Session that runs a flow: its record, nets, approval requests and driver are here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Protocol

from pydantic import JsonValue

from ...flows import Graph
from ...history.errors import JournalError
from ...history.fold.flow_steps import STOPPED
from ...history.model.events import (
    ApprovalDecided,
    EventBody,
    JournalEvent,
    SessionOpened,
    SessionStatus,
)
from ...history.model.records import Kind
from ...recording.resume_checks import ResumePoint
from ..config import SessionConfig
from ..profile import AgentProfile
from ..submitted import SubmittedSession
from .record import FlowAnswer, answer_in, flow_record


class RunDriver(Protocol):
    """Driver of a session's run, step by step; see `FlowRun`. Once `over`, it ends by itself."""

    over: bool

    @property
    def is_in_step(self) -> bool:
        """Return whether a step is running that does not wait for a decision or an operator."""
        ...

    @property
    def must_finish_step(self) -> bool:
        """See `HostedSession`."""
        ...

    async def go(self) -> None: ...

    def stop(self) -> None: ...


class FlowSession(SubmittedSession):
    """Session of a flow; it accepts no messages. `answers` are the operators' answers, by call."""

    kind: ClassVar[Kind] = "flow"
    renews_ids: ClassVar[bool] = False
    interrupted: ClassVar[str] = STOPPED
    run: RunDriver | None = None
    _task: asyncio.Task[None] | None = None

    @cached_property
    def answers(self) -> dict[str, FlowAnswer]:
        """Empty at first."""
        return {}

    def note_written(self, event: JournalEvent) -> None:
        """See `LedgerHost`: makes an answer available to the step that waits for it."""
        super().note_written(event)
        if isinstance(event.body, ApprovalDecided) and (answer := answer_in(event.body)) is not None:
            self.answers[event.body.call_id] = answer

    def unmasked(self, approval_id: str, edited: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return an answer as it was filled in, or restore the masked parts of an edited input."""
        if self.state.approvals[approval_id].wants is not None:
            return edited
        return super().unmasked(approval_id, edited)

    # Opening and resumption

    def opening(self, name: str, graph: Graph, config: SessionConfig) -> SessionOpened:
        """Return the event with which its record begins."""
        flow = {"flow": flow_record(name, graph)}
        return self.opened(self._profile(name), config).model_copy(update=flow)

    def resuming(
        self, name: str, config: SessionConfig, point: ResumePoint, events: Sequence[JournalEvent]
    ) -> list[EventBody]:
        """Return the events with which it is resumed after `events`."""
        resumption = self.resumption(self._profile(name), config, point, events)
        return [*resumption, SessionStatus(status="running")]

    def _profile(self, name: str) -> AgentProfile:
        around = self.manager.surroundings
        return AgentProfile(name, workdir=around.workdir, shell=around.shell)

    # The run

    def start(self, run: RunDriver) -> None:
        """Run the flow's steps from now on."""
        self.run = run
        self._task = asyncio.get_running_loop().create_task(run.go(), name=f"flow {self.id}")

    @property
    def is_in_step(self) -> bool:
        """See `RunDriver`."""
        return self.run is not None and self.run.is_in_step

    @property
    def must_finish_step(self) -> bool:
        """See `HostedSession`."""
        return self.run is not None and self.run.must_finish_step

    def finish_step(self) -> None:
        """Let only the current step finish."""
        if self.run is not None:
            self.run.stop()

    async def wait_for_end(self) -> None:
        """Return when the run has ended, or has stopped until it is resumed."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self, reason: str) -> None:
        """End the run between two steps; its requests leave the queue."""
        try:
            reason = f"{STOPPED}: {reason}" if reason else STOPPED
            if await self._cancel(reason):
                await self.record(SessionStatus(status="failed", error=reason))
        except JournalError as error:
            self.fail(error)
            raise

    async def shut_down(self, reason: str) -> None:
        """Accept no more calls, and run no further step."""
        try:
            await self._cancel(reason)
        except JournalError as error:
            self.fail(error)
        finally:
            await super().shut_down(reason)

    async def _cancel(self, reason: str) -> bool:
        """Cancel the run; return whether that ended it. A run that is over ends by itself."""
        task, run = self._task, self.run
        if task is None or task.done() or run is None:
            return False
        self.leaving = self.leaving or reason
        if not run.over:
            run.stop()
            task.cancel()
        await asyncio.wait([task])
        for call_id in list(self.calls.open_ids):
            await self._withdraw(call_id, reason)
        return task.cancelled()

    async def _withdraw(self, call_id: str, reason: str) -> None:
        """Remove a call from the queue, unless its answer arrives at this very moment."""
        try:
            await self.calls.withdraw(call_id, reason)
        except JournalError:
            await self.record()
            if any(approval.call_id == call_id for approval in self.state.approvals.values()):
                raise
