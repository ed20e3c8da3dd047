"""Phase 2: which question a call still has to ask a person, and what counts as an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import TypeAlias, cast

from ..net import Input, Rule, ToolCall
from .classify import Finding
from .member import Member
from .types import Approval, ApprovalAnswer, ApprovalRequest, Confirm, Step

Question: TypeAlias = tuple[object, str]


@dataclass(slots=True)
class Asking:
    """A call that asks: what was answered so far, and which nets had let it pass when it asked.

    A net in `passed` that blocks the call afterwards does so because the state changed (G-15).
    """

    call: ToolCall
    answers: dict[Question, ApprovalAnswer] = field(default_factory=dict[Question, ApprovalAnswer])
    approvals: tuple[Approval, ...] = ()
    passed: frozenset[str] = frozenset()

    @classmethod
    def about(cls, call: ToolCall) -> Asking:
        """Asking about `call` with an input of its own: what a person reads is what runs."""
        return cls(replace(call, input=own_input(call.input)))

    def take(self, member: Member, step: Step, answer: ApprovalAnswer) -> None:
        """Remember an answer; an approved edit makes it another call, classified from the start."""
        self.answers[question(member, step)] = answer
        self.approvals = (*self.approvals, Approval(member.key, step.tool, answer))
        if answer.approved and answer.input is not None:
            self.call = replace(self.call, input=answer.input)
            self.passed = frozenset()


def next_question(
    opinions: Iterable[Finding], answers: Mapping[Question, ApprovalAnswer]
) -> tuple[Member, Step] | None:
    """The first manual transition in active order that nobody answered for yet (G-13)."""
    for member, verdict in opinions:
        for step in verdict.steps:
            if step.transition.type == "manual" and question(member, step) not in answers:
                return member, step
    return None


def question(member: Member, step: Step) -> Question:
    """What is asked: identical rules ask the same question, wherever they stand (G-43)."""
    rule = member.net.rule
    if rule is None:
        return (member.key, step.tool)
    unplaced: Rule = replace(rule, source=None)
    return (unplaced, step.tool)


def request_for(
    call: ToolCall, member: Member, step: Step, names: tuple[str, ...], *, net: str
) -> ApprovalRequest:
    """The question as a person sees it, about the marking it was raised at."""
    return ApprovalRequest(
        call=call,
        net=net,
        skill_net=member.net,
        transition=step.transition,
        tool=step.tool,
        names=names,
        marking=dict(member.state.marking),
        rule=member.net.rule,
    )


async def ask(confirm: Confirm, request: ApprovalRequest) -> ApprovalAnswer:
    """A person's answer. Raises what `confirm` raises, and `TypeError` for an answer that is none.

    Only `True` is a yes: an answer that merely looks true must not let a tool run.
    """
    answer = confirm(request)
    if isawaitable(answer):
        answer = await answer
    return _checked(answer)


def _checked(answer: object) -> ApprovalAnswer:
    if isinstance(answer, bool):
        return ApprovalAnswer(approved=answer)
    if not isinstance(answer, ApprovalAnswer) or not isinstance(_untyped(answer.approved), bool):
        raise TypeError(f"returned {answer!r}, expected True, False or an ApprovalAnswer")
    if answer.input is None:
        return answer
    if not isinstance(_untyped(answer.input), Mapping):
        raise TypeError(f"returned the input {answer.input!r}, expected an object")
    return replace(answer, input=own_input(answer.input))


def _untyped(value: object) -> object:
    """`value` as what a caller really passed, whatever its annotation promises."""
    return value


def own_input(value: Input) -> dict[str, object]:
    """A copy whose objects and lists nobody else can change while a person reads them."""
    return {key: _own(inner) for key, inner in value.items()}


def _own(value: object) -> object:
    if isinstance(value, dict):
        return own_input(cast("dict[str, object]", value))
    if isinstance(value, list):
        return [_own(inner) for inner in cast("list[object]", value)]
    return value
