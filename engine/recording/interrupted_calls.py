"""Calls and requests that a session left open when its host died, and the events that end them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import dropwhile, takewhile

from pydantic import JsonValue

from ..agents import Message, ProposedCall
from ..agents.messages import UNKNOWN_OUTCOME, open_calls
from ..core.rule import ApprovalRule, RuleSource
from ..gate.reasons import rejected
from ..gate.types import ChosenEdit, OpenQuestion
from ..history.fold.flow_steps import DIED, HANDED_OVER
from ..history.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
)
from ..history.model.state import CallState, PendingState, SessionState
from ..net.net import SkillNet, Transition, define_skill_net

NOT_DECIDED = "Tool call not executed: the session was interrupted before it was decided"
REFUSED = "Tool call not executed: it was refused, and the session ended before the reason was recorded"
HOST_GONE = "the process that asked has ended"


def undecided(
    state: SessionState, messages: Sequence[Message], step: Sequence[EventBody]
) -> tuple[str, ...]:
    """Open calls that were never decided because the host died; the gate may still decide them.

    `step` are the events since the model's last message. Empty for a session that was closed or failed by
    itself, and if a person had interrupted the step, because deciding the calls would restart what they
    stopped. Calls are decided in order, so one before a decided call had been refused without the gate.
    """
    calls = [call.call_id for call in open_calls(messages)]
    if not host_died(state) or interrupted(step, calls):
        return ()
    refused = _rejections(step)
    decided = [n for n, i in enumerate(calls) if i in refused or status_of(state, i) not in NOT_YET]
    return tuple(calls[decided[-1] + 1 :] if decided else calls)


def host_died(state: SessionState) -> bool:
    """True if a recorded session neither ended nor failed by itself."""
    return state.phase in ("running", "idle") or state.error in (DIED, HANDED_OVER)


def interrupted(step: Iterable[EventBody], calls: Container[str]) -> bool:
    """True if a request about one of `calls` was withdrawn in this step while the host was running."""
    return any(
        isinstance(body, ApprovalWithdrawn)
        and body.call_id in calls
        and body.reason != HOST_GONE
        and not body.again
        for body in step
    )


def closings(
    state: SessionState,
    messages: Sequence[Message],
    step: Sequence[EventBody],
    *,
    asked_again: Collection[str] = (),
    going_on: Collection[str] = (),
) -> list[EventBody]:
    """Events that end everything that a session left open when its host died.

    Requests are withdrawn. An allowed call without a result gets one that says its outcome is unknown;
    its pending steps are dropped, as for an error. A call that an operator had rejected is blocked. Then
    the model is told how every call ended: by its result if there is one, why it was blocked, or that it
    was never decided. Calls in `asked_again` and `going_on` stay open; messages after the first of these
    follow when they have ended (see `continued_calls`).
    """
    own_calls = [call for call in open_calls(messages) if call.call_id not in asked_again]
    no = {i: no for i, no in _rejections(step).items() if status_of(state, i) in NOT_YET}
    unknown = {
        call.call_id: call.name
        for call in own_calls
        if call.call_id not in going_on and status_of(state, call.call_id) in UNRESOLVED
    }
    for pending in state.pending:
        if pending.call_id not in going_on:
            unknown.setdefault(pending.call_id, state.calls[pending.call_id].tool)
    answers: list[EventBody] = []
    for call in takewhile(lambda call: call.call_id not in going_on, own_calls):
        if (rejection := no.pop(call.call_id, None)) is not None:
            answers += [rejection, _tool_message(call.call_id, call.name, rejection.reason or "")]
        else:
            text = REFUSED if asked_again or going_on else NOT_DECIDED
            answers.append(_answer(call.call_id, call.name, state.calls.get(call.call_id), text))
    results = (unknown_result(call_id, tool, state.pending) for call_id, tool in unknown.items())
    return [*withdrawals(state), *results, *no.values(), *answers]


def continued_calls(
    state: SessionState, messages: Sequence[Message], going_on: Container[str]
) -> list[ProposedCall | MessageAdded]:
    """The open calls from the first that continues: those that continue, and messages for the others."""
    calls = dropwhile(lambda call: call.call_id not in going_on, open_calls(messages))
    return [
        call
        if call.call_id in going_on
        else _answer(call.call_id, call.name, state.calls.get(call.call_id), REFUSED)
        for call in calls
    ]


def last_step(events: Sequence[JournalEvent]) -> list[EventBody]:
    """Events since the model's last message."""
    step: list[EventBody] = []
    for event in reversed(events):
        if isinstance(event.body, MessageAdded) and event.body.role == "assistant":
            break
        step.append(event.body)
    return step[::-1]


def _rejections(step: Iterable[EventBody]) -> dict[str, CallDecided]:
    """Decisions on calls that were denied or expired when the host died before recording the decision."""
    requests: dict[str, ApprovalRequested] = {}
    found: dict[str, CallDecided] = {}
    for body in step:
        match body:
            case ApprovalRequested():
                requests[body.approval_id] = body
                found.pop(body.call_id, None)
            case ApprovalDecided(approved=False, reason=reason) | ApprovalExpired(reason=reason) if (
                body.approval_id in requests
            ):
                found[body.call_id] = _rejection(requests[body.approval_id], reason)
            case CallDecided():
                found.pop(body.call_id, None)
            case _:
                pass
    return found


def _rejection(request: ApprovalRequested, reason: str | None) -> CallDecided:
    return CallDecided(
        call_id=request.call_id,
        tool=request.called,
        input=request.input,
        names=request.names,
        outcome="block",
        mode="enforce",
        reason=rejected(request.tool, reason),
        net=request.net,
        rule=request.rule,
        via=request.via,
    )


def open_questions(
    events: Iterable[JournalEvent], nets: Mapping[str, SkillNet]
) -> dict[str, tuple[OpenQuestion, ...]]:
    """Questions shown to operators about calls that were never decided, by call (G-67).

    `nets` are the nets that are unchanged since they asked. For any other, a net is created that asks
    with the recorded words and as many people. Questions of a flow itself are left out, because it asks
    again.
    """
    asked: dict[str, dict[tuple[str, str], ApprovalRequested]] = {}
    for event in events:
        match event.body:
            case ApprovalRequested(wants=None) as body:
                asked.setdefault(body.call_id, {})[body.net, body.tool] = body
            case CallDecided(call_id=call_id):
                asked.pop(call_id, None)
            case _:
                pass
    return {
        call_id: tuple(
            OpenQuestion(body.net, nets.get(body.net) or _asking_net(body), body.tool, body.called)
            for body in requests.values()
        )
        for call_id, requests in asked.items()
    }


@dataclass(frozen=True, slots=True)
class Deadline:
    """Deadline of a request that is asked again (G-67).

    `since` is when operators were first asked, `expires` when the request is denied automatically, `due`
    the latest time for one of several people; without times it waits forever.
    """

    since: datetime
    expires: datetime | None
    due: datetime | None


def deadlines(events: Iterable[JournalEvent]) -> dict[tuple[str, str], Deadline]:
    """Deadlines of requests about calls that were never decided, by call and net.

    Time during which no host was running counts.
    """
    found: dict[tuple[str, str], Deadline] = {}
    nets: dict[str, str] = {}
    for event in events:
        match event.body:
            case ApprovalRequested() as body:
                nets[body.approval_id] = body.net
                about = body.call_id, body.net
                first = found.get(about) or Deadline(event.at, None, body.expires)
                found[about] = replace(first, expires=body.expires)
            case ApprovalExtended(proposed=None) as body if body.approval_id in nets:
                about = body.call_id, nets[body.approval_id]
                if (known := found.get(about)) is not None:
                    due = body.until if body.others else known.due
                    found[about] = replace(known, expires=body.until, due=due)
            case CallDecided(call_id=call_id):
                found = {about: each for about, each in found.items() if about[0] != call_id}
            case _:
                pass
    return found


def chosen_edits(events: Iterable[JournalEvent]) -> dict[str, ChosenEdit]:
    """Inputs that operators last chose for calls that were never decided, by call (G-75)."""
    made: dict[str, dict[str, JsonValue]] = {}
    flows: set[str] = set()
    edits: dict[str, ChosenEdit] = {}
    for event in events:
        match event.body:
            case ApprovalRequested(wants=None) as body:
                made.setdefault(body.call_id, body.input)
            case ApprovalRequested() as body:
                flows.add(body.approval_id)
            case (
                ApprovalDecided(approved=True, input=dict(chosen)) | ApprovalWithdrawn(input=dict(chosen))
            ) as body if body.approval_id not in flows and body.call_id in made:
                edits[body.call_id] = ChosenEdit(made[body.call_id], chosen, body.by)
            case CallDecided(call_id=call_id):
                made.pop(call_id, None)
                edits.pop(call_id, None)
            case _:
                pass
    return edits


def _asking_net(request: ApprovalRequested) -> SkillNet:
    """A net that asks what a recorded request asked."""
    place, tools = "ready", (request.tool,)
    approvers = request.approvers
    transition = Transition(request.transition, (place,), (place,), tools, "manual", approvers=approvers)
    net = define_skill_net(
        request.net,
        places=(place,),
        transitions=(transition,),
        initial_marking={place: 1},
        call_names=lambda _: tools,
    )
    source = None
    if request.rule is not None:
        source = RuleSource(request.rule.file, request.rule.line, 1, request.rule.text)
    grants = request.may_grant or request.people > 1
    rule = ApprovalRule(
        request.tool,
        source,
        people=request.people,
        risk=request.risk,
        grants=grants,
        approvers=approvers,
    )
    return replace(net, rule=rule)


def withdrawals(state: SessionState, reason: str = HOST_GONE) -> list[EventBody]:
    """Withdrawals of all open requests."""
    return [
        ApprovalWithdrawn(approval_id=each.id, call_id=each.call_id, reason=reason)
        for each in state.approvals.values()
    ]


UNRESOLVED = ("running", "unknown")
"""Statuses of a call that was allowed and has no result."""
NOT_YET = ("proposed", "waiting", "skipped")
"""Statuses of a call that was not decided."""


def status_of(state: SessionState, call_id: str) -> str:
    """Status of a call; a call that the state does not have was at most proposed."""
    call = state.calls.get(call_id)
    return "proposed" if call is None else call.status


def unknown_result(call_id: str, tool: str, pending: Iterable[PendingState]) -> CallResult:
    """Result of a call whose outcome is unknown; it drops the `pending` steps of the call."""
    return CallResult(
        call_id=call_id,
        tool=tool,
        output=UNKNOWN_OUTCOME,
        is_error=True,
        dropped=tuple(each.step for each in pending if each.call_id == call_id),
        unknown=True,
    )


def _tool_message(call_id: str, tool: str, text: str | None, is_error: bool = True) -> MessageAdded:
    return MessageAdded(role="tool", text=text, call_id=call_id, tool=tool, is_error=is_error)


def _answer(call_id: str, tool: str, call: CallState | None, otherwise: str) -> MessageAdded:
    """Tool message of a call with its recorded end, or `otherwise` if it was never decided."""
    match call:
        case CallState(status="done" | "failed" | "running" | "unknown" as status):
            return _tool_message(call_id, tool, None, is_error=status != "done")
        case CallState(status="blocked", reason=reason):
            return _tool_message(call_id, tool, reason or f"{tool} is blocked.")
        case _:
            return _tool_message(call_id, tool, otherwise)
