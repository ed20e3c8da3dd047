"""The calls of an agent whose loop runs elsewhere: asked, repeated, taken back, answered, settled.

A call's id stands for one tool and one input for ever. What the record has decided about it is the
answer, as often as it is asked; what the record does not have was never answered.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from .gate.types import GateDecision, Mode, ResultRecord, ToolResult
from .history.errors import JournalError
from .history.events import CallDecided, EventBody, MessageAdded
from .history.parts import CallRecord
from .history.state import SessionState
from .history.transcript import UNDECIDED
from .net import ToolCall
from .records import json_input
from .refusals import (
    CallIdUsed,
    CallWithdrawn,
    ResultRefusedError,
    UnknownCallError,
    UnknownSessionError,
)

NOT_RUN = "Tool call not executed"


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

    async def record(self, *bodies: EventBody, then: Callable[[bool], None] | None = None) -> None: ...

    async def decide(self, call: ToolCall) -> GateDecision: ...

    async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord: ...


@dataclass(slots=True)
class CallBook:
    """What a session's record says of its calls, by id: which call it is, and what was decided."""

    asked: dict[str, bytes] = field(default_factory=dict[str, bytes])
    decided: dict[str, CallDecided] = field(default_factory=dict[str, CallDecided])

    def take(self, body: EventBody) -> None:
        """Move on by one event."""
        match body:
            case MessageAdded(calls=calls):
                for call in calls:
                    self.asked.setdefault(call.call_id, digest(call.tool, call.input))
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
    return CallAnswer(
        outcome="block" if decided.outcome == "block" and not shadow else "allow",
        input=copy.deepcopy(decided.input),
        edited=decided.edited,
        reason=decided.reason,
        mode=decided.mode,
        repeated=repeated,
        would=decided.outcome if shadow else None,
    )


_How: TypeAlias = Literal["withdrawn", "denied", "closed"]


@dataclass(slots=True)
class _Asked:
    """A call on its way through the gate; `ending` is how and why somebody ended that."""

    digest: bytes
    judging: asyncio.Task[CallDecided]
    end: asyncio.Future[tuple[_How, str]]

    @property
    def ending(self) -> tuple[_How, str] | None:
        return self.end.result() if self.end.done() else None

    def stop(self, how: _How, why: str) -> None:
        if not self.end.done():
            self.end.set_result((how, why))


class OutsideCalls:
    """See the module."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.book = CallBook()
        self._asked: dict[str, _Asked] = {}
        self._settling: dict[str, tuple[tuple[str, bool], asyncio.Task[None]]] = {}
        self._since: dict[str, datetime] = {}
        self._closed: str | None = None

    def heard(self, body: EventBody) -> None:
        """The record has this event."""
        self.book.take(body)
        if isinstance(body, CallDecided):
            self._since[body.call_id] = self._host.now

    # Calls

    async def ask(self, call_id: str, tool: str, arguments: Mapping[str, JsonValue]) -> CallAnswer:
        """The answer to a call, once there is one. Cancelling this takes nothing back."""
        if not call_id or not tool:
            raise ValueError("A call needs an id and the name of a tool")
        given = json_input(copy.deepcopy(dict(arguments)))
        mark = digest(tool, given)
        while (asked := self._asked.get(call_id)) is not None and asked.ending is not None:
            await asyncio.wait([asked.judging])
        known = self.book.asked.get(call_id) if asked is None else asked.digest
        if known is not None and known != mark:
            raise CallIdUsed(self._host.id, call_id)
        self._check_open()
        if (decided := self.book.decided.get(call_id)) is not None:
            return answer_of(decided, repeated=True)
        if asked is not None:
            return answer_of(await asyncio.shield(asked.judging), repeated=True)
        asked = self._begin(ToolCall(call_id, tool, given), mark)
        return answer_of(await asyncio.shield(asked.judging), repeated=known is not None)

    def _begin(self, call: ToolCall, mark: bytes) -> _Asked:
        loop = asyncio.get_running_loop()
        end: asyncio.Future[tuple[_How, str]] = loop.create_future()
        judging = loop.create_task(self._judge(call, end), name=f"call {call.tool_call_id}")
        asked = self._asked[call.tool_call_id] = _Asked(mark, judging, end)

        def done(task: asyncio.Task[CallDecided]) -> None:
            self._asked.pop(call.tool_call_id, None)
            if not task.cancelled():
                task.exception()  # whoever asked may have gone: then nobody else looks

        judging.add_done_callback(done)
        return asked

    async def _judge(self, call: ToolCall, end: asyncio.Future[tuple[_How, str]]) -> CallDecided:
        """The decision on a call, durable. The gate is left alone once it has decided."""
        # Nobody ends it before this: an id whose first call is not in the record could get another one.
        await self._propose(call)
        gate = asyncio.ensure_future(self._host.decide(call))
        await asyncio.wait([gate, end], return_when=asyncio.FIRST_COMPLETED)
        if not gate.done():
            gate.cancel()
            await asyncio.wait([gate])
        problem = None if gate.cancelled() else gate.exception()
        if end.done() and call.tool_call_id not in self.book.decided:
            await self._ended(call, *end.result())
        decided = self.book.decided.get(call.tool_call_id)
        if decided is None:
            raise JournalError(
                f"Call '{call.tool_call_id}' was not decided: {problem or 'it could not be recorded'}"
            ) from problem
        return decided

    async def _propose(self, call: ToolCall) -> None:
        """Record the call as the agent made it, unless the record has it and it is open."""
        call_id, arguments = call.tool_call_id, json_input(call.input)
        stands = self._host.state.calls.get(call_id)
        if stands is None or stands.status not in UNDECIDED:
            proposed = CallRecord(call_id=call_id, tool=call.tool_name, input=arguments)
            await self._host.record(MessageAdded(role="assistant", calls=(proposed,)))

    async def _ended(self, call: ToolCall, how: _How, why: str) -> None:
        """Record that a call was ended before its decision. Raises unless that decides it."""
        call_id = call.tool_call_id
        if how == "closed":
            raise UnknownSessionError(f"Call '{call_id}' was not decided and must not run: {why}")
        if any(asked.call_id == call_id for asked in self._host.state.approvals.values()):
            raise JournalError(f"The request about call '{call_id}' could not be withdrawn; try again")
        stands = self._host.state.calls.get(call_id)
        if how == "denied":
            names = (call.tool_name,) if stands is None else stands.names or (call.tool_name,)
            denied = CallDecided(
                call_id=call_id,
                tool=call.tool_name,
                input=json_input(call.input),
                names=names,
                outcome="block",
                mode="enforce",
                reason=f"{NOT_RUN}: {why}",
            )
            await self._host.record(denied)
            return
        gone = MessageAdded(
            role="tool", text=f"{NOT_RUN}: {why}", call_id=call_id, tool=call.tool_name, is_error=True
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
        if decided is None or answer_of(decided, repeated=True).outcome == "block":
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
        ended = ToolResult(call_id, decided.tool, copy.deepcopy(decided.input), is_error)
        await self._host.settle(ended, output, seconds)
        self._since.pop(call_id, None)

    def _forget(self, call_id: str, task: asyncio.Task[None]) -> None:
        self._settling.pop(call_id, None)
        if not task.cancelled():
            task.exception()
