"""Calls of an external agent: decided, repeated, withdrawn, answered, settled.

A call's id names one tool and one input for ever. What the record has decided about it is the answer, as
often as it is asked for; what the record does not have was never answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, Protocol, TypeAlias

from pydantic import JsonValue

from ..gate.phases import PendingQuestion
from ..gate.state.recorder import RecordedDecision
from ..gate.types import GateDecision, ResultRecord, ToolResult
from ..history.errors import JournalError
from ..history.fold.transcript import UNDECIDED
from ..history.model.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    EventBody,
    MessageAdded,
)
from ..history.model.fast_models import copy_with
from ..history.model.records import CallRecord
from ..history.model.state import SessionState
from ..net.net import ToolCall
from ..recording.records import copied, own_input
from .call_answers import NO_RESULT, CallAnswer, CallIndex, answer_of, digest, is_blocked
from .errors import CallIdUsed, CallWithdrawn, ResultRefusedError, UnknownCallError, UnknownSessionError

# A call of an external agent on its way through the gate.


EndingKind: TypeAlias = Literal["withdrawn", "denied", "closed"]


@dataclass(slots=True)
class OpenCall:
    """A call on its way through the gate; `ending` is how and why that was ended early.

    `decided` is done once its decision is durable, `proposed` once the call itself is, where that was
    recorded before its decision.
    """

    call: CallRecord
    decided: asyncio.Future[None] = field(init=False)
    proposed: asyncio.Future[None] | None = None
    ending: tuple[EndingKind, str] | None = None
    at_gate: bool = False
    is_decided: bool = False

    @property
    def is_lost(self) -> bool:
        """It could not be recorded that the call was made."""
        proposed = self.proposed
        return proposed is not None and proposed.done() and proposed.exception() is not None

    def stop(self, how: EndingKind, why: str) -> None:
        """End it, where it waits for its decision. What is being recorded comes to its end."""
        if self.ending is None:
            self.ending = how, why
            # What the gate was told before this it hears first.
            asyncio.get_running_loop().call_soon(self._leave_gate)

    def _leave_gate(self) -> None:
        if self.at_gate:
            self.decided.cancel()


NOT_RUN = "Tool call not executed"
_CALL = CallRecord(call_id="", tool="", input={})
_PROPOSED = MessageAdded(role="assistant")
"""Templates to be filled in without validating again what is known to be JSON."""


def _tool_call(call: CallRecord) -> ToolCall:
    """A call as the gate gets it, with an input of its own."""
    return ToolCall(call.call_id, call.tool, copied(call.input))


class CallHost(Protocol):
    """The session whose calls these are; see `SubmittedSession`."""

    id: str
    renews_ids: ClassVar[bool]

    @property
    def state(self) -> SessionState: ...

    @property
    def now(self) -> datetime: ...

    async def record(self, *bodies: EventBody) -> None: ...

    def hand_over(self, *bodies: EventBody) -> asyncio.Future[None]: ...

    async def decide(self, call: ToolCall) -> GateDecision: ...

    def try_decide(self, call: ToolCall) -> RecordedDecision | PendingQuestion | None: ...

    async def ask(self, call: ToolCall, question: PendingQuestion) -> GateDecision: ...

    async def settle(
        self, result: ToolResult, output: str, seconds: float, *, unknown: bool = False
    ) -> ResultRecord: ...


class SubmittedCalls:
    """Calls of one session of an external agent, from the gate's decision to the result."""

    def __init__(self, host: CallHost) -> None:
        self._host = host
        self.index = CallIndex()
        self._open: dict[str, OpenCall] = {}
        self._settling: dict[str, tuple[tuple[str, bool], asyncio.Task[None]]] = {}
        self._since: dict[str, datetime] = {}
        self._unasked: set[str] = set()
        self._closed: str | None = None

    def note_written(self, body: EventBody) -> None:
        """The record has this event."""
        self.index.take(body)
        if isinstance(body, CallDecided):
            self._since[body.call_id] = self._host.now

    def note_lost(self, body: EventBody) -> None:
        """The record could not take this event."""
        if isinstance(body, ApprovalRequested):
            self._unasked.add(body.approval_id)

    def check(self, bodies: Iterable[EventBody]) -> None:
        """Nothing may be recorded of a call or request that could not be recorded itself.

        Raises `JournalError`.
        """
        for body in bodies:
            match body:
                case CallDecided() | ApprovalRequested():
                    asked = self._open.get(body.call_id)
                    lost = asked is not None and asked.is_lost
                case ApprovalWithdrawn():
                    lost = body.approval_id in self._unasked
                case _:
                    lost = False
            if lost:
                raise JournalError("what it is about could not be recorded")

    # Calls

    def try_decide(
        self, call_id: str, tool: str, arguments: Mapping[str, JsonValue]
    ) -> asyncio.Future[CallAnswer] | PendingQuestion | None:
        """Decide a call that needs no approval: its answer, once it is durable.

        For a call that needs approval its question, and nothing has happened. `None` for one that is
        decided or on its way, and where the gate has to be set back first: `submit`. Raises as that.
        """
        call, known = self._call_record(call_id, tool, arguments)
        if call.call_id in self._open or call.call_id in self.index.decided:
            return None
        reached = self._try(call)
        return self._answer_to(reached, repeated=known) if isinstance(reached, OpenCall) else reached

    def submit(
        self, call_id: str, tool: str, arguments: Mapping[str, JsonValue]
    ) -> asyncio.Future[CallAnswer]:
        """The answer to a call, once it is durable; cancelling it takes nothing back.

        A call that needs no approval is decided here and now. Raises `CallIdUsed` where the call under
        this id is another one, `UnknownSessionError` after `close`, `ValueError` for a call that is none.
        """
        loop = asyncio.get_running_loop()
        call, known = self._call_record(call_id, tool, arguments)
        open_call = self._open.get(call.call_id)
        if open_call is not None and open_call.ending is not None:
            again = self._submit_after(open_call, call_id, tool, arguments)
            return loop.create_task(again, name=f"call {call_id}")
        if call.call_id in self.index.decided:
            answer: asyncio.Future[CallAnswer] = loop.create_future()
            answer.set_result(self._answer(call.call_id, repeated=True))
            return answer
        if open_call is None:
            reached = self._try(call)
            open_call = reached if isinstance(reached, OpenCall) else self._wait(call, reached)
        return self._answer_to(open_call, repeated=known)

    def is_decided(self, call_id: str) -> bool:
        """Tell whether a submitted call waits for nothing but the record of its decision."""
        call_id = self.index.current(call_id)
        open_call = self._open.get(call_id)
        return call_id in self.index.decided if open_call is None else open_call.is_decided

    async def _submit_after(
        self, ending: OpenCall, call_id: str, tool: str, arguments: Mapping[str, JsonValue]
    ) -> CallAnswer:
        await asyncio.wait([ending.decided])
        return await self.submit(call_id, tool, arguments)

    def _call_record(
        self, own: str, tool: str, arguments: Mapping[str, JsonValue]
    ) -> tuple[CallRecord, bool]:
        """The call that an agent makes under its `own` id, and whether it was made before."""
        if not own or not tool:
            raise ValueError("A call needs an id and the name of a tool")
        index, call_id = self.index, self._id_of(own)
        given = own_input(arguments)
        open_call = self._open.get(call_id)
        known = index.asked.get(call_id) if open_call is None else open_call.call
        if known is not None and digest(known.tool, known.input) != digest(tool, given):
            raise CallIdUsed(self._host.id, call_id)
        self._check_open()
        made_as = None if own == call_id else own
        fields = {"call_id": call_id, "tool": tool, "input": given, "made_as": made_as}
        return copy_with(_CALL, fields), known is not None

    def _id_of(self, own: str) -> str:
        """The id in the record of the call that an agent makes now under its `own` id.

        A call whose result is recorded is over: the next under its id is another one (G-76).
        """
        index, call_id = self.index, self.index.current(own)
        foreign = call_id == own and own in index.renamed
        over = call_id in index.settled or call_id in self._settling
        return index.rename(own) if self._host.renews_ids and (foreign or over) else call_id

    def _answer(self, call_id: str, *, repeated: bool) -> CallAnswer:
        return answer_of(self.index.decided[call_id], repeated=repeated)

    def _answer_to(self, open_call: OpenCall, *, repeated: bool) -> asyncio.Future[CallAnswer]:
        """The answer to a call that is on its way, once its decision is durable."""
        answer: asyncio.Future[CallAnswer] = asyncio.get_running_loop().create_future()
        call_id = open_call.call.call_id

        def done(decided: asyncio.Future[None]) -> None:
            if answer.done():
                return
            if decided.cancelled():
                answer.cancel()
            elif (failure := decided.exception()) is not None:
                answer.set_exception(failure)
            elif call_id not in self.index.decided:
                answer.set_exception(
                    JournalError(f"Call '{call_id}' was not decided: it is not recorded")
                )
            else:
                answer.set_result(self._answer(call_id, repeated=repeated))

        open_call.decided.add_done_callback(done)
        return answer

    def _try(self, call: CallRecord) -> OpenCall | PendingQuestion | None:
        """Have the gate decide a call that needs no approval; see `try_decide`.

        The call and its decision are recorded together or not at all.
        """
        open_call = self._open[call.call_id] = OpenCall(call)
        reached = self._host.try_decide(_tool_call(call))
        if isinstance(reached, RecordedDecision):
            open_call.is_decided = True
            self._follow(open_call, asyncio.ensure_future(reached.recorded))
            return open_call
        del self._open[call.call_id]
        return reached

    def _wait(self, call: CallRecord, question: PendingQuestion | None) -> OpenCall:
        """Have a call decided that needs an answer to `question`, or that the gate is not ready for."""
        open_call = self._open[call.call_id] = OpenCall(call)
        deciding = self._decide(open_call, question)
        self._follow(
            open_call, asyncio.get_running_loop().create_task(deciding, name=f"call {call.call_id}")
        )
        return open_call

    def _follow(self, open_call: OpenCall, decided: asyncio.Future[None]) -> None:
        open_call.decided = decided

        def done(decided: asyncio.Future[None]) -> None:
            self._open.pop(open_call.call.call_id, None)
            if not decided.cancelled():
                decided.exception()  # its caller may have gone: then this is the only look

        decided.add_done_callback(done)

    def unrecorded(self, call_id: str) -> Sequence[EventBody]:
        """The call as its agent made it, where it is to be recorded together with its decision."""
        open_call = self._open.get(call_id)
        proposed = None
        if open_call is not None and open_call.proposed is None:
            proposed = self._proposed(open_call.call)
        return () if proposed is None else (proposed,)

    async def _decide(self, open_call: OpenCall, question: PendingQuestion | None) -> None:
        """Returns once the decision on a call is durable. The gate is left alone once it has decided."""
        call = open_call.call
        # The decision follows it in the record, or is lost with it: they need not be waited for singly.
        if (proposed := self._proposed(call)) is not None:
            open_call.proposed = self._host.hand_over(proposed)
        problem = await self._pass_gate(open_call, question)
        # Nobody ends it before this: an id whose first call is not in the record could get another one.
        if open_call.proposed is not None:
            await open_call.proposed
        decided = self.index.decided.get(call.call_id)
        if decided is None and open_call.ending is not None:
            await self._record_ending(call, *open_call.ending)
            decided = self.index.decided.get(call.call_id)
        if decided is None:
            raise JournalError(
                f"Call '{call.call_id}' was not decided: {problem or 'it could not be recorded'}"
            ) from problem

    async def _pass_gate(self, open_call: OpenCall, question: PendingQuestion | None) -> Exception | None:
        """Have the gate decide, unless the call is ended early; returns the error, if any."""
        call = _tool_call(open_call.call)
        if open_call.ending is not None:
            return None
        open_call.at_gate = True
        try:
            await (self._host.decide(call) if question is None else self._host.ask(call, question))
        except asyncio.CancelledError:
            if open_call.ending is None:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        except Exception as error:
            return error
        finally:
            open_call.at_gate = False
        return None

    def _proposed(self, call: CallRecord) -> MessageAdded | None:
        """The call as the agent made it, unless the record has it and it is open."""
        stands = self._host.state.calls.get(call.call_id)
        if stands is not None and stands.status in UNDECIDED:
            return None
        return copy_with(_PROPOSED, {"calls": (call,)})

    async def _record_ending(self, call: CallRecord, how: EndingKind, why: str) -> None:
        """Record that a call was ended before its decision. Raises unless that decides it."""
        call_id = call.call_id
        if how == "closed":
            raise UnknownSessionError(f"Call '{call_id}' was not decided and must not run: {why}")
        if self._has_request(call_id):
            # An answer that is just being recorded ends the request by itself.
            await self._host.record()
        if self._has_request(call_id):
            raise JournalError(f"The request about call '{call_id}' could not be withdrawn; try again")
        stands = self._host.state.calls.get(call_id)
        if how == "denied":
            names = (call.tool,) if stands is None else stands.names or (call.tool,)
            denied = CallDecided(
                call_id=call_id,
                tool=call.tool,
                input=call.input,
                names=names,
                outcome="block",
                mode="enforce",
                reason=f"{NOT_RUN}: {why}",
            )
            await self._host.record(denied)
            return
        gone = MessageAdded(
            role="tool", text=f"{NOT_RUN}: {why}", call_id=call_id, tool=call.tool, is_error=True
        )
        await self._host.record(gone)
        raise CallWithdrawn(self._host.id, call_id, why)

    def _has_request(self, call_id: str) -> bool:
        """Tell whether the record has an open approval request about this call."""
        return any(asked.call_id == call_id for asked in self._host.state.approvals.values())

    # Ends

    async def withdraw(self, call_id: str, reason: str) -> None:
        """The agent waits no more for this call. What was decided stays decided."""
        self._check_open()
        call_id = self.index.current(call_id)
        asked = self._open.get(call_id)
        if asked is not None:
            await self._end([asked], "withdrawn", reason.strip() or "the agent took it back")
        elif call_id not in self.index.asked:
            raise UnknownCallError(self._host.id, call_id)

    def why_ended(self, call_id: str) -> str | None:
        """Reason why a call that is on its way was ended before its decision; `None` where it was not."""
        asked = self._open.get(call_id)
        return None if asked is None or asked.ending is None else asked.ending[1]

    async def deny_all(self, why: str) -> None:
        """Block all calls that wait for an operator."""
        await self._end(list(self._open.values()), "denied", why)

    async def close(self, why: str) -> None:
        """Nothing is asked or settled from here on; what is being recorded comes to its end."""
        self._closed = why
        for asked in self._open.values():
            asked.stop("closed", why)
        if under_way := [
            *(asked.decided for asked in self._open.values()),
            *(task for _, task in self._settling.values()),
        ]:
            await asyncio.wait(under_way)

    async def _end(self, every: list[OpenCall], how: EndingKind, why: str) -> None:
        for asked in every:
            asked.stop(how, why)
        for asked in every:
            await asyncio.wait([asked.decided])
            problem = None if asked.decided.cancelled() else asked.decided.exception()
            if isinstance(problem, JournalError):
                raise problem

    def _check_open(self) -> None:
        if self._closed is not None:
            raise UnknownSessionError(f"No live session '{self._host.id}': {self._closed}")

    # Results

    async def result(self, call_id: str, output: str, is_error: bool, seconds: float | None) -> None:
        """Record how a call ended, once; the nets have heard of it when this returns."""
        self._check_open()
        call_id = self.index.current(call_id)
        said = output, is_error
        decided = self.index.decided.get(call_id)
        if decided is None and call_id not in self.index.asked:
            raise UnknownCallError(self._host.id, call_id)
        if decided is None or is_blocked(decided):
            raise ResultRefusedError(self._host.id, call_id, "the call was not allowed")
        before = self._settled(call_id)
        if before is not None and before[0] != said:
            raise ResultRefusedError(self._host.id, call_id, "it has another result already")
        if before is None:
            work = self._settle(decided, said, seconds)
            task = asyncio.get_running_loop().create_task(work, name=f"result {call_id}")
            self._settling[call_id] = said, task
            task.add_done_callback(lambda done: self._forget(call_id, done))
            await asyncio.shield(task)
        elif before[1] is not None:
            await asyncio.shield(before[1])

    @property
    def asking(self) -> Collection[str]:
        """The calls that are on their way through the gate."""
        return self._open.keys()

    async def rest(self, *, but: str | None = None) -> None:
        """The agent's turn is over: what was allowed and has no result may have run, or not.

        The call `but` gets its result later.
        """
        self._check_open()
        but = None if but is None else self.index.current(but)
        state = self._host.state
        running = [each.call_id for each in state.calls.values() if each.status == "running"]
        # What an earlier host allowed is unknown already, and is waited for all the same.
        for call_id in dict.fromkeys([*running, *(each.call_id for each in state.pending)]):
            decided = self.index.decided.get(call_id)
            if decided is not None and call_id != but and call_id not in self._settling:
                gone = ToolResult(call_id, decided.tool, copied(decided.input), True)
                await self._host.settle(gone, NO_RESULT, 0.0, unknown=True)
                self._since.pop(call_id, None)

    def _settled(self, call_id: str) -> tuple[tuple[str, bool], Awaitable[None] | None] | None:
        """The result that a call has, or will have when what is awaited is done."""
        if call_id in self._settling:
            return self._settling[call_id]
        stands = self._host.state.calls[call_id]
        if stands.status not in ("done", "failed"):
            return None
        return (stands.output or "", stands.status == "failed"), None

    async def _settle(self, decided: CallDecided, said: tuple[str, bool], seconds: float | None) -> None:
        call_id, (output, is_error) = decided.call_id, said
        if seconds is None:
            since = self._since.get(call_id)
            seconds = 0.0 if since is None else max(0.0, (self._host.now - since).total_seconds())
        ended = ToolResult(call_id, decided.tool, copied(decided.input), is_error)
        await self._host.settle(ended, output, seconds)
        self._since.pop(call_id, None)

    def _forget(self, call_id: str, task: asyncio.Task[None]) -> None:
        self._settling.pop(call_id, None)
        if not task.cancelled():
            task.exception()
