"""A session that runs a flow: its record, nets and questions are here, and so is its driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar

from pydantic import JsonValue

from .flow_record import ASKED, Answer, answer_in, flow_record
from .flow_run import FlowRun
from .flows import Graph
from .gate.types import ToolResult
from .history.errors import JournalError
from .history.events import (
    ApprovalDecided,
    EventBody,
    JournalEvent,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from .hosted import HostedSession, Loop
from .outside import OutsideSession
from .outside_calls import NO_RESULT
from .records import net_record
from .resuming import Standing, closings
from .sending import stopped


class FlowSession(OutsideSession):
    """See the module; nobody can speak to it. `answers` are what people filled in, by call."""

    loop: ClassVar[Loop] = "flow"
    run: FlowRun | None = None
    _task: asyncio.Task[None] | None = None

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """Empty at first."""
        return {}

    def hand_over(
        self, *bodies: EventBody, then: Callable[[bool], None] | None = None
    ) -> asyncio.Future[None]:
        """As every session's; whoever waits for an answer finds it."""

        def recorded(written: bool) -> None:
            for body in bodies if written else ():
                if isinstance(body, ApprovalDecided) and (answer := answer_in(body)) is not None:
                    self.answers[body.call_id] = answer
            if then is not None:
                then(written)

        return super().hand_over(*bodies, then=recorded)

    def unmasked(self, approval_id: str, edited: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """An answer is as it was filled in; an input as every session's."""
        if self.state.approvals[approval_id].wants is not None:
            return edited
        return HostedSession.unmasked(self, approval_id, edited)

    # How it begins and goes on

    def opening(
        self,
        name: str,
        graph: Graph,
        by: str | None,
        source: dict[str, JsonValue] | None,
    ) -> SessionOpened:
        """The event its record begins with."""
        return SessionOpened(
            agent=name,
            model="",
            mode=self.manager.mode,
            nets=tuple(net_record(key, net) for key, net in self.manager.nets.items()),
            active=tuple(self.manager.active),
            opened_by=by,
            kind="flow",
            source=source,
            flow=flow_record(name, graph),
        )

    def resuming(
        self,
        name: str,
        by: str | None,
        source: dict[str, JsonValue] | None,
        fit: Standing,
        events: Sequence[JournalEvent],
    ) -> list[EventBody]:
        """The events with which it goes on after those recorded. What a person had denied is denied."""
        state, bodies = self.state, [event.body for event in events]
        for body in bodies:
            self.calls.book.take(body)
        self._wait_for_results(fit.markings)
        resumed = SessionResumed(
            agent=name,
            model="",
            mode=self.manager.mode,
            nets=fit.fresh,
            dropped=fit.dropped,
            forgot=fit.forgot,
            active=tuple(self.manager.active),
            by=by,
            source=source,
        )
        ended = closings(state, (), bodies, going_on={p.call_id for p in state.pending})
        return [resumed, *ended, SessionStatus(status="running")]

    async def forget_results(self, waits: str | None) -> None:
        """Calls that a host left without a result never get one, but for one whose tool `waits`."""
        but = waits.removeprefix(ASKED) if waits is not None and waits.startswith(ASKED) else None
        for call_id in dict.fromkeys(pending.call_id for pending in self.state.pending):
            decided = self.calls.book.decided.get(call_id)
            if decided is not None and call_id != but:
                gone = ToolResult(call_id, decided.tool, dict(decided.input), is_error=True)
                await self.settle(gone, NO_RESULT, 0.0, unknown=True)

    # The run

    def start(self, run: FlowRun) -> None:
        """Take the run's steps from here on."""
        self.run = run
        self._task = asyncio.get_running_loop().create_task(run.go(), name=f"flow {self.id}")

    async def ended(self) -> None:
        """Return when the run has ended, or stands until it is resumed."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self, reason: str) -> None:
        """End the run between two steps; what waits for a person leaves the queue."""
        try:
            if await self._cancel():
                await self.record(SessionStatus(status="failed", error=stopped(reason)))
        except JournalError as error:
            self.fail(error)
            raise

    async def leave(self, why: str) -> None:
        """As every session's whose loop is not its own; a run that has not ended says where it stands."""
        try:
            if await self._cancel():
                step = 0 if self.state.flow is None else self.state.flow.step
                left = f"left after step {step}; `interlock flow resume {self.id}` goes on with it"
                await self.record(SessionStatus(status="failed", error=left))
        except JournalError as error:
            self.fail(error)
        finally:
            await super().leave(why)

    async def _cancel(self) -> bool:
        """Whether there was something to end. A run that has come to its end by itself is left to it."""
        task, run = self._task, self.run
        if task is None or task.done() or run is None:
            return False
        if not run.over:
            run.stop()
            task.cancel()
        await asyncio.wait([task])
        for call_id in list(self.calls.asking):
            await self._withdraw(call_id)
        return task.cancelled()

    async def _withdraw(self, call_id: str) -> None:
        """Take a call out of the queue, unless its answer comes in this very moment."""
        try:
            await self.calls.withdraw(call_id, "the run was stopped")
        except JournalError:
            await self.record()
            if any(asked.call_id == call_id for asked in self.state.approvals.values()):
                raise
