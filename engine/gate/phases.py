"""The four phases of one call, up to the next thing that has to be waited for.

`enforce` and `shadow` each take a call as far as it goes without waiting: to a decision, or to the
question a person has to answer first. They are synchronous, so nothing can come between the verdicts a
decision rests on and its commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..frozen import maker
from ..net import Marking, NetError, ToolCall, fire_and_advance, is_enabled
from . import reasons
from .approve import Asking, Question, next_question, request_for
from .classify import Finding, Findings, Roster
from .commit import MetaKeeper, PendingIndex, commit, steps_of, validate
from .member import Member
from .types import Approval, ApprovalAnswer, ApprovalRequest, Confirm, GateDecision, Mode, Step


@dataclass(frozen=True, slots=True)
class Asked:
    """The question a call waits for, and who can answer it."""

    asking: Asking
    member: Member
    step: Step
    confirm: Confirm
    request: ApprovalRequest


_decision = maker(GateDecision)
_NO_ANSWERS: dict[Question, ApprovalAnswer] = {}


def enforce(
    call: ToolCall,
    confirm: Confirm | None,
    roster: Roster,
    pending: PendingIndex,
    asking: Asking | None = None,
) -> GateDecision | Asked:
    """Decide and commit, or say whom to ask what (G-11, G-13 … G-15, G-58).

    Called again with `asking` after every answer: the nets active then are asked about the call as it
    is then.
    """
    findings = roster.findings(call)
    approvals = asking.approvals if asking else ()
    blocked = findings.first_block()
    if blocked is not None:
        return _block(findings, _since_asking(asking, blocked), call, approvals)
    if not findings.opinions:
        return GateDecision(call, "allow", names=findings.names, approvals=approvals)
    manual = next_question(findings.opinions, asking.answers if asking else _NO_ANSWERS)
    if manual is not None:
        member, step = manual
        if confirm is None:
            unasked = member.blocked(step.tool, reasons.requires_approval(step.tool))
            return _block(findings, (member, unasked), call, approvals)
        asking = asking or Asking.about(call)
        asking.passed = asking.passed or frozenset([m.key for m, _ in findings.opinions])
        request = request_for(asking.call, member, step, findings.names, net=member.key)
        return Asked(asking, member, step, confirm, request)
    gated = findings.gated()
    keeper = MetaKeeper()
    refused = validate(gated, call, keeper) or commit(gated, call, pending)
    if refused is not None:
        keeper.put_back()
        return _block(findings, refused, call, approvals)
    return GateDecision(call, "allow", names=findings.names, steps=steps_of(gated), approvals=approvals)


def pass_at_once(call: ToolCall, roster: Roster, pending: PendingIndex) -> GateDecision | None:
    """All four phases of the common call: no person, no validator, every net lets it pass.

    `None` for any other, and then nothing has happened: `enforce` takes its time over it. The verdicts
    and the moves are found in one look at each net, which makes such a call three times as fast.
    """
    lane = roster.lanes.get(call.tool_name)
    if lane is None:
        return None
    moves: list[tuple[Member, Step, Marking | None]] = []
    steps: tuple[Step, ...] = ()
    try:
        for member, ways in lane.nets:
            marking = member.state.marking
            for transition, verdict in ways:
                if transition.deferred:
                    after = None
                    passes = is_enabled(marking, transition)
                else:
                    after = fire_and_advance(member.net, marking, transition)
                    passes = after is not None
                if passes:
                    moves.append((member, verdict.steps[0], after))
                    steps += verdict.steps
                    break
            else:
                return None
    except NetError:
        return None
    for member, step, after in moves:
        if after is None:
            pending.add(member, step, call)
        else:
            member.state.marking = after
    return _decision(call, "allow", "enforce", None, None, None, lane.names, steps)


def _since_asking(asking: Asking | None, blocked: Finding) -> Finding:
    """A net that let the call pass before a person was asked says that the state changed (G-15)."""
    member, verdict = blocked
    if asking is None or member.key not in asking.passed:
        return blocked
    return member, member.blocked(verdict.tool, reasons.state_changed(verdict.tool))


def shadow(
    call: ToolCall, confirm: Confirm | None, roster: Roster, pending: PendingIndex
) -> GateDecision:
    """What `enforce` would do, without asking; the nets move as if the call had been allowed (G-57).

    A net that would have blocked stays where it is. Every other gated net fires, manual transitions
    included.
    """
    findings = roster.findings(call)
    blocked = findings.first_block()
    manual = next_question(findings.opinions, _NO_ANSWERS)
    refused: Finding | None = None
    moved: list[Finding] = []
    for finding in findings.gated():
        keeper = MetaKeeper()
        refusal = validate([finding], call, keeper) or commit([finding], call, pending)
        if refusal is None:
            moved.append(finding)
        else:
            keeper.put_back()
            refused = refused or refusal
    steps = steps_of(moved)
    if blocked is None and manual is not None:
        member, step = manual
        if confirm is not None:
            rule = member.net.rule
            return GateDecision(call, "ask", "shadow", None, member.key, rule, findings.names, steps)
        blocked = member, member.blocked(step.tool, reasons.requires_approval(step.tool))
    against = blocked or refused
    if against is not None:
        return _block(findings, against, call, mode="shadow", steps=steps)
    return GateDecision(call, "allow", "shadow", names=findings.names, steps=steps)


def refused(asked: Asked, reason: str) -> GateDecision:
    """A decision against the call by the person who was asked, or for want of a proper answer."""
    return GateDecision(
        asked.asking.call,
        "block",
        "enforce",
        reason,
        asked.member.key,
        asked.member.net.rule,
        asked.request.names,
        approvals=asked.asking.approvals,
    )


def refusal(call: ToolCall, reason: str, mode: Mode = "enforce") -> GateDecision:
    """The gate's own no, in no net's name."""
    return GateDecision(call, "block", mode, reason, names=(call.tool_name,))


def _block(
    findings: Findings,
    against: Finding,
    call: ToolCall,
    approvals: tuple[Approval, ...] = (),
    *,
    mode: Mode = "enforce",
    steps: tuple[Step, ...] = (),
) -> GateDecision:
    """A decision against the call, with the net and rule that are against it (G-60)."""
    member, verdict = against
    return GateDecision(
        call,
        "block",
        mode,
        verdict.reason,
        member.key,
        member.net.rule,
        findings.names,
        steps,
        approvals,
    )
