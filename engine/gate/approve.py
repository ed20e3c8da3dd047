"""Phase 2: the approval questions about a call that are still open, and the validation of answers.

Only what was approved runs. An edit turns a call into a different call, and answers to the earlier one no
longer count.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from inspect import Parameter, isawaitable, signature
from typing import cast

from ..core.approvers import Approvers
from ..core.json_values import same_json
from ..core.people import person_key
from ..core.plan import PLAN
from ..net.net import Input, Marking, ToolCall
from . import reasons
from .classify import MemberVerdict
from .grants.net import Question
from .member import Member
from .types import (
    Approval,
    ApprovalAnswer,
    ApprovalRequest,
    ChosenEdit,
    Confirm,
    GrantTerms,
    NetVerdict,
    RequestConfirm,
    Step,
    TitledConfirm,
)

NO_ANSWERS: Mapping[Question, ApprovalAnswer] = {}

MOST_QUESTIONS = 1_000
"""Most answers accepted for one call; more than this many edits or `again` answers block the call."""


@dataclass(slots=True)
class ApprovalProgress:
    """State of a call that needs approval: the answers so far, and the nets that let it pass when shown.

    If a net in `passed` blocks the call later, the reason is that the state changed (G-15). `made` is the
    call as the agent made it, `call` as it will run. `held` are the questions that were open when
    approval was requested, with the verdicts that raised them: they need an answer even if those nets
    change (G-67). `holders` are the nets of all questions ever held. `stale` is true if the call has
    changed since `held` was computed. `names` are the names of the call as last shown, `shown` those
    before an operator edited the call and granted later calls. `editor` is the operator who edited it
    last (G-75). `foreseen` are the questions of the nets that were active every time a plan was shown
    (G-109).
    """

    made: ToolCall
    call: ToolCall = field(init=False)
    answers: dict[Question, ApprovalAnswer] = field(default_factory=dict[Question, ApprovalAnswer])
    approvals: tuple[Approval, ...] = ()
    passed: frozenset[str] = frozenset()
    questions: int = 0
    held: dict[Question, MemberVerdict] = field(default_factory=dict[Question, MemberVerdict])
    holders: dict[str, Member] = field(default_factory=dict[str, Member])
    stale: bool = False
    names: tuple[str, ...] = ()
    shown: tuple[str, ...] | None = None
    editor: str | None = None
    foreseen: frozenset[Question] | None = None
    _put: set[Question] = field(default_factory=set[Question])

    def __post_init__(self) -> None:
        self.call = self.made

    @classmethod
    def start(cls, call: ToolCall) -> ApprovalProgress:
        """Start an approval with a private copy of the input: the input shown is the input that runs."""
        own = own_input(call.input)
        return cls(ToolCall(call.tool_call_id, call.tool_name, own, subagent=call.subagent))

    @property
    def edited(self) -> bool:
        return self.call is not self.made

    @property
    def edit(self) -> ChosenEdit | None:
        """Edit of the agent's input; `None` without one."""
        return ChosenEdit(self.made.input, self.call.input, self.editor) if self.edited else None

    def resume_edit(self, edit: ChosenEdit) -> None:
        """Apply an edit that an earlier gate received for the same input (G-75)."""
        if same_json(edit.original, self.made.input):
            self._set_input(own_input(edit.input), edit.by)

    def hold_questions(
        self, verdicts: Iterable[MemberVerdict], covered: Container[Question] = ()
    ) -> None:
        """Record the questions that `verdicts` raise and that no grant in `covered` answers (G-67)."""
        for member, verdict, _, question in manual_steps(verdicts):
            if question not in covered:
                self.held[question] = (member, verdict)
                self.holders[member.registered] = member.template or member

    def foresee(self, questions: frozenset[Question]) -> None:
        """Record the questions of active nets while a plan is shown; the plan answers no others.

        Only questions that were there every time the plan was shown count (G-109).
        """
        self.foreseen = questions if self.foreseen is None else self.foreseen & questions

    def mark_asked(self) -> None:
        """Record that the held questions were shown to operators; from now on no grant answers them."""
        self._put.update(self.held)

    def uncovered(self, covered: Mapping[Question, MemberVerdict]) -> Mapping[Question, MemberVerdict]:
        """`covered` without the questions already shown to operators: no grant answers those."""
        if not covered or self._put.isdisjoint(covered):
            return covered
        return {question: use for question, use in covered.items() if question not in self._put}

    def take_answer(self, member: Member, step: Step, answer: ApprovalAnswer) -> None:
        """Record an answer. An approved edit makes a different call, which is classified from the start.

        An operator who edits has approved the edited call; operators who answered before have not. Nobody
        has approved an edited plan, because the forecast that was shown belongs to the plan before the
        edit (G-108).
        """
        self.questions += 1
        self.mark_asked()
        if answer.again:
            self._drop_answers()
            self.foreseen = None
            if answer.input is not None:
                self._set_input(answer.input, answer.by)
            return
        if answer.approved and answer.input is not None and not same_json(answer.input, self.call.input):
            self._drop_answers()
            self._set_input(answer.input, answer.by)
            if self.made.tool_name == PLAN:
                # The forecast that was shown belongs to the plan before the edit.
                self.foreseen = None
                return
            self.shown = None if answer.grant is None else self.names
        self.answers[member.question(step.tool)] = answer
        self.approvals = (*self.approvals, Approval(member.registered, step.tool, answer))

    def _set_input(self, chosen: Input, by: str | None) -> None:
        """Make `chosen` the input that runs; questions held for another input are judged again.

        A question that several people must decide stays open for all of them, even if one of them edits
        the call (G-67). Choosing the agent's own input undoes the edit.
        """
        if not same_json(chosen, self.call.input):
            self.held = {
                question: (member, verdict)
                for member, verdict, step, question in manual_steps(self.held.values())
                if question in self.held and tokens_wanted(verdict, step.tool) > 1
            }
            self.stale = True
        own = same_json(chosen, self.made.input)
        self.call = self.made if own else replace(self.made, input=chosen)
        self.editor = None if own else by

    def _drop_answers(self) -> None:
        self.answers = {}
        self.approvals = ()
        self.passed = frozenset()
        self.shown = None


def manual_steps(
    verdicts: Iterable[MemberVerdict],
) -> Iterator[tuple[Member, NetVerdict, Step, Question]]:
    """Every step that needs approval, in active order, with the question it raises."""
    for member, verdict in verdicts:
        for step in verdict.steps:
            if step.transition.type == "manual":
                yield member, verdict, step, member.question(step.tool)


def next_question(
    verdicts: Iterable[MemberVerdict],
    answers: Mapping[Question, ApprovalAnswer],
    covered: Collection[Question] = (),
) -> tuple[Member, NetVerdict, Step] | None:
    """The first manual transition in active order without an answer (G-13).

    `answers` come from operators; the questions in `covered` are answered by grants.
    """
    nobody = not answers and not covered
    for member, verdict, step, question in manual_steps(verdicts):
        if nobody:
            # In the common case, the first request, there are no answers to look up.
            return member, verdict, step
        answer = answers.get(question)
        if answer is None and question in covered:
            continue
        if answer is None or _is_short(
            answer, tokens_wanted(verdict, step.tool), step.transition.approvers
        ):
            return member, verdict, step
    return None


def _is_short(answer: ApprovalAnswer, people: int, terms: Approvers | None) -> bool:
    """Return whether an answer has too few known approvers who count."""
    if people == 1 and (terms is None or (terms.group is None and not terms.passkey)):
        return False
    return len(approvers(answer, terms)) < people


def approvers(answer: ApprovalAnswer, terms: Approvers | None = None) -> set[str]:
    """Distinct known people who gave an answer and count as approvers, by `person_key` (G-77)."""
    names = {name for name in (*answer.others, answer.by or "") if person_key(name)}
    if terms is not None:
        names = {n for n in names if terms.counts(answer.groups.get(n, ()), escalated=answer.escalated)}
        names = {n for n in names if not terms.passkey or n in answer.keys}
    return {person_key(name) for name in names}


def tokens_wanted(verdict: NetVerdict, tool: str) -> int:
    """Number of people whose approval of a name the net requires for one call."""
    return sum(step.transition.type == "manual" and step.tool == tool for step in verdict.steps)


def request_for(
    call: ToolCall,
    member: Member,
    verdict: NetVerdict,
    step: Step,
    names: tuple[str, ...],
    marking: Marking,
    net: str = "",
    edit: ChosenEdit | None = None,
    beyond: str | None = None,
) -> ApprovalRequest:
    """The question as shown to operators, with the marking that raised it; `net` is the manager's key."""
    return ApprovalRequest(
        call,
        net,
        member.net,
        step.transition,
        step.tool,
        names,
        dict(marking),
        member.net.rule,
        verdict.note,
        tokens_wanted(verdict, step.tool),
        edit,
        beyond,
    )


async def ask(confirm: Confirm, request: ApprovalRequest) -> ApprovalAnswer:
    """Ask `confirm` for an answer. Raises what `confirm` raises, and `TypeError` for an invalid answer.

    `confirm` gets the request with a copy of the call (G-69), so its changes to that copy never run. A
    different input runs only if the answer names it. Only `True` approves; a merely truthy answer must
    not let a tool run. If several people must approve, an approval by fewer counts as a denial.
    """
    call = request.call
    own = ToolCall(call.tool_call_id, call.tool_name, own_input(call.input))
    edit = request.edit
    if edit is not None:
        edit = ChosenEdit(own_input(edit.original), own_input(edit.input), edit.by)
    own_request = replace(request, call=own, edit=edit)
    if _takes_title(confirm):
        answer = cast("TitledConfirm", confirm)(own_request.title, own_request.message)
    else:
        answer = cast("RequestConfirm", confirm)(own_request)
    if isawaitable(answer):
        answer = await answer
    checked = _check_answer(answer)
    if not checked.approved or checked.again or not _is_short(checked, request.people, request.approvers):
        return checked
    did = len(approvers(checked, request.approvers))
    reason = reasons.too_few(request.people, did, request.approvers)
    return replace(checked, approved=False, reason=reason)


def _takes_title(confirm: Confirm) -> bool:
    """True for a `confirm(title, message)`: a callable with two required positional arguments (G-69)."""
    try:
        parameters = signature(confirm).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return len([p for p in parameters if p.kind in positional and p.default is p.empty]) == 2


def _check_answer(answer: object) -> ApprovalAnswer:
    if isinstance(answer, bool):
        return ApprovalAnswer(approved=answer)
    if not isinstance(answer, ApprovalAnswer) or not _well_formed(answer):
        raise TypeError(f"returned {answer!r}, expected True, False or an ApprovalAnswer")
    if answer.input is None:
        return answer
    if not isinstance(_untyped(answer.input), Mapping):
        raise TypeError(f"returned the input {answer.input!r}, expected an object")
    return replace(answer, input=own_input(answer.input))


def _well_formed(answer: ApprovalAnswer) -> bool:
    """Return whether the fields that decide have the types of their annotations."""
    others = _untyped(answer.others)
    return (
        isinstance(_untyped(answer.approved), bool)
        and isinstance(_untyped(answer.again), bool)
        and isinstance(_untyped(answer.by), str | None)
        and isinstance(others, tuple)
        and all(isinstance(name, str) for name in cast("tuple[object, ...]", others))
        and isinstance(_untyped(answer.groups), Mapping)
        and isinstance(_untyped(answer.escalated), bool)
        and isinstance(_untyped(answer.keys), tuple)
        and isinstance(_untyped(answer.grant), GrantTerms | None)
    )


def _untyped(value: object) -> object:
    """`value` without its static type, so that its run-time type can be checked."""
    return value


def own_input(value: Input) -> dict[str, object]:
    """Deep copy of an input that nobody else can change while an operator reads it.

    Raises what `deepcopy` raises for a value that is not JSON and cannot be copied.
    """
    return {key: _own(inner) for key, inner in value.items()}


def _own(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return own_input(cast("dict[str, object]", value))
    if isinstance(value, list):
        return [_own(inner) for inner in cast("list[object]", value)]
    return deepcopy(value)
