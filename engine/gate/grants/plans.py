"""Grants of plans: an approved plan becomes one net per step, with a token for each call.

A plan answers those questions that an operator could have answered for each call of a step after seeing
only the step. Questions that need more (several people, a high risk, a passkey, a group of which no
member approved the plan) are asked for every call as before (G-109).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from ...core.approvers import ANYBODY, Approvers
from ...core.condition import (
    And,
    Compare,
    Condition,
    Or,
    Surroundings,
    condition_text,
    holds,
    sources_of,
)
from ...core.people import person_key
from ...core.plan import (
    LONGEST_CONDITION,
    PLAN,
    ConditionReader,
    Plan,
    PlanError,
    PlanStep,
    calls_text,
    read_plan,
)
from ...core.rule import ApprovalRule
from ...net.net import Input, SkillNet, ToolCall
from .. import reasons
from ..approve import ApprovalProgress, manual_steps
from ..classify import (
    Classification,
    MemberVerdict,
    exact_input_reason,
    programs,
    unmapped_fields,
)
from ..member import Member
from ..types import Approval, GrantTerms
from .net import Grant, PlannedStep, Question, from_subagent, grant_net, question_of

log = logging.getLogger(__name__)

NOT_INSPECTED = "the call could not be inspected"


def plan_of_call(value: Input, conditions: ConditionReader | None) -> Plan:
    """The plan in a call's input; every step of it can be recorded.

    Raises `PlanError`, also for a condition on earlier texts, which a plan cannot know in advance.
    """
    plan = read_plan(value, conditions)
    for at, step in enumerate(plan.steps):
        if step.when is None:
            continue
        place = f"steps[{at}].when"
        if sources_of(step.when):
            raise PlanError(place, "found 'from'", "name the values that the calls will have")
        condition = condition_text(step.when, whole=True)
        is_kept = condition.isprintable() and len(condition) <= LONGEST_CONDITION
        if not is_kept or conditions is None or conditions(condition) != step.when:
            raise PlanError(place, "found a condition that cannot be recorded", "simplify it")
    return plan


def _of_subagent(call: ToolCall) -> bool:
    """Return whether a subagent made a call, in this program or of an external agent."""
    return from_subagent(call) or bool(call.subagent)


@dataclass(frozen=True, slots=True)
class PlanOffer:
    """A step of a plan, with the questions that the plan answers for its calls once it is committed."""

    title: str
    step: PlanStep
    asked: tuple[tuple[Member, str], ...]


@dataclass(frozen=True, slots=True)
class Plans:
    """Parser of a gate's plans; `conditions` parses the conditions of steps."""

    conditions: ConditionReader | None = None

    def problem(self, call: ToolCall, classification: Classification) -> str | None:
        """Reason why no operator is asked about a call of `plan` although a net asks (G-108).

        `None` if the plan can be approved, or if no net asks.
        """
        if not any(step.tool == PLAN for *_, step, _ in manual_steps(classification.verdicts)):
            return None
        if _of_subagent(call):
            return reasons.PLAN_OF_SUBAGENT
        try:
            plan_of_call(call.input, self.conditions)
        except PlanError as error:
            return str(error)
        return None

    def offers(
        self,
        call: ToolCall,
        classification: Classification,
        progress: ApprovalProgress,
        members: Sequence[Member],
    ) -> list[PlanOffer]:
        """Grants of a plan that operators have approved (G-108).

        Empty if no net asks about `plan`, or if it was not operators who answered. Raises `PlanError` for
        a call that is not a plan.
        """
        steps = manual_steps(classification.verdicts)
        answers = [progress.answers.get(question) for *_, step, question in steps if step.tool == PLAN]
        if _of_subagent(call) or not answers:
            return []
        if any(answer is None or not answer.approved for answer in answers):
            return []
        plan = plan_of_call(call.input, self.conditions)
        offers = (
            PlanOffer(plan.title, step, tuple(_answered(step, members, progress))) for step in plan.steps
        )
        return [offer for offer in offers if offer.asked]


def questions_of(members: Iterable[Member]) -> frozenset[Question]:
    """All questions that nets may ask operators."""
    asking = ((m, t) for m in members for t in m.net.transitions if t.type == "manual")
    return frozenset(member.question(name) for member, transition in asking for name in transition.tools)


def _answered(
    step: PlanStep, members: Iterable[Member], progress: ApprovalProgress
) -> Iterable[tuple[Member, str]]:
    """Questions about a step's calls that the approvers of the plan could have answered alone.

    Questions of a net that was activated while they read the plan are left out, because the plan was
    shown without it.
    """
    remaining = set(progress.foreseen or ())
    for member in members:
        for name in dict.fromkeys((step.tool, *step.effects)):
            question = member.question(name) if name in member.knows and name != PLAN else None
            if question in remaining and may_answer(member.net, name, progress.approvals):
                remaining.discard(question)
                yield member, name


def may_answer(net: SkillNet, name: str, approvals: Sequence[Approval]) -> bool:
    """Return whether a net asks about a name and one person who approved the plan suffices to answer.

    Two kinds of approval need someone who sees the state at that time: one that lets later calls pass,
    and one that is needed only since a call of another tool. A plan does not answer these.
    """
    asking = [t for t in net.transitions if t.type == "manual" and name in t.tools]
    rule = net.rule
    if not asking or any(t.partial or t.deferred for t in asking):
        return False
    if isinstance(rule, ApprovalRule) and (
        rule.people > 1 or not rule.may_grant or rule.risk == "high" or rule.after is not None
    ):
        return False
    terms = [t.approvers or ANYBODY for t in asking]
    if isinstance(rule, ApprovalRule) and rule.approvers is not None:
        terms.append(rule.approvers)
    return all(any(_counts(each, approval) for approval in approvals) for each in terms)


def _counts(terms: Approvers, approval: Approval) -> bool:
    """Return whether a person who approved the plan counts for these terms at any time and for any call.

    The people behind a session change with every message, and a passkey proves a single request.
    """
    answer = approval.answer
    if not answer.approved or terms.passkey or not terms.author:
        return False
    if terms.group is None:
        return True
    people = (name for name in (answer.by, *answer.others) if name and person_key(name))
    return any(terms.counts(answer.groups.get(name, ())) for name in people)


def plan_answer(progress: ApprovalProgress | None, offers: Sequence[PlanOffer]) -> str:
    """Notice to the agent about its plan, which runs nothing by itself (G-108)."""
    if not offers:
        has_answer = progress is not None and bool(progress.approvals)
        return reasons.PLAN_ANSWERS_NOTHING if has_answer else reasons.PLAN_NOT_ASKED
    plan = Plan(offers[0].title, tuple(offer.step for offer in offers))
    return reasons.plan_approved(calls_text(plan.calls))


def planned_grant(
    key: str, plan: str, title: str, step: PlanStep, asked: Sequence[tuple[str, SkillNet, str]]
) -> Grant:
    """Grant for a step of the plan under the key `plan`, in place of the operators to be `asked`.

    `asked` has the key of each net that asks, the net and the name that it asks about. If it is empty,
    the grant answers nothing.
    """
    terms = GrantTerms("names", step.count)
    questions = tuple(question_of(*each) for each in asked)
    names = tuple(dict.fromkeys(name for *_, name in asked)) or (step.tool,)
    effects = tuple(name for name in step.effects if name != step.tool)
    return Grant(
        key,
        grant_net(key, names, terms),
        asked[0][0] if asked else "",
        step.tool,
        (*effects, step.tool),
        None,
        {},
        terms,
        questions[0] if questions else (),
        planned=PlannedStep(
            plan,
            title,
            step.when,
            tuple((each, name) for each, _, name in asked),
            frozenset(questions),
        ),
    )


def plan_of(grant: Grant) -> Plan | None:
    """The step that a grant is for, as a plan of its own; `None` for a grant without a plan."""
    planned = grant.planned
    if planned is None:
        return None
    step = PlanStep(grant.tool, grant.terms.uses or 1, planned.when, grant.names[:-1])
    return Plan(planned.title, (step,))


def planned_difference(
    grant: Grant,
    planned: PlannedStep,
    classification: Classification,
    call: ToolCall,
    namers: Iterable[SkillNet],
    surroundings: Surroundings,
) -> str | None:
    """Difference between a call and the step that a grant is for; `None` for a call of the step.

    `namers` are nets with all the functions that name calls. Anything uncertain counts as a difference.
    """
    if _of_subagent(call):
        return reasons.OF_SUBAGENT
    if not set(classification.names) <= set(grant.names):
        return reasons.other_names(classification.names)
    if classification.unclear is not None:
        return reasons.MAY_BE_MORE
    if classification.judged_as:
        return reasons.other_names(classification.judged_as)
    try:
        for net in namers:
            if (reason := exact_input_reason(net, call)) is not None:
                return reason
            if any(programs(net, call)) and not _tells_of(planned.when, net, call):
                return reasons.OTHER_PROGRAM
        around = surroundings.about(call.tool_name)
        if planned.when is not None and holds(planned.when, call.input, around) is not True:
            return reasons.NOT_AS_PLANNED
    except Exception:
        log.exception("Call '%s' could not be inspected", call.tool_call_id)
        return NOT_INSPECTED
    return None


def _tells_of(when: Condition | None, net: SkillNet, call: ToolCall) -> bool:
    """Return whether a condition limits what a net's maps read in a call, so that operators saw what may
    run.

    A condition on anything else is also met by calls that run any program under a mapped name.
    """
    open_fields = unmapped_fields(net, call)
    names = {name for name in call.input if name not in open_fields}
    return when is not None and limits(when, names)


def limits(condition: Condition, fields: Container[str]) -> bool:
    """Return whether a condition excludes some of the values that one of the fields may have."""
    match condition:
        case Compare(root="input", path=path, operator="=" | "in" | "contains" | "matches" | "under"):
            return path[0] in fields
        case And(parts=parts):
            return any(limits(part, fields) for part in parts)
        case Or(parts=parts):
            return all(limits(part, fields) for part in parts)
        case _:
            return False


def distinct(uses: Iterable[MemberVerdict]) -> list[MemberVerdict]:
    """Uses of grants without duplicates: one use of a step answers all questions about its call."""
    return list({member.key: (member, verdict) for member, verdict in uses}.values())
