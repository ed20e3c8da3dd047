"""One net without a manager: the low-level interface.

It differs from the manager in two ways (G-12). A net cannot abstain here, so it blocks what it does not
know. Its validator runs before an operator is asked, and keeps what it wrote to `meta`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ...core.condition import NOWHERE, Surroundings
from ...core.rule import RESERVED
from ...net.net import GateState, SkillNet, ToolCall, Transition, define_skill_net
from .. import reasons
from ..approve import ApprovalProgress, ask, next_question, request_for
from ..classify import Classification, Roster
from ..commit import MetaKeeper, PendingIndex, commit, steps_of, validate
from ..conditions import EvaluationContext, Timekeeper
from ..decision import refusal, refusal_without_asking
from ..member import Member
from ..types import GateContext, GateDecision, NetVerdict, ResultRecord, ToolResult

log = logging.getLogger(__name__)


async def handle_tool_call(
    call: ToolCall,
    ctx: GateContext,
    net: SkillNet,
    state: GateState,
    *,
    surroundings: Surroundings = NOWHERE,
    clock: Callable[[], float] = time.time,
) -> GateDecision:
    """Gate one call with one net; its tokens move only if the call is allowed.

    A call by names for which the net's condition does not hold is allowed, because the net does not judge
    it. `surroundings` and `clock` are as in `GateManager`. Never raises for what the net or a callback
    does: the call is blocked instead.
    """
    try:
        return await _handle(
            call.run_by(surroundings.shell),
            ctx,
            Member(net.name, net, state),
            Timekeeper(clock, surroundings),
        )
    except Exception as problem:
        log.exception("The gate failed on call '%s' to '%s'", call.tool_call_id, call.tool_name)
        return refusal(call, reasons.gate_failed(problem))


async def _handle(
    call: ToolCall, ctx: GateContext, member: Member, timekeeper: Timekeeper
) -> GateDecision:
    if any(call.tool_call_id in each.state.pending for each in (member, *member.values())):
        return refusal(call, reasons.id_in_use(call.tool_call_id))
    case = ApprovalProgress(call)
    validated: ToolCall | None = None
    state = member.state
    state.since = timekeeper.context().since(member.net, state.marking, state.since)
    while True:
        context = timekeeper.context()
        classification, judge, verdict = _verdict(case.call, member, context)
        if verdict.kind == "blocked":
            return _block(case, classification, verdict, context)
        gated = [(judge, verdict)] if verdict.kind == "gated" else []
        keeper = MetaKeeper()
        keeper.age(gated, context)
        if validated is not case.call:
            validated = case.call
            refused = validate(gated, case.call, MetaKeeper())
            if refused is not None:
                keeper.put_back()
                return _block(case, classification, refused[1], context)
        question = next_question(gated, case.answers)
        if question is None:
            break
        keeper.put_back()
        step = question[2]
        unasked = refusal_without_asking(case.call, member, verdict, step, ctx.confirm, case)
        if ctx.confirm is None or unasked is not None:
            return _block(case, classification, unasked[1] if unasked else verdict, context)
        if not case.questions:
            case = ApprovalProgress.start(call)
            validated = case.call
        request = request_for(
            case.call,
            member,
            verdict,
            step,
            classification.names,
            context.marking(member),
            edit=case.edit,
        )
        try:
            answer = await ask(ctx.confirm, request)
        except Exception as problem:
            reason = reasons.callback_failed(member.key, "confirm", problem)
            return _block(case, classification, member.blocked(step.tool, reason), context)
        if not answer.asked:
            reason = reasons.unasked(step.tool, answer.reason)
            return _block(case, classification, member.blocked(step.tool, reason), context)
        case.take_answer(member, step, answer)
        if not answer.approved and not answer.again:
            refusal_reason = reasons.rejected(step.tool, answer.reason)
            return _block(case, classification, member.blocked(step.tool, refusal_reason), context)
        if answer.grant is not None and not answer.again:
            reason = reasons.no_grant(step.tool, "a net on its own keeps none")
            return _block(case, classification, member.blocked(step.tool, reason), context)
    refused = commit(gated, case.call, PendingIndex(), context)
    if refused is not None:
        keeper.put_back()
        return _block(case, classification, refused[1], context)
    return GateDecision(
        case.call,
        "allow",
        names=classification.names,
        steps=steps_of(gated, context),
        approvals=case.approvals,
        clock=context.clock,
        unclear=classification.unclear,
        judged_as=classification.judged_as,
        edited_by=case.editor,
    )


def _verdict(
    call: ToolCall, member: Member, context: EvaluationContext
) -> tuple[Classification, Member, NetVerdict]:
    """Classification of the call and the net's verdict, which abstains only because of its condition.

    For a net per value, the net is that of the call's value. A tool whose name only folds to a name that
    the net knows is unknown to the net.
    """
    classification = Roster([member]).classify(call, context)
    for judge, verdict in (*classification.verdicts, *classification.abstaining):
        passes = verdict.kind != "abstain" or verdict.note is not None
        if verdict.kind == "blocked" or (passes and not classification.judged_as):
            return classification, judge, verdict
    name = next((name for name in classification.names if name not in RESERVED), call.tool_name)
    return classification, member, member.blocked(name, reasons.unavailable(member.net, name))


def _block(
    case: ApprovalProgress,
    classification: Classification,
    verdict: NetVerdict,
    context: EvaluationContext,
) -> GateDecision:
    return GateDecision(
        case.call,
        "block",
        reason=classification.reason(verdict),
        net=verdict.net,
        rule=verdict.rule,
        names=classification.names,
        approvals=case.approvals,
        clock=context.clock,
        unclear=classification.unclear,
        judged_as=classification.judged_as,
        edited_by=case.editor,
    )


def handle_tool_result(
    result: ToolResult,
    net: SkillNet,
    state: GateState,
    *,
    clock: Callable[[], float] = time.time,
) -> ResultRecord:
    """Resolve what waits for `result` in one net (G-16)."""
    member = Member(net.name, net, state)
    return PendingIndex.of(member).settle(result, Timekeeper(clock))


# A ready-made net for agents that should read before they write.


tool_approval_net = define_skill_net(
    "tool-approval",
    places=["idle", "ready"],
    transitions=[
        Transition("start", ("idle",), ("ready",)),
        Transition("execShell", ("ready",), ("ready",), ("bash",), type="manual"),
        Transition("execWrite", ("ready",), ("ready",), ("write", "edit"), type="manual"),
    ],
    initial_marking={"idle": 1},
    free_tools=["ls", "read", "grep", "find"],
)
"""Reading is free; a shell and writing files need approval."""
