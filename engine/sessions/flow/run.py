"""A flow's run under the hub: step by step, each recorded before the next one begins.

A run that ends before its flow does, by an error, a denial, a stop or the death of its host, is resumed
from the record: the interrupted step runs again. Approved calls of its agents do not run again (see
`RunGate`), but functions of the flow in that step do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from pydantic import BaseModel, JsonValue
from pydantic_core import to_json

from ...agents.decisions import Deny
from ...agents.events import Usage
from ...flows import (
    Approve,
    ClientFactory,
    Context,
    Done,
    Flow,
    FlowError,
    FlowRuntime,
    Graph,
    LimitExceeded,
    RunLimits,
    Suspended,
)
from ...flows.build.nodes import AgentWork, Node
from ...flows.run.scheduler import next_up
from ...flows.trace import ModelCalled, Trace, Traced
from ...history.errors import JournalError, SessionRefused
from ...history.fold.transcript import UNDECIDED
from ...history.model.events import (
    CallDecided,
    CallResult,
    EventBody,
    MessageAdded,
    SessionStatus,
    StepEnded,
)
from ...history.model.records import CallRecord, FlowStepped
from ...recording.records import json_input
from .gate import RunGate
from .questions import FlowApprovals, requested_input, resume_payload, step_request
from .record import ASKED, FlowAnswer, RunRecord
from .session import FlowSession


class StepDeniedError(FlowError):
    """An operator denied the answer that a step waits for."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Context, limits and models that a host gives a run."""

    ctx: Context
    approvals: FlowApprovals
    limits: RunLimits
    factory: ClientFactory | None = None
    trace: Trace | None = None


class FlowRun:
    """Run of a flow. `begins` is the flow's input, or the run's record to resume from.

    Raises as `FlowRuntime` does, and `SnapLoadError` if the record is not of this flow.
    """

    def __init__(
        self,
        host: FlowSession,
        flow: type[Flow[Any, Any]],
        begins: BaseModel | RunRecord,
        options: RunOptions,
    ) -> None:
        self._host = host
        self._ctx, self._limits, self._trace = options.ctx, options.limits, options.trace
        # Usage of model calls that is not recorded yet.
        self._used: list[Usage] = []
        self._step = 0
        self.waits: str | None = None
        if isinstance(begins, RunRecord):
            self._gate = RunGate(host, f"{begins.hosts + 1}:", options.approvals)
            self._runtime = FlowRuntime[Any].from_snapshot(
                flow,
                begins.snapshot,
                history=begins.history,
                factory=options.factory,
                gate=self._gate,
                trace=self._record_trace,
            )
            self._step, self.waits = begins.step, begins.waits
        else:
            self._gate = RunGate(host, "", options.approvals)
            self._runtime = FlowRuntime(
                flow, begins, factory=options.factory, gate=self._gate, trace=self._record_trace
            )
        self._snapshot = self._runtime.snapshot()
        self._said = len(self._runtime.history.entries)
        self._taken, self._turns, self._began = 0, 0, time.monotonic()
        self._stopped = False
        self._in_step = False
        self.over = False

    @property
    def is_in_step(self) -> bool:
        """See `RunDriver`."""
        may_decide = self.must_finish_step and not self._host.is_frozen
        return self._in_step and (may_decide or not self._gate.waits)

    @property
    def must_finish_step(self) -> bool:
        """See `HostedSession`."""
        return self._in_step and self._gate.has_allowed

    @property
    def graph(self) -> Graph:
        return self._runtime.graph

    def beginning(self) -> FlowStepped:
        """Return the event of its beginning."""
        return self._stepped(0, None)

    def _record_trace(self, event: Traced) -> None:
        if isinstance(event, ModelCalled) and event.usage is not None:
            self._used.append(event.usage)
        if self._trace is not None:
            self._trace(event)

    def stop(self) -> None:
        """Run no further step, even if the current one ignores its cancellation."""
        self._stopped = True

    async def go(self) -> None:
        """Run steps until the flow ends; how it ended is recorded."""
        try:
            bodies = await self._take_steps()
            self.over = True
            await self._host.record(*self._spent(), *bodies)
        except JournalError as error:
            self._host.fail(error)
            # What cannot be stored would not be stored after another run of the step, either.
            self._host.has_unrecorded_end = not isinstance(error, SessionRefused)

    async def _take_steps(self) -> list[EventBody]:
        """Run the steps; return the events with which the run ends."""
        try:
            output = await self._steps()
        except JournalError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stopped or task is None or task.cancelling():
                raise
            # Nobody stopped the run: something in the step was cancelled, and the step with it.
            return [SessionStatus(status="failed", error="the step was cancelled from within")]
        except (Exception, SystemExit) as error:
            return [SessionStatus(status="failed", error=_error_text(error))]
        return [
            MessageAdded(role="assistant", text=output.model_dump_json(indent=2)),
            SessionStatus(status="done"),
        ]

    async def _steps(self) -> BaseModel:
        runtime = self._runtime
        while True:
            if self._stopped:
                raise asyncio.CancelledError
            await self._host.until_held()
            suspended = runtime.suspended
            self._gate.begin(self._turn())
            if suspended is not None:
                answer = await self._answer(suspended)
                with self._step_under_way():
                    await runtime.resume(self._ctx, suspended.tool_id, answer, call_id=suspended.call_id)
                    await self._record(suspended.agent)
                continue
            node = next_up(runtime.graph.nodes, runtime.states, runtime.states)
            self._check_limits(node)
            with self._step_under_way():
                match await runtime.next(self._ctx):
                    case Done(output=output):
                        return output
                    case _:
                        assert node is not None
                        await self._record(" + ".join(state.key for state in node.inputs))

    @contextmanager
    def _step_under_way(self) -> Generator[None, None, None]:
        self._in_step = True
        try:
            yield
        finally:
            self._in_step = False

    def _turn(self) -> int:
        """The number of the current conversation, or of the next one."""
        sessions = len({entry.session for entry in self._runtime.history.entries})
        return sessions if self._snapshot.agent is not None else sessions + 1

    def _check_limits(self, node: Node | None) -> None:
        if node is None:
            return
        limits = self._limits
        turn = isinstance(node, AgentWork)
        if limits.max_steps is not None and self._taken >= limits.max_steps:
            raise LimitExceeded("max_steps", limits.max_steps)
        if limits.max_turns is not None and turn and self._turns >= limits.max_turns:
            raise LimitExceeded("max_turns", limits.max_turns)
        if limits.max_seconds is not None and time.monotonic() - self._began >= limits.max_seconds:
            raise LimitExceeded("max_seconds", limits.max_seconds)
        self._taken += 1
        self._turns += turn

    async def _record(self, node: str) -> None:
        """Make the step of `node` durable."""
        body, snapshot = self._stepped(self._step + 1, node), self._runtime.snapshot()
        await self._host.record(*self._spent(), body)
        self._step, self._snapshot, self.waits = body.step, snapshot, body.waits
        self._said = len(self._runtime.history.entries)

    def _stepped(self, step: int, node: str | None) -> FlowStepped:
        """Return the event of step number `step`, of `node`, with snapshot and agents' messages."""
        runtime = self._runtime
        snapshot = runtime.snapshot()
        output: dict[str, JsonValue] = {
            "snapshot": snapshot.model_dump(mode="json"),
            "history": [entry.model_dump(mode="json") for entry in runtime.history.entries[self._said :]],
        }
        waits = None if runtime.suspended is None else self._id_of(runtime.suspended, step)
        done = runtime.states == (runtime.graph.gives.key,) and runtime.suspended is None
        return FlowStepped(
            step=step, node=node, live=snapshot.keys, waits=waits, done=done, output=output
        )

    def _spent(self) -> list[EventBody]:
        """Return the usage of model calls since the last call of this method, as events."""
        spent: list[EventBody] = [
            StepEnded(
                finish_reason="",
                input_tokens=used.input,
                output_tokens=used.output,
                cached_tokens=used.cached,
                cost=used.cost,
            )
            for used in self._used
        ]
        self._used.clear()
        return spent

    # What the flow waits for

    def _id_of(self, suspended: Suspended, step: int) -> str:
        """Return the id of the call that an operator must answer; no model can choose an equal id."""
        if suspended.call_id is None:
            return f"{suspended.tool_id}#{step}"
        call_id = self._gate.id_of(suspended.call_id)
        return call_id if suspended.kind == "approval" else f"{ASKED}{call_id}"

    async def _answer(self, suspended: Suspended) -> JsonValue | BaseModel:
        """Wait for an operator's answer, in the queue with all other requests."""
        waiting_for = self.waits
        assert waiting_for is not None
        if suspended.call_id is not None:
            self._gate.set_record_id(suspended.call_id, waiting_for.removeprefix(ASKED))
        if suspended.kind != "approval":
            return await self._request_input(suspended, waiting_for)
        # Only an earlier host gave the gate the agent's tools.
        self._gate.receive_tools(self._runtime.tools(self._ctx))
        tool = suspended.tool_id.rpartition("::")[2]
        decided = await self._host.calls.submit(waiting_for, tool, suspended.args or {})
        return Approve() if decided.outcome == "allow" else Deny(reason=decided.reason or "")

    async def _request_input(self, suspended: Suspended, waiting_for: str) -> JsonValue:
        """Return an operator's answer. A recorded one is not requested again."""
        answers, decided, numbers = self._host.answers, self._host.calls.index.decided, count(2)
        known = waiting_for
        while known in decided and known not in answers:
            known = (
                f"{waiting_for}@{next(numbers)}"  # the recorded answer was a denial, which ended the run
            )
        answer = answers.get(known) or await self._await_answer(suspended, known)
        denied = None if answer.denied is None else _denial(suspended, answer)
        payload = resume_payload(suspended, answer.filled_in, answer.by, denied)
        if known not in decided:
            shown = step_request(suspended, known).call.input
            body = CallDecided(
                call_id=known,
                tool=suspended.tool_id,
                input=json_input(shown),
                names=(suspended.tool_id,),
                outcome="block" if denied else "allow",
                mode="enforce",
                reason=denied,
                approved_by=() if denied else (answer.by,),
            )
            output = to_json(payload).decode()
            result = CallResult(call_id=known, tool=suspended.tool_id, output=output, is_error=False)
            await self._host.record(body, *(() if denied else (result,)))
        if denied is not None and suspended.kind != "tool":
            raise StepDeniedError(denied)
        return payload

    async def _await_answer(self, suspended: Suspended, call_id: str) -> FlowAnswer:
        """Wait for an operator's answer, or for the deadline, which counts as a denial."""
        question = step_request(suspended, call_id)
        recorded = self._host.state.calls.get(call_id)
        if recorded is None or recorded.status not in UNDECIDED:
            arguments = json_input(question.call.input)
            call = CallRecord(call_id=call_id, tool=suspended.tool_id, input=arguments)
            await self._host.record(MessageAdded(role="assistant", calls=(call,)))
        requested = requested_input(suspended, self._runtime.graph)
        while True:
            answer = await self._host.questions.ask(
                question, preview=None, via=None, requested_input=requested
            )
            if answer.approved:
                return self._host.answers[call_id]
            if not answer.again:
                return FlowAnswer({}, answer.by or "", denied=answer.reason or "")


def _error_text(error: BaseException) -> str:
    """Return the error of a step as text, with the node where it happened."""
    is_flow_error = isinstance(error, FlowError)
    text = str(error) if is_flow_error else f"{type(error).__name__}: {error}"
    return " ".join((text, *(f"({note})" for note in getattr(error, "__notes__", ()))))


def _denial(suspended: Suspended, answer: FlowAnswer) -> str:
    by = f" by {answer.by}" if answer.by else ""
    why = f": {answer.denied}" if answer.denied else ""
    return f"{suspended.tool_id} was denied{by}{why}"
