"""Grants: answers to later calls of the same kind, as small nets whose tokens are the uses left.

A grant answers one net's question in a person's place, always for something that was shown: one tool's
calls by one set of names, alike in every field that no map reads, or one exact input (G-74). That of a
step of a plan answers all questions about the step's calls that its plan may answer (G-109).
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

    `plan` is the plan's own key, which the grants of all its steps share, `title` as its agent wrote it.
    Calls have to meet `when`. `asked` are the net and the name of each of the `questions`.
    """

    plan: str
    title: str
    when: Condition | None = None
    asked: tuple[tuple[str, str], ...] = ()
    questions: frozenset[Question] = frozenset()


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant under its `key`, which is also the key of its `net`.

    It answers `question`, which net `asks` raised first, when `tool` is called under exactly the set
    `names`: with an input equal to `input` if that is given, else with the values in `fixed` in the
    fields that no map reads, and with no other than `programs` as far as its maps leave these open.
    One of a plan is for its step `planned`: it answers all the questions of that when `tool` is called
    under no other than `names`.
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
        """The keys of the nets whose questions it answers."""
        asked = () if self.planned is None else self.planned.asked
        return tuple(key for key, _ in asked) or (self.asks,)

    def answers(self, asked: Question) -> bool:
        """Tell whether it is given for a question, for calls that it covers."""
        return asked == self.question if self.planned is None else asked in self.planned.questions


def question_of(key: str, net: SkillNet, tool: str, digest: str = "") -> Question:
    """Question of a net about a name: identical rules ask the same, wherever they are written (G-43).

    Conditions count as they are written. What is granted for one value, known by its `digest`, is no
    answer for another.
    """
    rule = net.rule
    value = (digest,) if digest else ()
    if rule is None:
        return (key, tool, *value)
    unplaced: Rule = replace(rule, source=None, when=None)
    when = None if rule.when is None else condition_text(rule.when, whole=True)
    return (unplaced, when, tool, *value)


def from_subagent(call: ToolCall) -> bool:
    """Tell whether a subagent made a call: its id in the gate begins with the subagent's session id."""
    return "/" in call.tool_call_id


def grant_key(number: int) -> str:
    """`grant-3`; no net may be called so."""
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
    """The net of a grant in place of a person who would be asked about `names`.

    Each use spends a token of `granted`, or returns it where uses are not counted; what is left of them
    ends with the time.
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
