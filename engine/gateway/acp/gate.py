"""Gate for an ACP agent's tool calls: decides permission requests and observes all other calls.

The agent runs its tools itself. A call for which it requests permission runs once the rules and the
operator allow it; any other call cannot be blocked. Such a call is judged when it is reported. If the
rules allow it, it is recorded with its result, so that the nets move; otherwise a warning is added to the
transcript and the agent is interrupted.

A call that the agent reports as completed is a success, except a command reported with neither output nor
exit code: some agents report every command this way, whether it failed or not. Such a call has no result
and enables nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from acp.schema import (
    RequestPermissionRequest,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolCallUpdate,
)

from ...history.errors import JournalError
from ...history.model.state import SessionState
from ...recording.explanation import ExplanationView
from ...sessions.errors import CallRefused, UnknownSessionError
from ...sessions.submitted_calls import CallAnswer
from .calls import GateCall, PermissionOptions, ReportedCall
from .input import Input
from .process import Message

Unasked: TypeAlias = Literal["cancel", "note"]
"""Reaction to a call that ran without a request and is not allowed: end the turn, or only warn."""
Outcome: TypeAlias = Literal["allow", "ask", "block"]
UNDECIDED_AFTER: Final = 5.0
"""Seconds after which the wait for a decision on a call that already runs is given up."""
_REFUSALS = (CallRefused, UnknownSessionError, JournalError, ValueError)


class HubCalls(Protocol):
    """Methods of a hub that the gate needs; see `Hub`."""

    async def session(self, session_id: str) -> SessionState: ...

    async def call(self, session_id: str, call_id: str, tool: str, input: Input) -> CallAnswer: ...  # noqa: A002

    async def result(
        self, session_id: str, call_id: str, *, output: str, is_error: bool, seconds: float | None = None
    ) -> None: ...

    async def withdraw_call(self, session_id: str, call_id: str, reason: str) -> None: ...

    async def explain_input(self, session_id: str, tool: str, input: Input) -> ExplanationView: ...  # noqa: A002

    async def warn(self, session_id: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A permission request, and the calls submitted to the gate for it."""

    call: ReportedCall
    choice: PermissionOptions
    calls: tuple[GateCall, ...]
    input: Input


class AcpGate:
    """Decides the permission requests of one session. `interrupt` ends the agent's turn, if there is one.

    `since` is the event after which a recorded session continues; relative paths start from `workdir`.
    """

    def __init__(
        self,
        hub: HubCalls,
        session: str,
        *,
        unasked: Unasked,
        interrupt: Callable[[], bool],
        workdir: str = "",
        since: int = 0,
    ) -> None:
        self._hub = hub
        self._session = session
        self._unasked = unasked
        self._interrupt = interrupt
        self._workdir = workdir
        self._since = since
        self._calls: dict[str, ReportedCall] = {}
        self._waiting: dict[str, asyncio.Task[CallAnswer]] = {}
        self._warned_of_unknown = False
        self.cancelled = False
        """True after the turn was interrupted: all permission requests are then answered `cancelled`."""

    # Permission requests

    async def begin(self, request: RequestPermissionRequest) -> PermissionRequest | Message:
        """Register a request, in order among the reports; return it for `decide`, or its answer."""
        call, choice = self._merge(request.tool_call), PermissionOptions.of(request.options)
        if self.cancelled:
            return _CANCELLED
        if choice.allow is None:
            call.state = "refused"
            kinds = ", ".join(sorted({each.kind for each in request.options})) or "nothing"
            await self._hub.warn(
                self._session,
                f"{call.name} was refused: it can only be allowed once, and the agent offered {kinds}",
            )
            return _refusal(choice, "it cannot be allowed once")
        requested_before, call.requested = call.requested, True
        if (
            call.state == "allowed"
            and not requested_before
            and call.changed_field(request.tool_call) is None
        ):
            return _permission(choice.allow)  # judged and recorded when it was reported as running
        call.state, call.approved, call.has_result = "waiting", call.terms, False
        return PermissionRequest(call, choice, call.submit(), call.input)

    async def decide(self, request: PermissionRequest) -> Message:
        """Wait for the decision on a request and answer it. Any failure refuses the call."""
        if request.call.state != "waiting":
            return _refusal(request.choice, "the agent continued without waiting for the answer")
        call, answers = request.call, await self._submit_each(request)
        is_allowed, reason = _allows(answers[-1])
        if is_allowed and self.cancelled:
            is_allowed, reason = False, "the agent was interrupted"
        if call.state == "waiting" and call.gate_calls == request.calls:
            call.state = "allowed" if is_allowed else "refused"
        elif is_allowed:
            # While this waited, the agent requested again or reported the call, which takes precedence.
            is_allowed, reason = False, "the agent continued without waiting for the answer"
        if is_allowed:
            return _permission(request.choice.allow)
        await self._close(request.calls, answers, f"The agent was not given the permission: {reason}")
        return _CANCELLED if self.cancelled else _refusal(request.choice, reason)

    async def _submit_each(self, request: PermissionRequest) -> list[CallAnswer | str]:
        """Return the hub's answers up to the first that does not allow the call."""
        answers: list[CallAnswer | str] = []
        for gate_call in request.calls:
            if request.call.state != "waiting" or self.cancelled:
                return [*answers, "the agent continued without waiting for the answer"]
            answers.append(await self._submit(gate_call.call_id, gate_call.tool, request.input))
            if not _allows(answers[-1])[0]:
                break
        return answers

    async def _close(
        self, calls: Sequence[GateCall], answers: Sequence[CallAnswer | str], reason: str
    ) -> None:
        """Record that allowed calls were not run."""
        for each, answer in zip(calls, answers, strict=False):
            if isinstance(answer, CallAnswer) and answer.outcome == "allow" and not answer.repeated:
                await self._hub.result(self._session, each.call_id, output=reason, is_error=True)

    async def _submit(self, call_id: str, tool: str, call_input: Input) -> CallAnswer | str:
        """Return the hub's answer, or the reason for having none. `withdraw_all` withdraws the call."""
        if not _is_json(call_input):
            return "its input contains a number that JSON cannot represent"
        call = self._hub.call(self._session, call_id, tool, call_input)
        task = self._waiting[call_id] = asyncio.get_running_loop().create_task(call)
        try:
            return await asyncio.shield(task)
        except _REFUSALS as error:
            return str(error)
        finally:
            self._waiting.pop(call_id, None)

    async def withdraw_all(self, reason: str) -> None:
        """Withdraw every open request: no answer is awaited any longer."""
        for call_id in list(self._waiting):
            await self._withdraw(call_id, reason)

    async def _withdraw_call(self, call: ReportedCall, reason: str) -> None:
        for each in call.gate_calls:
            await self._withdraw(each.call_id, reason)

    async def _withdraw(self, call_id: str, reason: str) -> None:
        await asyncio.sleep(0)  # lets a call that is just being submitted reach the hub first
        try:
            await self._hub.withdraw_call(self._session, call_id, reason)
        except _REFUSALS:
            return  # it is not in the queue, or its request stays there and decides nothing

    # Reports

    async def report(self, update: ToolCallStart | ToolCallProgress) -> None:
        """Follow a call that is running or has ended."""
        earlier = self._calls.get(update.tool_call_id)
        if earlier is not None and earlier.state == "settled":
            if not isinstance(update, ToolCallProgress):
                del self._calls[update.tool_call_id]
                self._merge(update).gate_ids = earlier.gate_ids
            elif earlier.runs_again(update.status):
                earlier.reset()
            else:
                await self._compare(self._merge(update), update)
                earlier.forget()
                return
        call, status = self._merge(update), update.status
        await self._compare(call, update)
        if status is None or status == "pending":
            return
        if call.state == "reported":
            await self._judge(call, status)
        elif call.state == "waiting":
            await self._handle_early_report(call, status)
        elif call.state == "refused" and status != "failed" and not call.running:
            call.running = True
            await self._warn(call, "runs although it was refused")
        if status in ("completed", "failed"):
            await self._settle(call, failed=status == "failed")

    async def _compare(self, call: ReportedCall, update: ToolCallStart | ToolCallProgress) -> None:
        """Refuse a call whose reported content differs from what was, or may be, approved."""
        field = call.changed_field(update)
        if field is None or call.state not in ("waiting", "allowed", "settled"):
            return
        call.approved = None
        if call.state == "waiting":
            call.state = "refused"
            await self._withdraw_call(call, f"the agent changed its {field} while it waited")
            return
        call.running = True
        if call.state == "allowed":
            call.state = "refused"
            output = f"The agent changed the call's {field} after it was allowed"
            await self._record_result(call, output, is_error=True)
        difference = f"runs with another {field} than the one it was allowed with"
        await self._warn(call, f"{difference}: {_input_text(call.input)}")

    async def _judge(self, call: ReportedCall, status: ToolCallStatus) -> None:
        """Judge a call that is running, or ran, without a permission request."""
        call_input, call.approved = call.input, call.terms
        state = await self._hub.session(self._session)
        try:
            if not _is_json(call_input):
                raise ValueError("its input contains a number that JSON cannot represent")
            outcome = await self._strictest_outcome(call, call_input)
        except _REFUSALS as error:
            call.state = "refused"
            await self._warn(call, f"runs without a permission request, and cannot be judged: {error}")
            return
        if (state.mode == "shadow" or outcome == "allow") and await self._record(call, call_input):
            call.state = "allowed"
            return
        call.state = "refused"
        if status == "failed" and not call.running:
            await self._hub.warn(
                self._session,
                f"{call.name} failed without a permission request; the nets would have {_WOULD[outcome]}",
            )
            return
        call.running = True
        warning = f"runs without a permission request; the nets would have {_WOULD[outcome]}"
        await self._warn(call, f"{warning}: {_input_text(call_input)}")

    async def _strictest_outcome(self, call: ReportedCall, call_input: Input) -> Outcome:
        """Return the strictest outcome of all tools that the call is judged as."""
        views = [await self._hub.explain_input(self._session, tool, call_input) for tool in call.tools]
        outcomes = {view.outcome for view in views}
        return "block" if "block" in outcomes else "ask" if "ask" in outcomes else "allow"

    async def _record(self, call: ReportedCall, call_input: Input) -> bool:
        """Submit a running call that the rules have just allowed; return whether they still allow it."""
        answers: list[CallAnswer | str] = []
        for gate_call in call.submit():
            asking = asyncio.create_task(self._submit(gate_call.call_id, gate_call.tool, call_input))
            await asyncio.wait({asking}, timeout=UNDECIDED_AFTER)
            if not asking.done():  # the nets have moved, and the call now needs approval
                await self._withdraw(
                    gate_call.call_id, "the agent already runs it, without a permission request"
                )
            answer = await asking
            answers.append(answer)
            if not isinstance(answer, CallAnswer) or answer.outcome != "allow":
                await self._close(call.gate_calls, answers, "The agent runs it without permission")
                return False
        return True

    async def _handle_early_report(self, call: ReportedCall, status: ToolCallStatus) -> None:
        """Handle a call that is reported to continue before its request is answered."""
        if status == "in_progress":
            return  # some agents report this as soon as they request permission
        await self._withdraw_call(call, f"the agent reported it as {status}")
        if call.state == "waiting":
            call.state = "refused"
        if status == "completed":
            call.running = True
            await self._warn(call, "ran before it was decided")

    async def _settle(self, call: ReportedCall, *, failed: bool) -> None:
        # Ends in the background are not reported: at the turn's end such a call is closed as unknown.
        if call.state == "allowed" and (failed or not call.in_background):
            failed = failed or call.failed
            if failed or not call.outcome_unknown:
                await self._record_result(call, call.output, is_error=failed)
            else:
                await self._leave_open(call)
        if call.state != "allowed":
            call.approved = None
        call.state = "settled"
        call.forget()

    async def _record_result(self, call: ReportedCall, output: str, *, is_error: bool) -> None:
        """Record the result of a call. An unclear call has no known success, so it enables nothing."""
        for gate_call in call.gate_calls if is_error else call.gate_calls[:1]:
            try:
                await self._hub.result(self._session, gate_call.call_id, output=output, is_error=is_error)
            except _REFUSALS as error:
                await self._hub.warn(self._session, f"the result of {call.name} is lost: {error}")

    async def _leave_open(self, call: ReportedCall) -> None:
        """Leave a call without a result; warn about the first, and about each that a rule waits for."""
        state = await self._hub.session(self._session)
        call_ids = {each.call_id for each in call.gate_calls}
        if self._warned_of_unknown and {each.call_id for each in state.pending}.isdisjoint(call_ids):
            return
        self._warned_of_unknown = True
        await self._hub.warn(
            self._session,
            f"{call.name} has ended, and the agent reported neither output nor exit code: its outcome is "
            "recorded as unknown, and it enables nothing that needs its success",
        )

    async def _warn(self, call: ReportedCall, text: str) -> None:
        """Warn in the transcript about a call that cannot be blocked."""
        was_interrupted = self._unasked == "cancel" and self._interrupt()
        end = ". The agent was interrupted" if was_interrupted else ""
        await self._hub.warn(self._session, f"{call.name} {text}{end}")

    def _new(self, call_id: str, gate_ids: list[str] | None = None) -> ReportedCall:
        """Register a call; in a resumed session, the record may use its id for another call."""
        gate_id = f"{call_id}~{self._since}" if self._since else call_id
        return ReportedCall(gate_id, self._workdir, gate_ids=[] if gate_ids is None else gate_ids)

    def _merge(self, update: ToolCallStart | ToolCallUpdate) -> ReportedCall:
        call = self._calls.setdefault(update.tool_call_id, self._new(update.tool_call_id))
        if call.state == "settled" and not isinstance(update, ToolCallProgress):
            # A repeated id is a new call.
            call = self._calls[update.tool_call_id] = self._new(update.tool_call_id, call.gate_ids)
        call.merge(update)
        return call


_CANCELLED: Final[Message] = {"outcome": {"outcome": "cancelled"}}
_WOULD: Final = {"allow": "allowed it a moment before", "block": "blocked it", "ask": "required approval"}


def _permission(option: str | None) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def _allows(answer: CallAnswer | str) -> tuple[bool, str]:
    """Return whether the call may run with exactly the input that the agent gave; if not, also why."""
    if isinstance(answer, str):
        return False, answer
    if answer.outcome == "block":
        return False, answer.reason or "blocked"
    if answer.repeated:
        return False, "its id is that of another call, which was already answered"
    if answer.edited:
        return False, "it was approved with another input, which cannot be passed to this agent"
    return True, ""


def _refusal(choice: PermissionOptions, reason: str) -> Message:
    """Build a refusal; `reason` is in `_meta`, because the protocol has no field for it."""
    if choice.reject is None:
        return {**_CANCELLED, "_meta": {"interlock": {"reason": reason}}}
    outcome: Message = {"outcome": "selected", "optionId": choice.reject}
    return {"outcome": outcome, "_meta": {"interlock": {"reason": reason}}}


def _is_json(call_input: Input) -> bool:
    """Return whether the input is strict JSON: NaN, which some agents write, does not equal itself."""
    try:
        json.dumps(call_input, allow_nan=False)
    except ValueError:
        return False
    return True


def _input_text(call_input: Input) -> str:
    text = " ".join(f"{name}={value!r}" for name, value in call_input.items() if name != "title")
    return text if len(text) <= 300 else f"{text[:300]}…"
