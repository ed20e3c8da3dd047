"""Grants: answers to later calls of the same kind, as small nets whose tokens are the uses left.

A grant answers one net's question in place of an operator, always for something that was shown: the calls
of one tool with one set of names and equal values in every field that no map reads, or one exact input
(G-74). The grant of a plan's step answers all questions about the step's calls that the plan may answer
(G-109).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...core.condition import Condition, condition_text
from ...core.rule import Rule
from ...net.net import Input, SkillNet, ToolCall, Transition, define_skill_net
from ..types import GrantTerms

Question: TypeAlias = tuple[object, ...]
"""Identity of a question; equal questions are answered together. See `question_of`."""

GRANTED = "granted"

_KEY = re.compile(r"grant-([1-9][0-9]*)")
_PLAN = re.compile(r"plan-([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """The step of an approved plan that a grant is for.

    `plan` is the plan's own key, which the grants of all its steps share; `title` is the agent's text.
    Calls must meet `when`. `asked` has the net and the name of each of the `questions`.
    """

    plan: str
    title: str
    when: Condition | None = None
    asked: tuple[tuple[str, str], ...] = ()
    questions: frozenset[Question] = frozenset()


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant under its `key`, which is also the key of its `net`.

    It answers `question`, which net `asks` raised first, if `tool` is called under exactly the set
    `names`. If `input` is given, the call must have an equal input. Otherwise it must have the values in
    `fixed` in the fields that no map reads, and use only `programs` where the maps do not determine the
    program. A grant of a plan is for its step `planned`: it answers all questions of the step if `tool`
    is called under no other names than `names`.
    """

    key: str
    net: SkillNet
    asks: str
    tool: str
    names: tuple[str, ...]
    input: Input | None
    fixed: Input
    terms: GrantTerms
    question: Question
    programs: tuple[str, ...] = ()
    planned: PlannedStep | None = None

    @property
    def asking(self) -> tuple[str, ...]:
        """Keys of the nets whose questions it answers."""
        asked = () if self.planned is None else self.planned.asked
        return tuple(key for key, _ in asked) or (self.asks,)

    def answers(self, asked: Question) -> bool:
        """Return whether the grant answers a question, for calls that it covers."""
        return asked == self.question if self.planned is None else asked in self.planned.questions


def question_of(key: str, net: SkillNet, tool: str, digest: str = "") -> Question:
    """Question of a net about a name: identical rules ask the same, wherever they are written (G-43).

    Conditions are compared as written. A grant for one value, identified by its `digest`, does not answer
    for another value.
    """
    rule = net.rule
    value = (digest,) if digest else ()
    if rule is None:
        return (key, tool, *value)
    unplaced: Rule = replace(rule, source=None, when=None)
    condition = None if rule.when is None else condition_text(rule.when, whole=True)
    return (unplaced, condition, tool, *value)


def from_subagent(call: ToolCall) -> bool:
    """Return whether a subagent made a call: the call's id in the gate starts with its session id."""
    return "/" in call.tool_call_id


def grant_key(number: int) -> str:
    """`grant-3`; no net may have such a name."""
    return f"grant-{number}"


def grant_number(key: str) -> int | None:
    """The number in a grant's key, `None` for any other key."""
    found = _KEY.fullmatch(key)
    return None if found is None else int(found[1])


def plan_key(number: int) -> str:
    """`plan-2`."""
    return f"plan-{number}"


def plan_number(key: str) -> int:
    """The number in a plan's key, 0 for any other key."""
    found = _PLAN.fullmatch(key)
    return 0 if found is None else int(found[1])


def grant_net(key: str, names: tuple[str, ...], terms: GrantTerms) -> SkillNet:
    """Net of a grant that answers in place of an operator who would be asked about `names`.

    Each use consumes a token of `granted`, or returns it if uses are not counted. Remaining tokens expire
    with the grant's time.
    """
    spends = GRANTED if terms.uses is None else "used"
    transitions = [Transition("use", (GRANTED,), (spends,), names)]
    if terms.seconds is not None:
        transitions.append(Transition("expire", (GRANTED,), ("ended",), after=terms.seconds))
    return define_skill_net(
        key,
        places=(GRANTED, "used", "ended"),
        transitions=transitions,
        initial_marking={GRANTED: terms.uses or 1},
    )
