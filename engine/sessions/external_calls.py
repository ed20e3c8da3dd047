"""Calls of an external agent: decided, repeated, withdrawn, answered, settled.

A call's id names one tool and one input for ever. What the record has decided about it is the answer, as
often as it is asked for; what the record does not have was never answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, Protocol, TypeAlias

from pydantic import JsonValue

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
from .errors import CallIdUsed, CallWithdrawn, ResultRefusedError, UnknownCallError, UnknownSessionError
from .external_answers import NO_RESULT, CallAnswer, CallIndex, answer_of, digest, is_blocked

# A call of an external agent on its way through the gate.


How: TypeAlias = Literal["withdrawn", "denied", "closed"]


@dataclass(slots=True)
class OpenCall:
    """A call on its way through the gate; `ending` is how and why that was ended early.

    Of one that was decided at once `judging` is what its record waits for, else a task.
    """

    call: CallRecord
    judging: asyncio.Future[None] = field(init=False)
    proposed: asyncio.Future[None] | None = None
    ending: tuple[How, str] | None = None
    at_gate: bool = False

    @property
    def is_lost(self) -> bool:
        """It could not be recorded that the call was made."""
        proposed = self.proposed
        return proposed is not None and proposed.done() and proposed.exception() is not None

    def stop(self, how: How, why: str) -> None:
        """End it, where it waits for its decision. What is being recorded comes to its end."""
        if self.ending is None:
            self.ending = how, why
            # What the gate was told before this it hears first.
            asyncio.get_running_loop().call_soon(self._leave_gate)

    def _leave_gate(self) -> None:
        if self.at_gate:
            self.judging.cancel()


NOT_RUN = "Tool call not executed"
_CALL = CallRecord(call_id="", tool="", input={})
_PROPOSED = MessageAdded(role="assistant")
"""Templates to be filled in without validating again what is known to be JSON."""


class CallHost(Protocol):
    """The session whose calls these are; see `OutsideSession`."""

    id: str
    renews_ids: ClassVar[bool]

    @property
    def state(self) -> SessionState: ...

    @property
    def now(self) -> datetime: ...

    async def record(self, *bodies: EventBody) -> None: ...

    def hand_over(self, *bodies: EventBody) -> asyncio.Future[None]: ...

    async def decide(self, call: ToolCall) -> GateDecision: ...

    def decide_at_once(self, call: ToolCall, *before: EventBody) -> asyncio.Future[None] | None: ...

    async def settle(
        self, result: ToolResult, output: str, seconds: float, *, unknown: bool = False
    ) -> ResultRecord: ...


class OutsideCalls:
    """Calls of one session of an external agent, from the gate's decision to the result."""

    def __init__(self, host: CallHost) -> None:
        self._host = host
        self.book = CallIndex()
        self._asked: dict[str, OpenCall] = {}
        self._settling: dict[str, tuple[tuple[str, bool], asyncio.Task[None]]] = {}
        self._since: dict[str, datetime] = {}
        self._unasked: set[str] = set()
        self._closed: str | None = None

    def heard(self, body: EventBody) -> None:
        """The record has this event."""
        self.book.take(body)
        if isinstance(body, CallDecided):
            self._since[body.call_id] = self._host.now

    def lost(self, body: EventBody) -> None:
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
                    asked = self._asked.get(body.call_id)
                    lost = asked is not None and asked.is_lost
                case ApprovalWithdrawn():
                    lost = body.approval_id in self._unasked
                case _:
                    lost = False
            if lost:
                raise JournalError("what it is about could not be recorded")

    # Calls

    async def ask(self, call_id: str, tool: str, arguments: Mapping[str, JsonValue]) -> CallAnswer:
        """The answer to a call, once there is one. Cancelling this takes nothing back."""
        own, call_id = call_id, self._id_of(call_id)
        while (asked := self._asked.get(call_id)) is not None and asked.ending is not None:
            await asyncio.wait([asked.judging])
        given, known = self._known(call_id, tool, arguments)
        if call_id in self.book.decided:
            return self._answer(call_id, repeated=True)
        if asked is None:
            asked = self._begin(self._made(own, call_id, tool, given))
        else:
            known = asked.call
        await asyncio.shield(asked.judging)
        return self._answer(call_id, repeated=known is not None)

    def ask_at_once(
        self,
        call_id: str,
        tool: str,
        arguments: Mapping[str, JsonValue],
        told: Callable[[CallAnswer | BaseException], None],
    ) -> bool:
        """Decide a new call without waiting; `told` gets its answer once that is durable, or the error.

        False where the call needs approval or has to wait, and nothing has happened: `ask`. Raises as
        `ask` does.
        """
        own, call_id = call_id, self._id_of(call_id)
        given, known = self._known(call_id, tool, arguments)
        if known is not None:
            return False
        asked = OpenCall(self._made(own, call_id, tool, given))
        if not self._decides(asked):
            return False

        def done(recorded: asyncio.Future[None]) -> None:
            self._asked.pop(call_id, None)
            failure = recorded.exception()
            told(self._answer(call_id, repeated=False) if failure is None else failure)

        asked.judging.add_done_callback(done)
        return True

    def _id_of(self, own: str) -> str:
        """The id in the record of the call that an agent makes now under its `own` id.

        A call whose result is recorded is over: the next under its id is another one (G-76).
        """
        book, call_id = self.book, self.book.current(own)
        foreign = call_id == own and own in book.renamed
        over = call_id in book.settled or call_id in self._settling
        return book.rename(own) if self._host.renews_ids and (foreign or over) else call_id

    def _made(self, own: str, call_id: str, tool: str, given: dict[str, JsonValue]) -> CallRecord:
        made_as = None if own == call_id else own
        return copy_with(_CALL, {"call_id": call_id, "tool": tool, "input": given, "made_as": made_as})

    def _known(
        self, call_id: str, tool: str, arguments: Mapping[str, JsonValue]
    ) -> tuple[dict[str, JsonValue], CallRecord | None]:
        """A call's own input, and the same call if it was made under this id before.

        Raises `CallIdUsed` where the call under this id is another one.
        """
        if not call_id or not tool:
            raise ValueError("A call needs an id and the name of a tool")
        given = own_input(arguments)
        asked = self._asked.get(call_id)
        known = self.book.asked.get(call_id) if asked is None else asked.call
        if known is not None and digest(known.tool, known.input) != digest(tool, given):
            raise CallIdUsed(self._host.id, call_id)
        self._check_open()
        return given, known

    def _answer(self, call_id: str, *, repeated: bool) -> CallAnswer:
        return answer_of(self.book.decided[call_id], repeated=repeated)

    def _decides(self, asked: OpenCall) -> bool:
        """Have the gate decide a call that needs no operator, and hand it over with its decision.

        The two are recorded together or not at all. False where that cannot be, and nothing has happened.
        """
        call = asked.call
        proposed = self._proposed(call)
        before = () if proposed is None else (proposed,)
        self._asked[call.call_id] = asked
        recorded = self._host.decide_at_once(
            ToolCall(call.call_id, call.tool, copied(call.input)), *before
        )
        if recorded is None:
            del self._asked[call.call_id]
            return False
        asked.judging = recorded
        return True

    def _begin(self, call: CallRecord) -> OpenCall:
        asked = OpenCall(call)
        if not self._decides(asked):
            self._asked[call.call_id] = asked
            judging = self._judge(asked)
            asked.judging = asyncio.get_running_loop().create_task(judging, name=f"call {call.call_id}")

        def done(judging: asyncio.Future[None]) -> None:
            self._asked.pop(call.call_id, None)
            if not judging.cancelled():
                judging.exception()  # its caller may have gone: then this is the only look

        asked.judging.add_done_callback(done)
        return asked

    async def _judge(self, asked: OpenCall) -> None:
        """Returns once the decision on a call is durable. The gate is left alone once it has decided."""
        call = asked.call
        # The decision follows it in the record, or is lost with it: they need not be waited for singly.
        asked.proposed = self._propose(call)
        problem = await self._decided(asked)
        # Nobody ends it before this: an id whose first call is not in the record could get another one.
        if asked.proposed is not None:
            await asked.proposed
        decided = self.book.decided.get(call.call_id)
        if decided is None and asked.ending is not None:
            await self._ended(call, *asked.ending)
            decided = self.book.decided.get(call.call_id)
        if decided is None:
            raise JournalError(
                f"Call '{call.call_id}' was not decided: {problem or 'it could not be recorded'}"
            ) from problem

    async def _decided(self, asked: OpenCall) -> Exception | None:
        """Have the gate decide, unless the call is ended early; returns the error, if any."""
        call = asked.call
        if asked.ending is not None:
            return None
        asked.at_gate = True
        try:
            await self._host.decide(ToolCall(call.call_id, call.tool, copied(call.input)))
        except asyncio.CancelledError:
            if asked.ending is None:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        except Exception as error:
            return error
        finally:
            asked.at_gate = False
        return None

    def _propose(self, call: CallRecord) -> asyncio.Future[None] | None:
        """Record the call as the agent made it, unless the record has it and it is open."""
        proposed = self._proposed(call)
        return None if proposed is None else self._host.hand_over(proposed)

    def _proposed(self, call: CallRecord) -> MessageAdded | None:
        stands = self._host.state.calls.get(call.call_id)
        if stands is not None and stands.status in UNDECIDED:
            return None
        return copy_with(_PROPOSED, {"calls": (call,)})

    async def _ended(self, call: CallRecord, how: How, why: str) -> None:
        """Record that a call was ended before its decision. Raises unless that decides it."""
        call_id = call.call_id
        if how == "closed":
            raise UnknownSessionError(f"Call '{call_id}' was not decided and must not run: {why}")
        if self._is_open(call_id):
            # An answer that is just being recorded ends the request by itself.
            await self._host.record()
        if self._is_open(call_id):
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

    def _is_open(self, call_id: str) -> bool:
        """Tell whether the record has an open approval request about this call."""
        return any(asked.call_id == call_id for asked in self._host.state.approvals.values())

    # Ends

    async def withdraw(self, call_id: str, reason: str) -> None:
        """The agent waits no more for this call. What was decided stays decided."""
        self._check_open()
        call_id = self.book.current(call_id)
        asked = self._asked.get(call_id)
        if asked is not None:
            await self._end([asked], "withdrawn", reason.strip() or "the agent took it back")
        elif call_id not in self.book.asked:
            raise UnknownCallError(self._host.id, call_id)

    def why_ended(self, call_id: str) -> str | None:
        """Reason why a call that is on its way was ended before its decision; `None` where it was not."""
        asked = self._asked.get(call_id)
        return None if asked is None or asked.ending is None else asked.ending[1]

    async def deny_all(self, why: str) -> None:
        """Block all calls that wait for an operator."""
        await self._end(list(self._asked.values()), "denied", why)

    async def close(self, why: str) -> None:
        """Nothing is asked or settled from here on; what is being recorded comes to its end."""
        self._closed = why
        for asked in self._asked.values():
            asked.stop("closed", why)
        if under_way := [
            *(asked.judging for asked in self._asked.values()),
            *(task for _, task in self._settling.values()),
        ]:
            await asyncio.wait(under_way)

    async def _end(self, every: list[OpenCall], how: How, why: str) -> None:
        for asked in every:
            asked.stop(how, why)
        for asked in every:
            await asyncio.wait([asked.judging])
            problem = None if asked.judging.cancelled() else asked.judging.exception()
            if isinstance(problem, JournalError):
                raise problem

    def _check_open(self) -> None:
        if self._closed is not None:
            raise UnknownSessionError(f"No live session '{self._host.id}': {self._closed}")

    # Results

    async def result(self, call_id: str, output: str, is_error: bool, seconds: float | None) -> None:
        """Record how a call ended, once; the nets have heard of it when this returns."""
        self._check_open()
        call_id = self.book.current(call_id)
        said = output, is_error
        decided = self.book.decided.get(call_id)
        if decided is None and call_id not in self.book.asked:
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
        return self._asked.keys()

    async def rest(self, *, but: str | None = None) -> None:
        """The agent's turn is over: what was allowed and has no result may have run, or not.

        The call `but` gets its result later.
        """
        self._check_open()
        but = None if but is None else self.book.current(but)
        state = self._host.state
        running = [each.call_id for each in state.calls.values() if each.status == "running"]
        # What an earlier host allowed is unknown already, and is waited for all the same.
        for call_id in dict.fromkeys([*running, *(each.call_id for each in state.pending)]):
            decided = self.book.decided.get(call_id)
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
