"""Gate before an ACP agent's tool calls: decides permission requests and observes all other calls.

The agent runs its tools itself. A call for which it requests permission runs when the rules and the
operator allow it; any other call cannot be held back. Such a call is judged when it is reported: if the
rules allow it, it is recorded with its result, so that the nets move; otherwise a warning is put into the
transcript, and the agent is interrupted.

A call that the agent reports as completed is a success, except a command reported with neither output nor
exit code: some agents report each command so, whether it failed or not. Such a call has no result, and
enables nothing.
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
from .calls import AtGate, PermissionOptions, SeenCall
from .input import Input
from .process import Message

Unasked: TypeAlias = Literal["cancel", "note"]
"""Reaction to a call that ran without a request and is not allowed: end the turn, or only warn."""
Judged: TypeAlias = Literal["allow", "ask", "block"]
UNDECIDED_AFTER: Final = 5.0
"""Seconds after which a call that runs already is no longer judged."""
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
    """A permission request, and the call as put to the gate."""

    seen: SeenCall
    choice: PermissionOptions
    calls: tuple[AtGate, ...]
    input: Input


class AcpGate:
    """Decides the permission requests of one session. `interrupt` ends the agent's turn, if there is one.

    `since` is the event after which a recorded session goes on; relative paths start from `workdir`.
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
        self._seen: dict[str, SeenCall] = {}
        self._waiting: dict[str, asyncio.Task[CallAnswer]] = {}
        self._told_unproved = False
        self.cancelled = False
        """True once the turn was interrupted: all permission requests are then answered `cancelled`."""

    # Permission requests

    async def begin(self, request: RequestPermissionRequest) -> PermissionRequest | Message:
        """Register a request, in its order among the reports: return it for `decide`, or its answer."""
        seen, choice = self._take(request.tool_call), PermissionOptions.of(request.options)
        if self.cancelled:
            return _CANCELLED
        if choice.allow is None:
            seen.stands = "refused"
            offered = ", ".join(sorted({each.kind for each in request.options})) or "nothing"
            await self._hub.warn(
                self._session,
                f"{seen.name} was refused: it can only be allowed once, and the agent offered {offered}",
            )
            return _refused(choice, "it cannot be allowed once")
        asked_before, seen.answered = seen.answered, True
        if seen.stands == "allowed" and not asked_before and seen.changed_by(request.tool_call) is None:
            return _given(choice.allow)  # It was judged, and recorded, when it was reported to run.
        seen.stands, seen.approved, seen.came_of_it = "waiting", seen.terms, False
        return PermissionRequest(seen, choice, seen.put(), seen.input)

    async def decide(self, asked: PermissionRequest) -> Message:
        """Answer a request once it is decided. Any failure refuses the call."""
        if asked.seen.stands != "waiting":
            return _refused(asked.choice, "the agent went on without waiting for the answer")
        seen, answers = asked.seen, await self._ask_each(asked)
        allowed, why = _allows(answers[-1])
        if allowed and self.cancelled:
            allowed, why = False, "the agent was interrupted"
        if seen.stands == "waiting" and seen.at_gate == asked.calls:
            seen.stands = "allowed" if allowed else "refused"
        elif allowed:
            # The agent has asked again or reported the call meanwhile, which takes precedence.
            allowed, why = False, "the agent went on without waiting for the answer"
        if allowed:
            return _given(asked.choice.allow)
        await self._close(asked.calls, answers, f"The agent was not given the permission: {why}")
        return _CANCELLED if self.cancelled else _refused(asked.choice, why)

    async def _ask_each(self, asked: PermissionRequest) -> list[CallAnswer | str]:
        """The hub's answers up to the first that does not allow the call."""
        answers: list[CallAnswer | str] = []
        for each in asked.calls:
            if asked.seen.stands != "waiting" or self.cancelled:
                return [*answers, "the agent went on without waiting for the answer"]
            answers.append(await self._ask(each.call_id, each.tool, asked.input))
            if not _allows(answers[-1])[0]:
                break
        return answers

    async def _close(
        self, calls: Sequence[AtGate], answers: Sequence[CallAnswer | str], why: str
    ) -> None:
        """Record that allowed calls were not run."""
        for each, answer in zip(calls, answers, strict=False):
            if isinstance(answer, CallAnswer) and answer.outcome == "allow" and not answer.repeated:
                await self._hub.result(self._session, each.call_id, output=why, is_error=True)

    async def _ask(self, call_id: str, tool: str, given: Input) -> CallAnswer | str:
        """The hub's answer, or the reason why there is none. `withdraw_all` takes the call back."""
        if not _is_json(given):
            return "its input holds a number that JSON does not have"
        call = self._hub.call(self._session, call_id, tool, given)
        task = self._waiting[call_id] = asyncio.get_running_loop().create_task(call)
        try:
            return await asyncio.shield(task)
        except _REFUSALS as error:
            return str(error)
        finally:
            self._waiting.pop(call_id, None)

    async def withdraw_all(self, reason: str) -> None:
        """Withdraw every open request: no answer is awaited any more."""
        for call_id in list(self._waiting):
            await self._withdraw(call_id, reason)

    async def _withdraw_seen(self, seen: SeenCall, reason: str) -> None:
        for each in seen.at_gate:
            await self._withdraw(each.call_id, reason)

    async def _withdraw(self, call_id: str, reason: str) -> None:
        await asyncio.sleep(0)  # The hub hears first of a call that is just being put to it.
        try:
            await self._hub.withdraw_call(self._session, call_id, reason)
        except _REFUSALS:
            return  # it is not in the queue, or its request stays there and decides nothing

    # Reports

    async def report(self, update: ToolCallStart | ToolCallProgress) -> None:
        """Follow a call that runs or has ended."""
        known = self._seen.get(update.tool_call_id)
        if known is not None and known.stands == "settled":
            if not isinstance(update, ToolCallProgress):
                del self._seen[update.tool_call_id]
                self._take(update).gate_ids = known.gate_ids
            elif known.runs_again(update.status):
                known.start_over()
            else:
                await self._compare(self._take(update), update)
                known.forget()
                return
        seen, status = self._take(update), update.status
        await self._compare(seen, update)
        if status is None or status == "pending":
            return
        if seen.stands == "told":
            await self._judge(seen, status)
        elif seen.stands == "waiting":
            await self._too_early(seen, status)
        elif seen.stands == "refused" and status != "failed" and not seen.begun:
            seen.begun = True
            await self._object(seen, "runs although it was refused")
        if status in ("completed", "failed"):
            await self._settle(seen, failed=status == "failed")

    async def _compare(self, seen: SeenCall, update: ToolCallStart | ToolCallProgress) -> None:
        """Refuse a call whose reported content differs from what was, or may be, approved."""
        what = seen.changed_by(update)
        if what is None or seen.stands not in ("waiting", "allowed", "settled"):
            return
        seen.approved = None
        if seen.stands == "waiting":
            seen.stands = "refused"
            await self._withdraw_seen(seen, f"the agent changed its {what} while it waited")
            return
        seen.begun = True
        if seen.stands == "allowed":
            seen.stands = "refused"
            changed = f"The agent changed the call's {what} after it was allowed"
            await self._record_result(seen, changed, is_error=True)
        what = f"runs with another {what} than the one it was allowed with"
        await self._object(seen, f"{what}: {_shown(seen.input)}")

    async def _judge(self, seen: SeenCall, status: ToolCallStatus) -> None:
        """Judge a call that runs, or ran, without a permission request."""
        given, seen.approved = seen.input, seen.terms
        state = await self._hub.session(self._session)
        try:
            if not _is_json(given):
                raise ValueError("its input holds a number that JSON does not have")
            outcome = await self._explained(seen, given)
        except _REFUSALS as error:
            seen.stands = "refused"
            await self._object(seen, f"runs without having asked, and cannot be judged: {error}")
            return
        if (state.mode == "shadow" or outcome == "allow") and await self._record(seen, given):
            seen.stands = "allowed"
            return
        seen.stands = "refused"
        if status == "failed" and not seen.begun:
            await self._hub.warn(
                self._session,
                f"{seen.name} failed, and was not asked about; the nets would have {_WOULD[outcome]}",
            )
            return
        seen.begun = True
        await self._object(
            seen, f"runs without having asked; the nets would have {_WOULD[outcome]}: {_shown(given)}"
        )

    async def _explained(self, seen: SeenCall, given: Input) -> Judged:
        """The strictest outcome of all tools that the call is judged as."""
        views = [await self._hub.explain_input(self._session, tool, given) for tool in seen.tools]
        outcomes = {view.outcome for view in views}
        return "block" if "block" in outcomes else "ask" if "ask" in outcomes else "allow"

    async def _record(self, seen: SeenCall, given: Input) -> bool:
        """Put a running call to the rules, which have just allowed it; tell whether they still do."""
        answers: list[CallAnswer | str] = []
        for each in seen.put():
            asking = asyncio.create_task(self._ask(each.call_id, each.tool, given))
            await asyncio.wait({asking}, timeout=UNDECIDED_AFTER)
            if not asking.done():  # the nets have moved, and now want a person
                await self._withdraw(each.call_id, "the agent runs it already, without having asked")
            answer = await asking
            answers.append(answer)
            if not isinstance(answer, CallAnswer) or answer.outcome != "allow":
                await self._close(seen.at_gate, answers, "The agent runs it without a permission")
                return False
        return True

    async def _too_early(self, seen: SeenCall, status: ToolCallStatus) -> None:
        """Handle a call that is reported to go on before its request is answered."""
        if status == "in_progress":
            return  # some say so when they begin to ask
        await self._withdraw_seen(seen, f"the agent reported it as {status}")
        if seen.stands == "waiting":
            seen.stands = "refused"
        if status == "completed":
            seen.begun = True
            await self._object(seen, "ran before it was decided")

    async def _settle(self, seen: SeenCall, *, failed: bool) -> None:
        # Ends in the background are not reported: the turn's end closes such a call, as unknown.
        if seen.stands == "allowed" and (failed or not seen.goes_on):
            failed = failed or seen.failed
            if failed or not seen.unproved:
                await self._record_result(seen, seen.output, is_error=failed)
            else:
                await self._leave_open(seen)
        if seen.stands != "allowed":
            seen.approved = None
        seen.stands = "settled"
        seen.forget()

    async def _record_result(self, seen: SeenCall, output: str, *, is_error: bool) -> None:
        """Record the result of a call. An unclear call has no known success: it enables nothing."""
        for each in seen.at_gate if is_error else seen.at_gate[:1]:
            try:
                await self._hub.result(self._session, each.call_id, output=output, is_error=is_error)
            except _REFUSALS as error:
                await self._hub.warn(self._session, f"the result of {seen.name} is lost: {error}")

    async def _leave_open(self, seen: SeenCall) -> None:
        """Leave a call without result; warn about the first one, and about each that a rule waits for."""
        state = await self._hub.session(self._session)
        own = {each.call_id for each in seen.at_gate}
        if self._told_unproved and {each.call_id for each in state.pending}.isdisjoint(own):
            return
        self._told_unproved = True
        await self._hub.warn(
            self._session,
            f"{seen.name} has ended, and the agent tells neither its output nor its exit code: it is "
            "recorded as unknown, and opens nothing that needs its success",
        )

    async def _object(self, seen: SeenCall, what: str) -> None:
        """Warn in the transcript about a call that cannot be held back."""
        stopped = self._unasked == "cancel" and self._interrupt()
        end = ". The agent was interrupted" if stopped else ""
        await self._hub.warn(self._session, f"{seen.name} {what}{end}")

    def _new(self, call_id: str, gate_ids: list[str] | None = None) -> SeenCall:
        """Register a call; in a resumed session the record may have its id for another call."""
        at_gate = f"{call_id}~{self._since}" if self._since else call_id
        return SeenCall(at_gate, self._workdir, gate_ids=[] if gate_ids is None else gate_ids)

    def _take(self, update: ToolCallStart | ToolCallUpdate) -> SeenCall:
        seen = self._seen.setdefault(update.tool_call_id, self._new(update.tool_call_id))
        if seen.stands == "settled" and not isinstance(update, ToolCallProgress):
            # An id that comes again is another call.
            seen = self._seen[update.tool_call_id] = self._new(update.tool_call_id, seen.gate_ids)
        seen.take(update)
        return seen


_CANCELLED: Final[Message] = {"outcome": {"outcome": "cancelled"}}
_WOULD: Final = {"allow": "allowed it a moment before", "block": "blocked it", "ask": "required approval"}


def _given(option: str | None) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def _allows(answer: CallAnswer | str) -> tuple[bool, str]:
    """Tell whether the call may run with exactly the input the agent gave; if not, also why."""
    if isinstance(answer, str):
        return False, answer
    if answer.outcome == "block":
        return False, answer.reason or "blocked"
    if answer.repeated:
        return False, "its id is that of another call, which has had its answer"
    if answer.edited:
        return False, "it was approved with another input, which this agent cannot be given"
    return True, ""


def _refused(choice: PermissionOptions, reason: str) -> Message:
    """A refusal; `reason` goes where an agent may look for it, since the protocol has no field for it."""
    if choice.reject is None:
        return {**_CANCELLED, "_meta": {"interlock": {"reason": reason}}}
    outcome: Message = {"outcome": "selected", "optionId": choice.reject}
    return {"outcome": outcome, "_meta": {"interlock": {"reason": reason}}}


def _is_json(given: Input) -> bool:
    """Tell whether the input is strict JSON: NaN, which some agents write, does not equal itself."""
    try:
        json.dumps(given, allow_nan=False)
    except ValueError:
        return False
    return True


def _shown(given: Input) -> str:
    text = " ".join(f"{name}={value!r}" for name, value in given.items() if name != "title")
    return text if len(text) <= 300 else f"{text[:300]}…"
