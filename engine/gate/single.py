"""One net without a manager: the low-level way in.

Two things differ from the manager (G-12): a net has no abstain here, so what it does not know is
blocked; and its validator runs before a person is asked and keeps what it wrote to `meta`.
"""

from __future__ import annotations

import logging

from ..net import GateState, SkillNet, ToolCall
from . import reasons
from .approve import Asking, ask, next_question, request_for
from .classify import names_of
from .commit import MetaKeeper, PendingIndex, commit, steps_of, validate
from .member import Member
from .phases import refusal
from .types import GateContext, GateDecision, NetVerdict, ResultRecord, ToolResult

log = logging.getLogger(__name__)


async def handle_tool_call(
    call: ToolCall, ctx: GateContext, net: SkillNet, state: GateState
) -> GateDecision:
    """Gate one call by one net; its tokens move only when the call is allowed.

    Never raises for what the net or a callback does: that blocks.
    """
    try:
        return await _handle(call, ctx, Member(net.name, net, state))
    except Exception as problem:
        log.exception("The gate failed on call '%s' to '%s'", call.tool_call_id, call.tool_name)
        return refusal(call, reasons.gate_failed(problem))


async def _handle(call: ToolCall, ctx: GateContext, member: Member) -> GateDecision:
    if call.tool_call_id in member.state.pending:
        return refusal(call, reasons.id_in_use(call.tool_call_id))
    case = Asking(call)
    validated: ToolCall | None = None
    while True:
        names, verdict = _verdict(case.call, member)
        if verdict.kind == "blocked":
            return _block(case, names, verdict)
        gated = [(member, verdict)] if verdict.kind == "gated" else []
        if validated is not case.call:
            validated = case.call
            refused = validate(gated, case.call, MetaKeeper())
            if refused is not None:
                return _block(case, names, refused[1])
        asked = next_question(gated, case.answers)
        if asked is None:
            break
        step = asked[1]
        if ctx.confirm is None:
            return _block(case, names, member.blocked(step.tool, reasons.requires_approval(step.tool)))
        if not case.approvals:
            case = Asking.about(call)
            validated = case.call
        try:
            answer = await ask(ctx.confirm, request_for(case.call, member, step, names, net=""))
        except Exception as problem:
            reason = reasons.callback_failed(member.key, "confirm", problem)
            return _block(case, names, member.blocked(step.tool, reason))
        case.take(member, step, answer)
        if not answer.approved:
            refusal_reason = reasons.rejected(step.tool, answer.reason)
            return _block(case, names, member.blocked(step.tool, refusal_reason))
    refused = commit(gated, case.call, PendingIndex())
    if refused is not None:
        return _block(case, names, refused[1])
    return GateDecision(case.call, "allow", names=names, steps=steps_of(gated), approvals=case.approvals)


def _verdict(call: ToolCall, member: Member) -> tuple[tuple[str, ...], NetVerdict]:
    """The names of the call and the net's verdict, which is never to abstain."""
    try:
        names = names_of(member.net, call)
    except Exception as problem:
        callback = "tool_mapper" if member.net.tool_mapper else "call_names"
        reason = reasons.callback_failed(member.key, callback, problem)
        return (call.tool_name,), member.blocked(call.tool_name, reason)
    verdict = member.verdict(names)
    if verdict.kind == "abstain":
        return names, member.blocked(names[0], reasons.unavailable(member.net, names[0]))
    return names, verdict


def _block(case: Asking, names: tuple[str, ...], verdict: NetVerdict) -> GateDecision:
    return GateDecision(
        case.call,
        "block",
        reason=verdict.reason,
        net=verdict.net,
        rule=verdict.rule,
        names=names,
        approvals=case.approvals,
    )


def handle_tool_result(result: ToolResult, net: SkillNet, state: GateState) -> ResultRecord:
    """Resolve what waits for `result` in one net (G-16)."""
    return PendingIndex.of(Member(net.name, net, state)).settle(result)
