"""The calls of an agent whose loop runs elsewhere: asked, repeated, taken back, answered, settled.

A call's id stands for one tool and one input for ever. What the record has decided about it is the
answer, as often as it is asked; what the record does not have was never answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from .gate.types import GateDecision, Mode, ResultRecord, ToolResult
from .history.errors import JournalError
from .history.events import ApprovalRequested, ApprovalWithdrawn, CallDecided, EventBody, MessageAdded
from .history.parts import CallRecord
from .history.quick import made, updated
from .history.state import SessionState
from .history.transcript import UNDECIDED
from .net import ToolCall
from .own_json import copied, own_input
from .refusals import (
    CallIdUsed,
    CallWithdrawn,
    ResultRefusedError,
    UnknownCallError,
    UnknownSessionError,
)

NOT_RUN = "Tool call not executed"

_CALL = CallRecord(call_id="", tool="", input={})
_PROPOSED = MessageAdded(role="assistant")
"""What is filled in without asking pydantic again about what is known to be JSON."""


class CallAnswer(BaseModel):
    """What an agent elsewhere may do with its call: `allow` to run it with exactly `input`, or `block`.

    `edited` says that a person changed the input, `repeated` that the call had been asked before.
    `reason` is for the model. In shadow mode everything is allowed, and `would` is what enforce mode had
    made of it.
    """

    model_config = ConfigDict(frozen=True)

    outcome: Literal["allow", "block"]
    input: dict[str, JsonValue]
    edited: bool = False
    reason: str | None = None
    mode: Mode = "enforce"
    repeated: bool = False
    would: Literal["allow", "block", "ask"] | None = None


class Host(Protocol):
    """The session whose calls these are; see `OutsideSession`."""

    id: str

    @property
    def state(self) -> SessionState: ...

    @property
    def now(self) -> datetime: ...

    async def record(self, *bodies: EventBody) -> None: ...

    def hand_over(self, *bodies: EventBody) -> asyncio.Future[None]: ...

    async def decide(self, call: ToolCall) -> GateDecision: ...

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord: ...


@dataclass(slots=True)
class CallBook:
    """What a session's record says of its calls, by id: which call it is, and what was decided."""

    asked: dict[str, CallRecord] = field(default_factory=dict[str, CallRecord])
    decided: dict[str, CallDecided] = field(default_factory=dict[str, CallDecided])

    def take(self, body: EventBody) -> None:
        """Move on by one event."""
        match body:
            case MessageAdded(calls=calls):
                for call in calls:
                    self.asked.setdefault(call.call_id, call)
            case CallDecided():
                self.decided[body.call_id] = body
            case _:
                pass


def digest(tool: str, arguments: Mapping[str, JsonValue]) -> bytes:
    """What two calls have in common only when they are the same; `1` and `1.0` are not."""
    return sha256(json.dumps([tool, arguments], sort_keys=True).encode()).digest()


def answer_of(decided: CallDecided, *, repeated: bool) -> CallAnswer:
    """A recorded decision as the agent gets it."""
    shadow = decided.mode == "shadow"
    fields = {
        "outcome": "block" if is_blocked(decided) else "allow",
        "input": copied(decided.input),
        "edited": decided.edited,
        "reason": decided.reason,
        "mode": decided.mode,
        "repeated": repeated,
        "would": decided.outcome if shadow else None,
    }
    return made(CallAnswer, fields)


def is_blocked(decided: CallDecided) -> bool:
    """Whether a decision keeps a call from running; in shadow mode none does."""
    return decided.outcome == "block" and decided.mode != "shadow"


_How: TypeAlias = Literal["withdrawn", "denied", "closed"]


@dataclass(slots=True)
class _Asked:
    """A call on its way through the gate; `ending` is how and why somebody ended that."""

    call: CallRecord
    judging: asyncio.Task[CallDecided] = field(init=False)
    proposed: asyncio.Future[None] | None = None
    ending: tuple[_How, str] | None = None
    at_gate: bool = False

    @property
    def is_lost(self) -> bool:
        """It could not be recorded that the call was made."""
        proposed = self.proposed
        return proposed is not None and proposed.done() and proposed.exception() is not None

    def stop(self, how: _How, why: str) -> None:
        """End it, where it waits for its decision. What is being recorded comes to its end."""
        if self.ending is None:
            self.ending = how, why
            # What the gate was told before this it hears first.
            asyncio.get_running_loop().call_soon(self._leave_gate)

    def _leave_gate(self) -> None:
        if self.at_gate:
            self.judging.cancel()


class OutsideCalls:
    """See the module."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.book = CallBook()
        self._asked: dict[str, _Asked] = {}
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
        if not call_id or not tool:
            raise ValueError("A call needs an id and the name of a tool")
        given = own_input(arguments)
        while (asked := self._asked.get(call_id)) is not None and asked.ending is not None:
            await asyncio.wait([asked.judging])
        known = self.book.asked.get(call_id) if asked is None else asked.call
        if known is not None and digest(known.tool, known.input) != digest(tool, given):
            raise CallIdUsed(self._host.id, call_id)
        self._check_open()
        if (decided := self.book.decided.get(call_id)) is not None:
            return answer_of(decided, repeated=True)
        if asked is not None:
            return answer_of(await asyncio.shield(asked.judging), repeated=True)
        asked = self._begin(updated(_CALL, {"call_id": call_id, "tool": tool, "input": given}))
        return answer_of(await asyncio.shield(asked.judging), repeated=known is not None)

    def _begin(self, call: CallRecord) -> _Asked:
        asked = self._asked[call.call_id] = _Asked(call)
        judging = self._judge(asked)
        asked.judging = asyncio.get_running_loop().create_task(judging, name=f"call {call.call_id}")

        def done(task: asyncio.Task[CallDecided]) -> None:
            self._asked.pop(call.call_id, None)
            if not task.cancelled():
                task.exception()  # whoever asked may have gone: then nobody else looks

        asked.judging.add_done_callback(done)
        return asked

    async def _judge(self, asked: _Asked) -> CallDecided:
        """The decision on a call, durable. The gate is left alone once it has decided."""
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
        return decided

    async def _decided(self, asked: _Asked) -> Exception | None:
        """Have the gate decide, unless somebody ends that; what went wrong there."""
        call = asked.call
        if asked.ending is not None:
            return None
        asked.at_gate = True
        try:
            await self._host.decide(ToolCall(call.call_id, call.tool, copied(call.input)))
        except asyncio.CancelledError:
            if asked.ending is None:
                raise
            asked.judging.uncancel()
        except Exception as error:
            return error
        finally:
            asked.at_gate = False
        return None

    def _propose(self, call: CallRecord) -> asyncio.Future[None] | None:
        """Record the call as the agent made it, unless the record has it and it is open."""
        stands = self._host.state.calls.get(call.call_id)
        if stands is not None and stands.status in UNDECIDED:
            return None
        return self._host.hand_over(updated(_PROPOSED, {"calls": (call,)}))

    async def _ended(self, call: CallRecord, how: _How, why: str) -> None:
        """Record that a call was ended before its decision. Raises unless that decides it."""
        call_id = call.call_id
        if how == "closed":
            raise UnknownSessionError(f"Call '{call_id}' was not decided and must not run: {why}")
        if any(asked.call_id == call_id for asked in self._host.state.approvals.values()):
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

    # Ends

    async def withdraw(self, call_id: str, reason: str) -> None:
        """The agent waits no more for this call. What was decided stays decided."""
        self._check_open()
        asked = self._asked.get(call_id)
        if asked is not None:
            await self._end([asked], "withdrawn", reason.strip() or "the agent took it back")
        elif call_id not in self.book.asked:
            raise UnknownCallError(self._host.id, call_id)

    async def deny_all(self, why: str) -> None:
        """Block whatever waits for a person."""
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

    async def _end(self, every: list[_Asked], how: _How, why: str) -> None:
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
