"""Forecast of a plan, for the operators who are asked to approve it: the outcome of each of its calls.

The calls are made in the order of the steps, from the current markings and at the current time. Each is
assumed to be approved if it needs approval, and to succeed. Of a call's input only what its step says is
known: a net whose condition reads anything else may apply or not. Changes nothing; validators of
hand-built nets are not consulted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from ...core.approvers import ANYBODY
from ...core.condition import And, Compare, Condition, Input, Not, Or, Surroundings, holds
from ...core.plan import PLAN, Plan, PlanStep
from ...core.rule import ApprovalRule
from ...net.net import Marking, NetError, SkillNet, ToolCall, Transition, fire_and_advance
from .. import reasons
from ..classify import Roster, command_fields, exact_input_reason
from ..conditions import EvaluationContext
from ..member import Member
from ..types import Approval, ApprovalAnswer, NetVerdict
from .plans import limits, may_answer

Planned: TypeAlias = Literal["runs", "planned", "may_ask", "asks", "blocked", "open"]
"""A call runs without approval, is answered by the plan, may need approval, needs approval despite the
plan, is blocked, or may be blocked.
"""

MOST_MARKINGS = 64
"""Most markings tracked per net; beyond them nothing about the net is certain."""
IF_ASKED = "if a rule asks about it by then, it is approved with the plan"
MANY = "it depends on the calls before it"
ANY_COMMAND = "the step does not limit the command, which may run a program that no map names"
NO_EFFECT = "the step names no effect of its command, and a plan covers only commands that a map names"


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of `calls` consecutive calls of a step; `reason` is why they do not run."""

    calls: int
    outcome: Planned
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Outcomes of a step's calls, in order, and the most calls for which the plan answers."""

    step: PlanStep
    findings: tuple[Finding, ...]
    most: int


@dataclass(frozen=True, slots=True)
class _Judged:
    """Verdicts of one net on a call: the reason of each block, and the names it may ask about.

    `passes` is true if the net may let the call pass; `after` are the possible markings afterwards.
    """

    member: Member
    passes: bool
    blocks: tuple[str, ...]
    asks: tuple[tuple[str, int], ...]
    after: tuple[Marking, ...] | None


@dataclass(slots=True)
class _Walk:
    """Possible markings of each net, by key; `None` if there are too many to track."""

    context: EvaluationContext
    markings: dict[str, tuple[Marking, ...] | None] = field(
        default_factory=dict[str, "tuple[Marking, ...] | None"]
    )

    def at(self, member: Member) -> tuple[Marking, ...] | None:
        if member.key not in self.markings:
            self.markings[member.key] = (dict(self.context.marking(member)),)
        return self.markings[member.key]

    def go(self, judged: _Judged, *, surely: bool) -> None:
        """Let a call pass a net; unless `surely`, another net may have blocked the call."""
        key, before = judged.member.key, self.at(judged.member)
        if before is None or judged.after is None:
            self.markings[key] = None
            return
        after = [*judged.after, *(() if surely else before)]
        distinct = [marking for at, marking in enumerate(after) if marking not in after[:at]]
        self.markings[key] = None if len(distinct) > MOST_MARKINGS else tuple(distinct)


def forecast_of(plan: Plan, roster: Roster, context: EvaluationContext) -> tuple[StepForecast, ...]:
    """Outcomes of a plan's calls under the active nets. Raises what a net's callback raises."""
    sure = _approvals(roster.members)
    groups = _groups(t for member in roster.members for t in member.net.transitions)
    possible = [_approval(each.net, groups) for each in sure]
    walk = _Walk(context)
    return tuple(_of_step(step, roster, walk, sure, possible) for step in plan.steps)


def _approvals(members: Iterable[Member]) -> list[Approval]:
    """Minimal approvals of the plan: for each rule that asks about it, by a person in only its groups."""
    return [
        _approval(member.key, _groups([transition]))
        for member in members
        for transition in member.net.transitions
        if transition.type == "manual" and PLAN in transition.tools
    ]


def _approval(net: str, groups: tuple[str, ...]) -> Approval:
    """Approval of the plan by a person in these groups."""
    return Approval(net, PLAN, ApprovalAnswer(True, by="person", groups={"person": groups}))


def _groups(transitions: Iterable[Transition]) -> tuple[str, ...]:
    """Groups whose members count for some of these transitions."""
    named = (group for each in transitions for group in (each.approvers or ANYBODY).groups())
    return tuple(dict.fromkeys(named))


def _of_step(
    step: PlanStep,
    roster: Roster,
    walk: _Walk,
    sure: Sequence[Approval],
    possible: Sequence[Approval],
) -> StepForecast:
    value = _known_input(step.when)
    call = ToolCall("plan", step.tool, value).run_by(walk.context.surroundings.shell)
    classified = roster.classify(call, walk.context)
    own = classified.names
    strange = [name for name in own if name not in step.names]
    named = tuple(dict.fromkeys((*(e for e in step.effects if e not in own), *own)))
    answers: dict[tuple[str, str], str | None] = {}
    for member in roster.members:
        for name in named:
            if name in member.knows and name != PLAN and may_answer(member.net, name, possible):
                certain = may_answer(member.net, name, sure)
                answers[member.key, name] = None if certain else _if_of_group(member.net, name)
    doubt = _doubt(step, roster, call, unclear=classified.unclear is not None)
    outcomes: list[Finding] = []
    for _ in range(step.count):
        judged = [
            found
            for member in roster.members
            if any(name in member.knows for name in named)
            and (found := _judge(member, own, named, step.when, call, walk)) is not None
        ]
        outcome = _outcome(judged, strange, answers, doubt)
        if outcome.outcome != "blocked":
            for each in judged:
                walk.go(each, surely=outcome.outcome != "open" and not each.blocks)
        if outcomes and (outcomes[-1].outcome, outcomes[-1].reason) == (outcome.outcome, outcome.reason):
            outcome = Finding(outcomes.pop().calls + 1, outcome.outcome, outcome.reason)
        outcomes.append(outcome)
    # Further input fields may give the call other names, but cannot change which names its tool folds to.
    surely = doubt is not None and doubt.outcome == "asks"
    never = not answers or classified.judged_as or surely
    return StepForecast(step, tuple(outcomes), 0 if never else step.count)


def _doubt(step: PlanStep, roster: Roster, call: ToolCall, *, unclear: bool) -> Finding | None:
    """Outcome of calls that the plan answers by their names but may still not cover (G-109).

    `None` if the plan covers the calls with these names. If the step fixes a command, everything about it
    is known; `unclear` says that it may do more than its names say.
    """
    for net in roster.namers:
        fields = command_fields(net, step.tool)
        if not fields:
            continue
        if all(_at(call.input, field) is not None for field in fields):
            reason = reasons.MAY_BE_MORE if unclear else exact_input_reason(net, call)
            if reason is not None:
                return Finding(1, "asks", reason)
        elif step.when is None or not limits(step.when, {field.partition(".")[0] for field in fields}):
            return Finding(1, "may_ask", ANY_COMMAND)
        elif len(step.names) == 1:
            return Finding(1, "may_ask", NO_EFFECT)
    return None


def _at(value: object, path: str) -> object:
    """Value at a path of an input; `None` if there is none."""
    for name in path.split("."):
        value = cast("Input", value).get(name) if isinstance(value, Mapping) else None
    return value


def _outcome(
    judged: Sequence[_Judged],
    strange: Sequence[str],
    answers: Mapping[tuple[str, str], str | None],
    doubt: Finding | None,
) -> Finding:
    """Outcome of one call, from all nets that know it.

    `answered` are the questions that the plan may answer, each with the condition for that. With `doubt`
    the plan may still not cover the call.
    """
    for each in judged:
        if each.blocks and not each.passes:
            return Finding(1, "blocked", each.blocks[0])
    has_question = False
    group_note: str | None = None
    for each in judged:
        for name, people in each.asks:
            has_question = True
            group_note = group_note or answers.get((each.member.registered, name))
            reason = None
            if strange:
                reason = f"its calls also count as '{strange[0]}', which the step does not name"
            elif people > 1 or (each.member.registered, name) not in answers:
                reason = f"{name} {_needs(each.member.net, people)}"
            if reason is not None:
                return Finding(1, "asks", reason)
    for each in judged:
        if each.blocks:
            return Finding(1, "open", each.blocks[0])
    if has_question:
        return doubt or Finding(1, "planned", group_note)
    later = any(key == each.member.registered for each in judged for key, _ in answers)
    return Finding(1, "runs", IF_ASKED if later else None)


def _if_of_group(net: SkillNet, name: str) -> str:
    """Condition, in words, under which approval of the plan answers a net's question about a name."""
    asking = [t for t in net.transitions if t.type == "manual" and name in t.tools]
    return f"if a member of {' and of '.join(_groups(asking))} approves it"


def _needs(net: SkillNet, people: int) -> str:
    """Approval, in words, that a plan cannot replace."""
    rule = net.rule
    if not isinstance(rule, ApprovalRule):
        return f"needs {people} people" if people > 1 else "needs approval of each call"
    people, terms = max(people, rule.people), rule.approvers
    if people > 1:
        return f"needs {people} people"
    if rule.risk == "high":
        return "is of high risk"
    if terms is not None and terms.passkey:
        return "needs a passkey"
    if rule.until:
        return "has a rule whose approval lets later calls pass, too"
    if rule.after is not None:
        return f"needs approval by somebody who sees what {rule.causes} returned"
    if not rule.grants:
        return "has a rule that says 'no grants'"
    if terms is not None and terms.guards:
        return f"needs approval {terms.words}"
    return "needs approval of each call"


# One net


def _judge(
    member: Member,
    own: tuple[str, ...],
    named: tuple[str, ...],
    when: Condition | None,
    call: ToolCall,
    walk: _Walk,
) -> _Judged | None:
    """Verdicts of a net on a call under its own names, or under all names that its step gives.

    `None` for a net that certainly abstains.
    """
    net = member.net
    variants = list(dict.fromkeys((own, named)))
    condition = net.condition
    if condition is not None and any(name in net.governs for name in named):
        answer = _answer(condition, when, call.input, walk.context.surroundings)
        ungoverned = [tuple(name for name in names if name not in net.governs) for names in variants]
        if answer is False:
            variants = ungoverned
        elif answer is None:
            variants += ungoverned
    variants = list(dict.fromkeys(variants))
    if not any(name in member.knows for names in variants for name in names):
        return None
    digest = None if net.per_value is None else net.per_value.digest(call.input)
    if net.per_value is not None and digest is None:
        field_name = str(net.per_value.field)
        return _unsure(member, variants, f"it depends on the value of {field_name}")
    found = member if digest is None else member.of_value(digest)
    if net.measured:
        measured = found.of_call(call.input)
        if measured is None:
            amounts = [t.amount for t in net.transitions if t.amount is not None]
            return _unsure(found, variants, f"it depends on the number in {amounts[0].field.name}")
        found = measured
    markings = walk.at(found)
    if markings is None:
        return _unsure(found, variants, MANY)
    return _judged_at(found, variants, markings)


def _judged_at(
    member: Member, variants: Sequence[tuple[str, ...]], markings: Sequence[Marking]
) -> _Judged:
    blocks: dict[str, None] = {}
    questions: dict[str, int] = {}
    after: list[Marking] | None = []
    passes = False
    for names in variants:
        for marking in markings:
            if not any(name in member.knows for name in names):
                passes = True
                after = None if after is None else [*after, marking]
                continue
            verdict = member.verdict(names, marking)
            if verdict.kind == "blocked":
                blocks[verdict.reason or f"{verdict.tool} is blocked."] = None
                continue
            passes = True
            for name, people in _questions(verdict):
                questions[name] = max(people, questions.get(name, 0))
            moved = _moved(member, verdict, marking)
            after = None if after is None or moved is None else [*after, moved]
    return _Judged(
        member, passes, tuple(blocks), tuple(questions.items()), None if after is None else tuple(after)
    )


def _unsure(member: Member, variants: Sequence[tuple[str, ...]], reason: str) -> _Judged:
    """Verdicts of a net in an unknown state: it may block, and may ask everything that it ever asks."""
    names = {name for each in variants for name in each}
    questions = {
        name: sum(name in t.tools for t in member.net.transitions if t.partial) + 1
        for t in member.net.transitions
        if t.type == "manual"
        for name in t.tools
        if name in names
    }
    return _Judged(member, True, (reason,), tuple(questions.items()), None)


def _questions(verdict: NetVerdict) -> Iterator[tuple[str, int]]:
    """Names that a verdict asks about, each with the number of people."""
    asking = [step.tool for step in verdict.steps if step.transition.type == "manual"]
    for name in dict.fromkeys(asking):
        yield name, asking.count(name)


def _moved(member: Member, verdict: NetVerdict, marking: Marking) -> Marking | None:
    """Marking after a call has succeeded, with its deferred transitions; `None` if unknown."""
    deferred = [step for step in verdict.steps if step.transition.deferred]
    at_once = [step for step in verdict.steps if not step.transition.deferred]
    try:
        for step in (*at_once, *deferred):
            moved = fire_and_advance(member.net, marking, step.transition)
            if moved is None:
                return None
            marking = moved
    except NetError:
        return None
    return marking


# What a step's condition says about the input of its calls.


def _parts(when: Condition | None) -> Iterator[Condition]:
    """Conditions that certainly hold if `when` does."""
    if isinstance(when, And):
        for part in when.parts:
            yield from _parts(part)
    elif when is not None:
        yield when


def _known_input(when: Condition | None) -> dict[str, object]:
    """Fields whose values a step's condition fixes."""
    value: dict[str, object] = {}
    for part in _parts(when):
        match part:
            case Compare(operator="=", root="input", quantifier=None, path=path):
                _put(value, path, part.value)
            case _:
                pass
    return value


def _put(value: dict[str, object], path: tuple[str, ...], fixed: object) -> None:
    for name in path[:-1]:
        inner = value.setdefault(name, dict[str, object]())
        if not isinstance(inner, dict):
            return
        value = cast("dict[str, object]", inner)
    value.setdefault(path[-1], fixed)


def _answer(
    condition: Condition, when: Condition | None, value: Input, surroundings: Surroundings
) -> bool | None:
    """Return whether a net's condition holds for every call of a step; `None` if that is open."""
    said = list(_parts(when))
    if condition in said:
        return True
    match condition:
        case Compare():
            if any(part == Not(condition) for part in said):
                return False
            if condition.operator in ("is", "from") and condition.root == "input":
                # A field that the step does not fix may be present, and other values may be said.
                return None
            if condition.root == "hint":
                # The hints that the tool's server will claim are unknown.
                return None
            return holds(condition, value, surroundings)
        case Not(inner=inner):
            answer = _answer(inner, when, value, surroundings)
            return None if answer is None else not answer
        case And(parts=parts) | Or(parts=parts):
            decisive = isinstance(condition, Or)
            answers = [_answer(part, when, value, surroundings) for part in parts]
            if decisive in answers:
                return decisive
            return None if None in answers else not decisive
