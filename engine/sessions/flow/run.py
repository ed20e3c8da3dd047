"""A flow's run under the hub: step by step, each in the record before the next one begins.

A run that ends before its flow does, by an error, a denial, a stop or the death of its host, is resumed
from the record: the step that was under way is taken again. Calls of its agents that had been approved
are not (see `RunGate`); what a function of the flow did in that step is done again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
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
from ...flows.build.nodes import Agent, Node
from ...flows.run.scheduler import next_up
from ...flows.trace import ModelCalled, Trace, Traced
from ...history.errors import JournalError
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
from .gate import RunGate
from .questions import Wishes, payload_of, question_of, wanted_of
from .record import ASKED, Answer, RunRecord, stepped
from .session import FlowSession


class StepDeniedError(FlowError):
    """A person would not give the answer that a step waits for."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """Context, limits and models that a host gives a run."""

    ctx: Context
    wishes: Wishes
    limits: RunLimits
    factory: ClientFactory | None = None
    trace: Trace | None = None


class FlowRun:
    """Run of a flow. `begins` is the flow's input, or the run's record to resume from.

    Raises as `FlowRuntime`, and `SnapLoadError` where the record is not of this flow.
    """

    def __init__(
        self,
        host: FlowSession,
        flow: type[Flow[Any, Any]],
        begins: BaseModel | RunRecord,
        hosting: Hosting,
    ) -> None:
        self._host = host
        self._ctx, self._limits, self._trace = hosting.ctx, hosting.limits, hosting.trace
        # What model calls used that the record does not have yet.
        self._used: list[Usage] = []
        self._step = 0
        self.waits: str | None = None
        if isinstance(begins, RunRecord):
            self._gate = RunGate(host, f"{begins.hosts + 1}:", hosting.wishes)
            self._runtime = FlowRuntime[Any].from_snapshot(
                flow,
                begins.snapshot,
                history=begins.history,
                factory=hosting.factory,
                gate=self._gate,
                trace=self._traced,
            )
            self._step, self.waits = begins.step, begins.waits
        else:
            self._gate = RunGate(host, "", hosting.wishes)
            self._runtime = FlowRuntime(
                flow, begins, factory=hosting.factory, gate=self._gate, trace=self._traced
            )
        self._snapshot = self._runtime.snapshot()
        self._said = len(self._runtime.history.entries)
        self._taken, self._turns, self._began = 0, 0, time.monotonic()
        self._stopped = False
        self.over = False

    @property
    def graph(self) -> Graph:
        return self._runtime.graph

    def beginning(self) -> FlowStepped:
        """The event of where it begins."""
        return self._stepped(0, None)

    def _traced(self, what: Traced) -> None:
        if isinstance(what, ModelCalled) and what.usage is not None:
            self._used.append(what.usage)
        if self._trace is not None:
            self._trace(what)

    def stop(self) -> None:
        """Take no further step, even where the one under way does not heed being cancelled."""
        self._stopped = True

    async def go(self) -> None:
        """Take steps until the flow ends; how it ended is in the record."""
        try:
            ended = await self._ended()
            self.over = True
            await self._host.record(*self._spent(), *ended)
        except JournalError as error:
            self._host.fail(error)

    async def _ended(self) -> list[EventBody]:
        try:
            output = await self._steps()
        except JournalError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stopped or task is None or task.cancelling():
                raise
            # Nobody stopped the run: something in the step was cancelled, and with it the step.
            return [SessionStatus(status="failed", error="the step was cancelled from within")]
        except (Exception, SystemExit) as error:
            return [SessionStatus(status="failed", error=_told(error))]
        return [
            MessageAdded(role="assistant", text=output.model_dump_json(indent=2)),
            SessionStatus(status="done"),
        ]

    async def _steps(self) -> BaseModel:
        runtime = self._runtime
        while True:
            if self._stopped:
                raise asyncio.CancelledError
            asks = runtime.suspended
            self._gate.begin(self._turn())
            if asks is not None:
                answer = await self._answer(asks)
                await runtime.resume(self._ctx, asks.tool_id, answer, call_id=asks.call_id)
                await self._record(asks.agent)
                continue
            node = next_up(runtime.graph.nodes, runtime.states, runtime.states)
            self._check_limits(node)
            match await runtime.next(self._ctx):
                case Done(output=output):
                    return output
                case _:
                    assert node is not None
                    await self._record(" + ".join(state.key for state in node.inputs))

    def _turn(self) -> int:
        """The number of the conversation that has the word, or would have it next."""
        begun = len({entry.session for entry in self._runtime.history.entries})
        return begun if self._snapshot.agent is not None else begun + 1

    def _check_limits(self, node: Node | None) -> None:
        if node is None:
            return
        limits = self._limits
        turn = isinstance(node, Agent)
        if limits.max_steps is not None and self._taken >= limits.max_steps:
            raise LimitExceeded("max_steps", limits.max_steps)
        if limits.max_turns is not None and turn and self._turns >= limits.max_turns:
            raise LimitExceeded("max_turns", limits.max_turns)
        if limits.max_seconds is not None and time.monotonic() - self._began >= limits.max_seconds:
            raise LimitExceeded("max_seconds", limits.max_seconds)
        self._taken += 1
        self._turns += turn

    async def _record(self, node: str) -> None:
        """Make the step that `node` took durable."""
        body, snapshot = self._stepped(self._step + 1, node), self._runtime.snapshot()
        await self._host.record(*self._spent(), body)
        self._step, self._snapshot, self.waits = body.step, snapshot, body.waits
        self._said = len(self._runtime.history.entries)

    def _stepped(self, step: int, node: str | None) -> FlowStepped:
        """Event of step number `step`, which `node` took: the run's snapshot and what its agents said."""
        runtime = self._runtime
        said = runtime.history.entries[self._said :]
        waits = None if runtime.suspended is None else self._id_of(runtime.suspended, step)
        done = runtime.states == (runtime.graph.gives.key,) and runtime.suspended is None
        return stepped(step, node, runtime.snapshot(), said, waits=waits, done=done)

    def _spent(self) -> list[EventBody]:
        """Usage of model calls since the last time this was called, as events."""
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

    def _id_of(self, asks: Suspended, step: int) -> str:
        """The id of the call that a person has to answer; none that a model chose can be like it."""
        if asks.call_id is None:
            return f"{asks.tool_id}#{step}"
        call_id = self._gate.id_of(asks.call_id)
        return call_id if asks.kind == "approval" else f"{ASKED}{call_id}"

    async def _answer(self, asks: Suspended) -> JsonValue | BaseModel:
        """Wait for a person, in the queue with everybody else's requests."""
        waits = self.waits
        assert waits is not None
        if asks.call_id is not None:
            self._gate.take_up(asks.call_id, waits.removeprefix(ASKED))
        if asks.kind != "approval":
            return await self._filled_in(asks, waits)
        # An earlier host had been told of them.
        self._gate.offered(self._runtime.tools(self._ctx))
        tool = asks.tool_id.rpartition("::")[2]
        decided = await self._host.calls.submit(waits, tool, asks.args or {})
        return Approve() if decided.outcome == "allow" else Deny(reason=decided.reason or "")

    async def _filled_in(self, asks: Suspended, waits: str) -> JsonValue:
        """A person's answer. One that the record has is not asked for again."""
        answers, decided, numbers = self._host.answers, self._host.calls.index.decided, count(2)
        known = waits
        while known in decided and known not in answers:
            known = f"{waits}@{next(numbers)}"  # that one was denied, and the run stood
        answer = answers.get(known) or await self._asked(asks, known)
        denied = None if answer.denied is None else _denial(asks, answer)
        payload = payload_of(asks, answer.filled_in, answer.by, denied)
        if known not in decided:
            shown = question_of(asks, known).call.input
            body = _decided(asks, known, shown, approved_by=(answer.by,), denied=denied)
            output = to_json(payload).decode()
            result = CallResult(call_id=known, tool=asks.tool_id, output=output, is_error=False)
            await self._host.record(body, *(() if denied else (result,)))
        if denied is not None and asks.kind != "tool":
            raise StepDeniedError(denied)
        return payload

    async def _asked(self, asks: Suspended, call_id: str) -> Answer:
        """Wait for the answer of an operator, or for the deadline, which counts as a denial."""
        question = question_of(asks, call_id)
        stands = self._host.state.calls.get(call_id)
        if stands is None or stands.status not in UNDECIDED:
            shown = dict(question.call.input)
            call = CallRecord.model_validate({"call_id": call_id, "tool": asks.tool_id, "input": shown})
            await self._host.record(MessageAdded(role="assistant", calls=(call,)))
        wanted = wanted_of(asks, self._runtime.graph)
        while True:
            answer = await self._host.questions.ask(question, preview=None, via=None, wanted=wanted)
            if answer.approved:
                return self._host.answers[call_id]
            if not answer.again:
                return Answer({}, answer.by or "", denied=answer.reason or "")


def _told(error: BaseException) -> str:
    """Error of a step as text, with the node where it happened."""
    known = isinstance(error, FlowError)
    text = str(error) if known else f"{type(error).__name__}: {error}"
    return " ".join((text, *(f"({note})" for note in getattr(error, "__notes__", ()))))


def _denial(asks: Suspended, answer: Answer) -> str:
    by = f" by {answer.by}" if answer.by else ""
    why = f": {answer.denied}" if answer.denied else ""
    return f"{asks.tool_id} was denied{by}{why}"


def _decided(
    asks: Suspended,
    call_id: str,
    shown: Mapping[str, object],
    *,
    approved_by: tuple[str, ...],
    denied: str | None,
) -> CallDecided:
    return CallDecided.model_validate(
        {
            "call_id": call_id,
            "tool": asks.tool_id,
            "input": dict(shown),
            "names": (asks.tool_id,),
            "outcome": "block" if denied else "allow",
            "mode": "enforce",
            "reason": denied,
            "approved_by": () if denied else approved_by,
        }
    )
