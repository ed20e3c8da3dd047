"""The four phases of one call, up to the next point at which it must wait.

`enforce` and `shadow` each process a call as far as possible without waiting: to a decision, or to the
first question that an operator has to answer. They are synchronous, so nothing can happen between the
verdicts that a decision rests on and its commit.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from ..core.frozen import frozen, maker
from ..core.plan import PLAN
from ..core.rule import RESERVED
from ..net.net import Marking, NetError, ToolCall, fire_and_advance, is_enabled
from . import reasons
from .approve import (
    MOST_QUESTIONS,
    NO_ANSWERS,
    ApprovalProgress,
    manual_steps,
    next_question,
    request_for,
)
from .classify import Classification, MemberVerdict, Roster, names_of, with_deed
from .commit import MetaKeeper, PendingIndex, commit, steps_of, validate
from .conditions import EvaluationContext, apply_condition
from .grants.net import Question
from .grants.plans import PlanOffer, Plans, distinct, plan_answer, questions_of
from .grants.store import NOT_COVERED, GrantStore, grant_offers
from .member import Member
from .types import ApprovalRequest, Confirm, GateDecision, Mode, NetVerdict, Outcome, Step


@frozen
class GateSnapshot:
    """State of a gate for one call: active nets, pending transitions, grants and evaluation context.

    `plans` is `None` if a plan is treated like any other call. `reserved` is `None` if uses of limits
    over sessions need no reservation; otherwise it has the reserved uses, as counters by net.
    """

    roster: Roster
    pending: PendingIndex
    granted: GrantStore
    context: EvaluationContext
    plans: Plans | None = None
    reserved: Mapping[str, str] | None = None


make_snapshot = maker(GateSnapshot)


@frozen
class PendingQuestion:
    """Question that a call waits for, who can answer it, and the time at which it was raised."""

    progress: ApprovalProgress
    member: Member
    step: Step
    confirm: Confirm
    request: ApprovalRequest
    clock: float | None
    unclear: str | None
    judged_as: tuple[str, ...]


@frozen
class PendingUses:
    """Uses of limits over sessions that a call needs before it is decided; nothing has happened yet.

    `counters` are the uses to reserve, by net, from time `at` and for `window` seconds; `left` are the
    uses left by counter. If there are none to reserve, the `unsure` counters must be read again before
    the call is blocked.
    """

    counters: Mapping[str, str]
    left: Mapping[str, int]
    at: float = 0.0
    window: float = 0.0
    unsure: frozenset[str] = frozenset()


def _unreserved(moved: Sequence[MemberVerdict], snapshot: GateSnapshot) -> PendingUses | None:
    """Uses to reserve before nets move; `None` if there are none or they are already reserved."""
    if snapshot.reserved is None:
        return None
    context = snapshot.context
    counters: dict[str, str] = {}
    left: dict[str, int] = {}
    window = 0.0
    for member, verdict in moved:
        shared = member.net.shared
        if shared is not None and any(shared.place in step.transition.inputs for step in verdict.steps):
            counters[member.key] = counter = context.counter(member, shared)
            free = context.free(member, shared)
            left[counter] = min(free, left.get(counter, free))
            window = max(window, shared.window)
    if not counters or counters == snapshot.reserved:
        return None
    return PendingUses(counters, left, context.now(), window)


@frozen
class _Case:
    """A call with its classification, before its decision."""

    call: ToolCall
    classification: Classification
    context: EvaluationContext
    progress: ApprovalProgress | None = None
    mode: Mode = "enforce"

    def decided(
        self,
        outcome: Outcome,
        against: MemberVerdict | None = None,
        moved: Sequence[MemberVerdict] = (),
        used: Sequence[MemberVerdict] = (),
        gave: tuple[str, ...] = (),
        planned: Sequence[PlanOffer] = (),
    ) -> GateDecision:
        """The decision, with the net and rule that block or ask, if any (G-60).

        `moved` are all nets that were committed, `used` the grants among them. `planned` is what a plan
        lets pass, for the reason that its agent gets.
        """
        member, verdict = against if against is not None else (None, None)
        return _decision(
            self.call,
            outcome,
            self.mode,
            reason=self._reason(outcome, verdict, planned),
            net=None if member is None else member.registered,
            rule=None if member is None else member.net.rule,
            names=self.classification.names,
            steps=steps_of(moved, self.context) if moved else (),
            approvals=() if self.progress is None else self.progress.approvals,
            granted=tuple([grant.key for grant, _ in used]),
            gave=gave,
            clock=self.context.clock,
            unclear=self.classification.unclear,
            judged_as=self.classification.judged_as,
            edited_by=None if self.progress is None else self.progress.editor,
        )

    def _reason(
        self, outcome: Outcome, verdict: NetVerdict | None, planned: Sequence[PlanOffer]
    ) -> str | None:
        if outcome != "block":
            return plan_answer(self.progress, planned) if self.call.tool_name == PLAN else None
        return None if verdict is None else self.classification.reason(verdict)


_decision = maker(GateDecision)


def enforce(
    call: ToolCall,
    confirm: Confirm | None,
    snapshot: GateSnapshot,
    progress: ApprovalProgress | None = None,
) -> GateDecision | PendingQuestion | PendingUses:
    """Decide and commit, or return the question that must be answered first (G-11, G-13 … G-15, G-58).

    It may also return the uses of limits that must be reserved first.

    It is called again with `progress` after every answer. The nets that are active then judge the call as
    it is then. Questions that operators had to answer before stay open, even if their net is off by now
    or no longer applies to the call (G-67); such a net does not move.
    """
    classification = snapshot.roster.classify(call, snapshot.context)
    held = _held(call, classification, snapshot, progress) if progress is not None else ()
    blocked = classification.first_block() or next((f for f in held if f[1].kind == "blocked"), None)
    if blocked is not None and progress is None:
        # The same as `decided` at 1.3 times its rate: most blocked calls are blocked here.
        member, verdict = blocked
        return _decision(
            call,
            "block",
            "enforce",
            verdict.reason if verdict.tool not in RESERVED else classification.reason(verdict),
            member.registered,
            member.net.rule,
            classification.names,
            (),
            (),
            (),
            (),
            snapshot.context.clock,
            classification.unclear,
            classification.judged_as,
        )
    case = _Case(call, classification, snapshot.context, progress)
    if blocked is not None:
        return case.decided("block", _changed_since_asking(progress, blocked))
    if not classification.verdicts and not held:
        return case.decided("allow")
    granted = snapshot.granted
    covered = (
        granted.covering(classification, call, progress, snapshot.context, snapshot.roster)
        if granted.grants
        else NOT_COVERED
    )
    answers = NO_ANSWERS
    if progress is not None:
        covered, answers = progress.uncovered(covered), progress.answers
    plans = snapshot.plans if call.tool_name == PLAN else None
    if plans is not None and (problem := plans.problem(call, classification)) is not None:
        return refusal(call, reasons.unasked(PLAN, problem))
    verdicts = [*classification.verdicts, *held] if held else classification.verdicts
    manual = next_question(verdicts, answers, covered)
    if manual is not None:
        unasked = refusal_without_asking(
            call, *manual, confirm, progress, quotes_call=snapshot.roster.quotes_calls
        )
        if confirm is None or unasked is not None:
            return case.decided("block", unasked)
        beyond = None
        if granted.grants:
            member, _, step = manual
            beyond = granted.beyond(
                member, step.tool, classification, call, snapshot.context, snapshot.roster
            )
        return _question_for(case, *manual, confirm, covered, beyond, snapshot.roster.members)
    used = distinct(covered.values()) if covered else []
    moved = classification.gated() + used
    planned: Sequence[PlanOffer] = ()
    if plans is not None and progress is not None:
        planned = plans.offers(call, classification, progress, snapshot.roster.members)
    gifts = grant_offers(progress, classification) if progress is not None else ()
    refused = granted.unfit(gifts, classification, call, snapshot.context) if gifts else None
    if refused is None and (needed := _unreserved(moved, snapshot)) is not None:
        return needed
    refused = refused or _commit(moved, call, snapshot)
    if refused is not None:
        return case.decided("block", refused)
    gave = granted.give(gifts, classification, call, snapshot.context) if gifts else ()
    if planned:
        gave += granted.give_plan(planned)
    return case.decided("allow", None, moved, used, gave, planned)


def _held(
    call: ToolCall, classification: Classification, snapshot: GateSnapshot, progress: ApprovalProgress
) -> Sequence[MemberVerdict]:
    """Verdicts behind questions that were shown to operators and that no active net asks now (G-67).

    If the call was edited since, the nets that asked and are off now judge the edited call.
    """
    if progress.stale:
        progress.stale = False
        active = {member.key for member in snapshot.roster.members}
        off = [member for key, member in progress.holders.items() if key not in active]
        judgements = [(m, _verdict_when_off(m, call, snapshot.context)) for m in off]
        progress.hold_questions(judgements)
        if blocks := [finding for finding in judgements if finding[1].kind == "blocked"]:
            return blocks
    if not progress.held:
        return ()
    asked_now = {question for *_, question in manual_steps(classification.verdicts)}
    return [finding for question, finding in progress.held.items() if question not in asked_now]


def _verdict_when_off(member: Member, call: ToolCall, context: EvaluationContext) -> NetVerdict:
    """Verdict of a net that is off; it blocks if naming the call fails (G-59)."""
    try:
        names = names_of(member.net, call)
    except Exception as problem:
        callback = "tool_mapper" if member.net.tool_mapper is not None else "call_names"
        reason = reasons.callback_failed(member.key, callback, problem)
        return member.blocked(call.tool_name, reason)
    return apply_condition(member, names, call, context)[1]


def _question_for(
    case: _Case,
    member: Member,
    verdict: NetVerdict,
    step: Step,
    confirm: Confirm,
    covered: Container[Question],
    beyond: str | None,
    members: Sequence[Member],
) -> PendingQuestion:
    progress = case.progress or ApprovalProgress.start(case.call)
    progress.hold_questions(case.classification.verdicts, covered)
    progress.passed = progress.passed or frozenset([m.key for m, _ in case.classification.verdicts])
    progress.names = case.classification.names
    if case.call.tool_name == PLAN:
        progress.foresee(questions_of(members))
    marking = case.context.marking(member)
    classification = case.classification
    request = request_for(
        progress.call,
        member,
        verdict,
        step,
        classification.names,
        marking,
        member.registered,
        progress.edit,
        beyond,
    )
    unclear, judged_as = classification.unclear, classification.judged_as
    return PendingQuestion(
        progress, member, step, confirm, request, case.context.clock, unclear, judged_as
    )


def refusal_without_asking(
    call: ToolCall,
    member: Member,
    verdict: NetVerdict,
    step: Step,
    confirm: Confirm | None,
    progress: ApprovalProgress | None,
    *,
    quotes_call: bool = False,
) -> MemberVerdict | None:
    """Verdict against a call that needs approval if nobody can be asked, or was asked too often."""
    if progress is not None and progress.questions >= MOST_QUESTIONS:
        return member, member.blocked(step.tool, reasons.never_decided(step.tool))
    if confirm is not None:
        return None
    reason = reasons.because(reasons.requires_approval(step.tool), member.net.rule)
    if verdict.note is not None:
        reason = reasons.applying(reason, verdict.note)
    refused = member.blocked(step.tool, reason)
    return member, with_deed(member, refused, call) if quotes_call else refused


def _commit(
    gated: Sequence[MemberVerdict], call: ToolCall, snapshot: GateSnapshot
) -> MemberVerdict | None:
    """Phases 3 and 4 of `gated` together; return the verdict that blocks, and then nothing changed."""
    for member, _ in gated:
        if member.net.timed or member.net.validate_tool_call is not None:
            break
    else:
        # Nothing changes before the commit itself, so there is nothing to restore.
        return commit(gated, call, snapshot.pending, snapshot.context)
    keeper = MetaKeeper()
    is_committed = False
    try:
        keeper.age(gated, snapshot.context)
        refused = validate(gated, call, keeper) or commit(gated, call, snapshot.pending, snapshot.context)
        is_committed = refused is None
    finally:
        if not is_committed:
            keeper.put_back()
    return refused


def pass_at_once(call: ToolCall, roster: Roster, pending: PendingIndex) -> GateDecision | None:
    """All four phases of the common call: no approval, no validator, and every net lets it pass.

    Returns `None` for any other call, without changing anything; `enforce` then handles it. Verdicts and
    moves are computed in one pass over the nets, which doubles the gate's rate of round trips.
    """
    tool = call.tool_name
    if tool == PLAN:
        return None
    lane = roster.lanes.get(tool)
    if lane is None and tool not in roster.unknown_tools:
        lane = roster.lane(tool)
        if lane is None and not roster.is_unknown_tool(tool):
            return None
    if lane is None:
        return _decision(call, "allow", "enforce", None, None, None, (tool,))
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


def _changed_since_asking(progress: ApprovalProgress | None, blocked: MemberVerdict) -> MemberVerdict:
    """Replace the reason of a net that let the call pass before approval by "state changed" (G-15)."""
    member, verdict = blocked
    if progress is None or member.key not in progress.passed:
        return blocked
    return member, member.blocked(verdict.tool, reasons.state_changed(verdict.tool))


def shadow(
    call: ToolCall,
    confirm: Confirm | None,
    snapshot: GateSnapshot,
    progress: ApprovalProgress | None = None,
) -> GateDecision | PendingUses:
    """Decision of `enforce` without waiting; a call that needs approval counts as approved (G-57).

    A call that would be blocked moves no net, because it would not have run in enforce mode.
    """
    classification = snapshot.roster.classify(call, snapshot.context)
    case = _Case(call, classification, snapshot.context, mode="shadow")
    blocked = classification.first_block()
    if blocked is not None:
        return case.decided("block", blocked)
    covered = snapshot.granted.covering(classification, call, progress, snapshot.context, snapshot.roster)
    manual = next_question(classification.verdicts, NO_ANSWERS, covered)
    refused = None
    if manual is not None:
        quotes = snapshot.roster.quotes_calls
        refused = refusal_without_asking(call, *manual, confirm, None, quotes_call=quotes)
    used = distinct(covered.values())
    moved = classification.gated() + used
    if refused is None and (needed := _unreserved(moved, snapshot)) is not None:
        return needed
    refused = refused or _commit(moved, call, snapshot)
    if refused is not None:
        return case.decided("block", refused)
    if manual is not None:
        return case.decided("ask", manual[:2], moved, used)
    return case.decided("allow", None, moved, used)


def refusal_by_person(asked: PendingQuestion, reason: str) -> GateDecision:
    """Decision against the call by the operator who was asked, or because no valid answer came."""
    return GateDecision(
        asked.progress.call,
        "block",
        "enforce",
        reason,
        asked.member.registered,
        asked.member.net.rule,
        asked.request.names,
        approvals=asked.progress.approvals,
        clock=asked.clock,
        unclear=asked.unclear,
        judged_as=asked.judged_as,
        edited_by=asked.progress.editor,
    )


def refusal(call: ToolCall, reason: str, mode: Mode = "enforce") -> GateDecision:
    """Block by the gate itself, in no net's name."""
    return GateDecision(call, "block", mode, reason, names=(call.tool_name,))
