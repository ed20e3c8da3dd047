"""Calls of an external agent: decided, repeated, withdrawn, answered, settled.

A call's id permanently names one tool and one input. The recorded decision is the answer, however often
it is requested. A decision that is not recorded was never sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, Protocol, TypeAlias

from pydantic import JsonValue

from ..approvals.requests import ApprovalRequests
from ..approvals.withdrawals import RETRY, Tasks
from ..core.clock import timer_delay
from ..core.sanitize import visible
from ..gate.decision import PendingQuestion
from ..gate.state.recorder import RecordedDecision
from ..gate.types import GateDecision, ResultRecord, ToolResult
from ..history.errors import JournalError
from ..history.fold.transcript import UNDECIDED
from ..history.journal.journal import Journal
from ..history.model.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallLate,
    CallResult,
    EventBody,
    MessageAdded,
    SessionStatus,
)
from ..history.model.fast_models import copy_with
from ..history.model.records import CallRecord
from ..net.net import ToolCall
from ..recording.ledger import EventRecorder, note_refusal
from ..recording.records import copied, own_input
from .call_answer import CallAnswer
from .call_answers import NO_RESULT, CallIndex, answer_of, digest, is_blocked
from .errors import CallIdUsed, CallWithdrawn, ResultRefusedError, UnknownCallError, UnknownSessionError

log = logging.getLogger(__name__)

EndingKind: TypeAlias = Literal["withdrawn", "denied", "closed"]


@dataclass(slots=True)
class OpenCall:
    """A call in the gate; `ending` is how and why it was ended early.

    `decided` is done once its decision is durable. `proposed` is done once the call itself is durable, if
    it was recorded before its decision. `answers` are the futures of its callers, each with whether the
    call had been made before. `subagent` is the agent's own subagent that made it.
    """

    call: CallRecord
    subagent: str = ""
    decided: asyncio.Future[None] = field(init=False)
    proposed: asyncio.Future[None] | None = None
    ending: tuple[EndingKind, str] | None = None
    at_gate: bool = False
    is_decided: bool = False
    answers: list[tuple[asyncio.Future[CallAnswer], bool]] = field(
        default_factory=list[tuple[asyncio.Future[CallAnswer], bool]]
    )

    @property
    def is_lost(self) -> bool:
        """True if the call could not be recorded."""
        proposed = self.proposed
        return proposed is not None and proposed.done() and proposed.exception() is not None

    def stop(self, kind: EndingKind, reason: str) -> None:
        """End it if it waits for its decision. A decision that is being recorded is completed."""
        if self.ending is None:
            self.ending = kind, reason
            # The gate first processes what it was given before.
            asyncio.get_running_loop().call_soon(self._leave_gate)

    def _leave_gate(self) -> None:
        if self.at_gate:
            self.decided.cancel()


UNGATED = "a tool ran without asking: a result came for call '{}', which never came to the gate"
MOST_ALARMS = 100
"""Maximum number of recorded results without a call in one session; further ones are only rejected."""
NOT_RUN = "Tool call not executed"
ROOM = "its client has gone, and it made room for newer requests of the same token"
"""Reason for withdrawing a late call when no more requests may wait."""
_CALL = CallRecord(call_id="", tool="", input={})
_PROPOSED = MessageAdded(role="assistant")
"""Templates to fill in without validating JSON again."""


def _tool_call(call: CallRecord, subagent: str) -> ToolCall:
    """Return a call for the gate, with its own copy of the input."""
    return ToolCall(call.call_id, call.tool, copied(call.input), subagent=subagent)


class CallHost(EventRecorder, Protocol):
    """The session whose calls these are; see `SubmittedSession`."""

    renews_ids: ClassVar[bool]
    questions: ApprovalRequests
    journal: Journal

    @property
    def now(self) -> datetime: ...

    async def decide(self, call: ToolCall) -> GateDecision: ...

    def try_decide(self, call: ToolCall) -> RecordedDecision | PendingQuestion | None: ...

    async def ask(self, call: ToolCall, question: PendingQuestion) -> GateDecision: ...

    async def settle(
        self, result: ToolResult, output: str, seconds: float, *, unknown: bool = False
    ) -> ResultRecord: ...


class SubmittedCalls:
    """Calls of one session of an external agent, from the gate's decision to the result."""

    # Rarely needed, so most sessions have no sets of their own.
    _unasked: frozenset[str] = frozenset()
    _ungated: frozenset[str] = frozenset()

    def __init__(self, host: CallHost) -> None:
        self._host = host
        self.index = CallIndex()
        self._open: dict[str, OpenCall] = {}
        self._settling: dict[str, tuple[tuple[str, bool], asyncio.Task[None]]] = {}
        self._since: dict[str, datetime] = {}
        self._late: dict[str, asyncio.TimerHandle] = {}
        self._work = Tasks()
        self._closed: str | None = None

    def note_written(self, body: EventBody) -> None:
        """Process an event that is recorded."""
        self.index.take(body)
        if isinstance(body, CallLate):
            self._end_late_in((body.until - self._host.now).total_seconds(), body.call_id)
        if isinstance(body, CallDecided):
            self._since[body.call_id] = self._host.now
            open_call = self._open.get(body.call_id)
            # Otherwise the end of its write answers it.
            if open_call is not None and open_call.is_decided and self._host.journal.is_held:
                self._end_open(open_call, None)

    def note_lost(self, body: EventBody) -> None:
        """Process an event that could not be recorded."""
        if isinstance(body, ApprovalRequested):
            self._unasked |= {body.approval_id}

    def check(self, bodies: Iterable[EventBody]) -> None:
        """Check that no event is about a call or a request that could not be recorded itself.

        Raises `JournalError`.
        """
        for body in bodies:
            match body:
                case CallDecided() | ApprovalRequested():
                    open_call = self._open.get(body.call_id)
                    lost = open_call is not None and open_call.is_lost
                case ApprovalWithdrawn():
                    lost = body.approval_id in self._unasked
                case _:
                    lost = False
            if lost:
                raise JournalError("what it is about could not be recorded")

    # Calls

    def try_decide(
        self, call_id: str, tool: str, arguments: Mapping[str, JsonValue], subagent: str = ""
    ) -> asyncio.Future[CallAnswer] | PendingQuestion | None:
        """Decide a call that needs no approval; return its answer, once it is durable.

        For a call that needs approval, return its question and change nothing. Return `None` if the call
        is decided or in the gate, or if the gate must be reset first; the caller must then use `submit`.
        Raises as `submit` does.
        """
        call, known = self._call_record(call_id, tool, arguments, subagent)
        if call.call_id in self._open or call.call_id in self.index.decided:
            return None
        reached = self._try(call, subagent)
        if not isinstance(reached, OpenCall):
            return reached
        answer: asyncio.Future[CallAnswer] = asyncio.get_running_loop().create_future()
        reached.answers.append((answer, known))
        return answer

    def submit(
        self, call_id: str, tool: str, arguments: Mapping[str, JsonValue], subagent: str = ""
    ) -> asyncio.Future[CallAnswer]:
        """Return the answer to a call, once it is durable; cancelling it takes nothing back.

        A call that needs no approval is decided immediately. A late call that is made again, by the same
        `subagent`, gets the answer to the late call (G-102). Raises `CallIdUsed` if the id belongs to
        another call, `UnknownSessionError` after `close`, `ValueError` for an invalid call.
        """
        answer: asyncio.Future[CallAnswer] = asyncio.get_running_loop().create_future()
        self._submit(answer, call_id, tool, arguments, subagent)
        return answer

    def _submit(
        self,
        answer: asyncio.Future[CallAnswer],
        call_id: str,
        tool: str,
        arguments: Mapping[str, JsonValue],
        subagent: str,
    ) -> None:
        call, known = self._call_record(call_id, tool, arguments, subagent)
        open_call = self._open.get(call.call_id)

        def submit_again(_: object = None) -> None:
            if not answer.done():
                try:
                    self._submit(answer, call_id, tool, arguments, subagent)
                except Exception as error:
                    answer.set_exception(error)

        if open_call is not None and open_call.ending is not None:
            open_call.decided.add_done_callback(submit_again)
        elif (late := self.index.late.get(call.call_id)) is not None and late.until > self._host.now:
            if late.subagent != subagent:
                raise CallIdUsed(self._host.id, call.call_id)
            self._rejoin(call_id, call.call_id, answer, submit_again)
        elif late is not None and open_call is not None:
            # Timers stop while the machine sleeps.
            self._work.start(self._end_late(call.call_id))
            open_call.decided.add_done_callback(submit_again)
        elif call.call_id in self.index.decided:
            answer.set_result(self._answer(call.call_id, repeated=True))
        else:
            if open_call is None:
                reached = self._try(call, subagent)
                if not isinstance(reached, OpenCall):
                    reached = self._wait(call, subagent, reached)
                open_call = reached
            open_call.answers.append((answer, known))

    def _call_record(
        self, own: str, tool: str, arguments: Mapping[str, JsonValue], subagent: str
    ) -> tuple[CallRecord, bool]:
        """Return the call that an agent makes under its `own` id, and whether it was made before."""
        if not own or not tool:
            raise ValueError("A call needs an id and the name of a tool")
        index, call_id = self.index, self._id_of(own)
        own_arguments = own_input(arguments)
        if index.late and call_id not in index.asked and call_id not in self._open:
            late = index.late_like(tool, own_arguments, subagent, self._host.now)
            call_id = call_id if late is None else late
        open_call = self._open.get(call_id)
        known = index.asked.get(call_id) if open_call is None else open_call.call
        if known is not None and digest(known.tool, known.input) != digest(tool, own_arguments):
            raise CallIdUsed(self._host.id, call_id)
        self._check_open()
        made_as = None if own == call_id else own
        fields = {"call_id": call_id, "tool": tool, "input": own_arguments, "made_as": made_as}
        return copy_with(_CALL, fields), known is not None

    def _id_of(self, own: str) -> str:
        """Return the recorded id of the call that an agent makes now under its `own` id.

        A call whose result is recorded is over: the next call under its id gets a new id (G-76).
        """
        index, call_id = self.index, self.index.current(own)
        foreign = call_id == own and own in index.renamed
        over = call_id in index.settled or call_id in self._settling
        return index.rename(own) if self._host.renews_ids and (foreign or over) else call_id

    # Late calls: their client has gone, and the agent may make them again (G-102)

    async def leave(self, call_id: str) -> datetime | None:
        """Note that nobody waits for a call; return until when its request stays open.

        Return `None` if no request may stay open. Raises `JournalError`.
        """
        self._check_open()
        call_id = self.index.current(call_id)
        open_call = self._open.get(call_id)
        if open_call is None or open_call.ending is not None:
            return None
        return await self._host.questions.late.leave(call_id, open_call.subagent)

    def when_over(self, call_id: str, done: Callable[[], object]) -> None:
        """Call `done` once a call is decided or withdrawn."""
        open_call = self._open.get(self.index.current(call_id))
        if open_call is None:
            done()
        else:
            open_call.decided.add_done_callback(lambda _: done())

    def _rejoin(
        self, own: str, call_id: str, answer: asyncio.Future[CallAnswer], resubmit: Callable[[], None]
    ) -> None:
        """Make a call wait for the answer to a late one, which from now on no other call gets."""
        index = self.index
        late, undo = index.late.pop(call_id), index.hand_over(call_id, own)
        if (timer := self._late.pop(call_id, None)) is not None:
            timer.cancel()

        async def work() -> None:
            try:
                await self._host.questions.late.rejoin(call_id, own)
            except JournalError as error:
                index.late[call_id] = late
                self._end_late_in(0.0, call_id)
                undo()
                if not answer.done():
                    answer.set_exception(error)
            else:
                resubmit()

        self._work.start(work())

    def _end_late_in(self, seconds: float, call_id: str) -> None:
        if (timer := self._late.pop(call_id, None)) is not None:
            timer.cancel()
        self._late[call_id] = asyncio.get_running_loop().call_later(
            timer_delay(seconds), lambda: self._work.start(self._end_late(call_id))
        )

    async def _end_late(self, call_id: str) -> None:
        """Withdraw a late call that was not made again in time."""
        self._late.pop(call_id, None)
        late, open_call = self.index.late.get(call_id), self._open.get(call_id)
        if late is None:
            return
        if (remaining := (late.until - self._host.now).total_seconds()) > 0:
            # It is not yet due: see `timer_delay`.
            self._end_late_in(remaining, call_id)
        elif open_call is None:
            self.index.late.pop(call_id, None)
        else:
            until = f"{late.until:%H:%M:%S} UTC"
            reason = f"its client has gone, and the agent did not make the call again by {until}"
            try:
                await self._end([open_call], "withdrawn", reason)
            except JournalError:
                if note_refusal(log, "Late call '%s' is over, and the journal refused it", call_id):
                    self._end_late_in(RETRY, call_id)

    def drop_late(self, call_id: str) -> bool:
        """Start to withdraw a late call in favour of newer ones; return false if that is impossible."""
        open_call, timer = self._open.get(call_id), self._late.pop(call_id, None)
        if timer is None or open_call is None or call_id not in self.index.late:
            if timer is not None:
                self._late[call_id] = timer
            return False
        timer.cancel()
        self._work.start(self._drop(open_call))
        return True

    async def _drop(self, open_call: OpenCall) -> None:
        try:
            await self._end([open_call], "withdrawn", ROOM)
        except JournalError:
            message = "Call '%s' does not make room, because the journal refused it"
            if note_refusal(log, message, open_call.call.call_id):
                self._end_late_in(RETRY, open_call.call.call_id)

    def _answer(self, call_id: str, *, repeated: bool) -> CallAnswer:
        return answer_of(self.index.decided[call_id], repeated=repeated)

    def _try(self, call: CallRecord, subagent: str) -> OpenCall | PendingQuestion | None:
        """Have the gate decide a call that needs no approval; see `try_decide`.

        The call and its decision are recorded together or not at all.
        """
        open_call = self._open[call.call_id] = OpenCall(call, subagent)
        reached = self._host.try_decide(_tool_call(call, subagent))
        if isinstance(reached, RecordedDecision):
            open_call.is_decided = True
            self._follow(open_call, asyncio.ensure_future(reached.recorded))
            return open_call
        del self._open[call.call_id]
        return reached

    def _wait(self, call: CallRecord, subagent: str, question: PendingQuestion | None) -> OpenCall:
        """Start to decide a call that needs an answer to `question`, or for a gate that must be reset."""
        open_call = self._open[call.call_id] = OpenCall(call, subagent)
        deciding = self._decide(open_call, question)
        self._follow(
            open_call, asyncio.get_running_loop().create_task(deciding, name=f"call {call.call_id}")
        )
        return open_call

    def _follow(self, open_call: OpenCall, decided: asyncio.Future[None]) -> None:
        open_call.decided = decided

        def done(decided: asyncio.Future[None]) -> None:
            # If its callers have gone, nothing else retrieves the exception.
            cancelled = decided.cancelled()
            self._end_open(open_call, asyncio.CancelledError() if cancelled else decided.exception())

        decided.add_done_callback(done)

    def _end_open(self, open_call: OpenCall, failure: BaseException | None) -> None:
        """Answer a call's callers: its decision is durable, or `failure` prevented a decision."""
        call_id = open_call.call.call_id
        self._open.pop(call_id, None)
        if failure is None and call_id not in self.index.decided:
            failure = JournalError(f"Call '{call_id}' was not decided: it is not recorded")
        answers, open_call.answers = open_call.answers, []
        for answer, repeated in answers:
            if answer.done():
                continue
            if failure is None:
                answer.set_result(self._answer(call_id, repeated=repeated))
            elif isinstance(failure, asyncio.CancelledError):
                answer.cancel()
            else:
                answer.set_exception(failure)

    def unrecorded(self, call_id: str) -> Sequence[EventBody]:
        """Return the call as its agent made it, if it must be recorded together with its decision."""
        open_call = self._open.get(call_id)
        proposed = None
        if open_call is not None and open_call.proposed is None:
            proposed = self._proposed(open_call.call)
        return () if proposed is None else (proposed,)

    async def _decide(self, open_call: OpenCall, question: PendingQuestion | None) -> None:
        """Return once the decision on a call is durable. A gate that has decided is not cancelled."""
        call = open_call.call
        self._propose(open_call)
        problem = await self._pass_gate(open_call, question)
        # The call cannot be ended before this, or its unrecorded id might be given to another call.
        if open_call.proposed is not None:
            await open_call.proposed
        decided = self.index.decided.get(call.call_id)
        if decided is None and open_call.ending is not None:
            await self._record_ending(call, *open_call.ending)
            decided = self.index.decided.get(call.call_id)
        if decided is None:
            self._host.journal.check_takes()  # otherwise its agent must ask another server
            raise JournalError(
                f"Call '{call.call_id}' was not decided: {problem or 'it could not be recorded'}"
            ) from problem

    def _propose(self, open_call: OpenCall) -> None:
        """Hand the call over to be recorded as its agent made it.

        The decision follows it in the record, or is lost with it, so the call's own write need not be
        awaited.
        """
        if (proposed := self._proposed(open_call.call)) is not None:
            open_call.proposed = self._host.hand_over(proposed)

    async def _pass_gate(self, open_call: OpenCall, question: PendingQuestion | None) -> Exception | None:
        """Have the gate decide, unless the call is ended early; return the error, if any."""
        call = _tool_call(open_call.call, open_call.subagent)
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
        """Return the call as the agent made it, unless it is recorded and open."""
        current = self._host.state.calls.get(call.call_id)
        if current is not None and current.status in UNDECIDED:
            return None
        return copy_with(_PROPOSED, {"calls": (call,)})

    async def _record_ending(self, call: CallRecord, kind: EndingKind, reason: str) -> None:
        """Record that a call was ended before its decision. Raises unless that decides it."""
        call_id = call.call_id
        if kind == "closed":
            raise UnknownSessionError(f"Call '{call_id}' was not decided and must not run: {reason}")
        if self._has_request(call_id):
            # An answer that is being recorded ends the request itself.
            await self._host.record()
        if self._has_request(call_id):
            raise JournalError(f"The request about call '{call_id}' could not be withdrawn; try again")
        current = self._host.state.calls.get(call_id)
        if kind == "denied":
            names = (call.tool,) if current is None else current.names or (call.tool,)
            denied = CallDecided(
                call_id=call_id,
                tool=call.tool,
                input=call.input,
                names=names,
                outcome="block",
                mode="enforce",
                reason=f"{NOT_RUN}: {reason}",
            )
            await self._host.record(denied)
            return
        text = f"{NOT_RUN}: {reason}"
        await self._host.record(
            MessageAdded(role="tool", text=text, call_id=call_id, tool=call.tool, is_error=True)
        )
        raise CallWithdrawn(self._host.id, call_id, reason)

    def _has_request(self, call_id: str) -> bool:
        """Return whether the record has an open approval request about this call."""
        return any(each.call_id == call_id for each in self._host.state.approvals.values())

    # Endings

    async def withdraw(self, call_id: str, reason: str) -> None:
        """Withdraw a call that the agent no longer waits for. A decided call stays decided."""
        self._check_open()
        call_id = self.index.current(call_id)
        open_call = self._open.get(call_id)
        if open_call is not None:
            await self._end([open_call], "withdrawn", reason.strip() or "the agent took it back")
        elif call_id not in self.index.asked:
            raise UnknownCallError(self._host.id, call_id)

    def end_reason(self, call_id: str) -> str | None:
        """Return why an open call was ended before its decision; `None` if it was not."""
        open_call = self._open.get(call_id)
        return None if open_call is None or open_call.ending is None else open_call.ending[1]

    async def deny_all(self, reason: str) -> None:
        """Block all calls that wait for an operator.

        These include calls that waited when an earlier server ended, and are yet to be repeated.
        """
        unrepeated = [
            self.index.asked[each.call_id]
            for each in self._host.state.calls.values()
            if each.status in UNDECIDED
            and each.call_id in self.index.asked
            and each.call_id not in self.index.decided
            and each.call_id not in self._open
        ]
        for call in unrepeated:
            self._wait(call, "", None)
        await self._end(list(self._open.values()), "denied", reason)

    async def close(self, reason: str) -> None:
        """Accept no more calls and results; writes in progress are completed."""
        self._closed = reason
        for timer in self._late.values():
            timer.cancel()
        for each in self._open.values():
            each.stop("closed", reason)
        work = [each.decided for each in self._open.values()]
        if work := [*work, *(task for _, task in self._settling.values())]:
            await asyncio.wait(work)

    async def _end(self, calls: list[OpenCall], kind: EndingKind, reason: str) -> None:
        for each in calls:
            each.stop(kind, reason)
        for each in calls:
            await asyncio.wait([each.decided])
            problem = None if each.decided.cancelled() else each.decided.exception()
            if isinstance(problem, JournalError):
                raise problem

    def _check_open(self) -> None:
        if self._closed is not None:
            raise UnknownSessionError(f"No live session '{self._host.id}': {self._closed}")

    # Results

    async def result(
        self,
        call_id: str,
        output: str,
        is_error: bool,
        seconds: float | None,
        *,
        unknown: bool = False,
    ) -> None:
        """Record how a call ended, once; the nets have processed the result when this returns.

        A call whose outcome is `unknown` may still get a result.
        """
        self._check_open()
        call_id = self.index.current(call_id)
        outcome = output, is_error or unknown
        decided = self.index.decided.get(call_id)
        if decided is None and call_id not in self.index.asked:
            await self._alarm(call_id, output, is_error)
            raise UnknownCallError(self._host.id, call_id)
        if decided is None or is_blocked(decided):
            raise ResultRefusedError(self._host.id, call_id, "the call was not allowed")
        earlier = self._settled(call_id)
        if unknown and self._host.state.calls[call_id].status == "unknown":
            return
        if earlier is not None and earlier[0] != outcome:
            raise ResultRefusedError(self._host.id, call_id, "it has another result already")
        if earlier is None:
            work = self._settle(decided, outcome, seconds, unknown=unknown)
            task = asyncio.get_running_loop().create_task(work, name=f"result {call_id}")
            self._settling[call_id] = outcome, task
            task.add_done_callback(lambda done: self._forget(call_id, done))
            await asyncio.shield(task)
        elif earlier[1] is not None:
            await asyncio.shield(earlier[1])

    async def _alarm(self, call_id: str, output: str, is_error: bool) -> None:
        """Record the result of a call that never came to the gate, once per call and for some calls only.

        Raises `JournalError`.
        """
        if call_id in self._ungated or len(self._ungated) >= MOST_ALARMS:
            return
        self._ungated |= {call_id}
        text = UNGATED.format(visible(call_id))
        log.warning("session '%s': %s", self._host.id, text)
        result = CallResult(call_id=call_id, tool="", output=output, is_error=is_error, anomaly=text)
        status = SessionStatus(status=self._host.state.phase, error=text)
        await self._host.record(result, status)

    @property
    def open_ids(self) -> Collection[str]:
        """The ids of the calls in the gate."""
        return self._open.keys()

    async def end_turn(self, *, waiting_id: str | None = None) -> None:
        """End the agent's turn: the outcome of allowed calls without a result becomes unknown.

        The call `waiting_id` gets its result later.
        """
        self._check_open()
        waiting_id = None if waiting_id is None else self.index.current(waiting_id)
        state = self._host.state
        running = [each.call_id for each in state.calls.values() if each.status == "running"]
        # Calls that an earlier host allowed are not running: their outcome is unknown, and they are
        # pending.
        for call_id in dict.fromkeys([*running, *(each.call_id for each in state.pending)]):
            decided = self.index.decided.get(call_id)
            if decided is not None and call_id != waiting_id and call_id not in self._settling:
                await self._settle_unknown(decided, NO_RESULT)

    async def settle_unknown(self, call_id: str, why: str) -> None:
        """Record that the outcome of an allowed call is unknown, unless it has a result."""
        self._check_open()
        decided = self.index.decided.get(call_id)
        if decided is not None and not is_blocked(decided) and self._settled(call_id) is None:
            await self._settle_unknown(decided, why)

    async def _settle_unknown(self, decided: CallDecided, why: str) -> None:
        failed = ToolResult(decided.call_id, decided.tool, copied(decided.input), True)
        await self._host.settle(failed, why, 0.0, unknown=True)
        self._since.pop(decided.call_id, None)

    def _settled(self, call_id: str) -> tuple[tuple[str, bool], Awaitable[None] | None] | None:
        """Return a call's result, and what to await until it is recorded; `None` without a result."""
        if call_id in self._settling:
            return self._settling[call_id]
        current = self._host.state.calls[call_id]
        if current.status not in ("done", "failed"):
            return None
        return (current.output or "", current.status == "failed"), None

    async def _settle(
        self,
        decided: CallDecided,
        outcome: tuple[str, bool],
        seconds: float | None,
        *,
        unknown: bool,
    ) -> None:
        call_id, (output, is_error) = decided.call_id, outcome
        if seconds is None:
            since = self._since.get(call_id)
            seconds = 0.0 if since is None else max(0.0, (self._host.now - since).total_seconds())
        result = ToolResult(call_id, decided.tool, copied(decided.input), is_error)
        await self._host.settle(result, output, seconds, unknown=unknown)
        self._since.pop(call_id, None)

    def _forget(self, call_id: str, task: asyncio.Task[None]) -> None:
        self._settling.pop(call_id, None)
        if not task.cancelled():
            task.exception()
