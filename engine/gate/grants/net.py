"""Grants: answers to later calls of the same kind, as small nets whose tokens are the uses left.

A grant answers one net's question in a person's place, always for something that was shown: one tool's
calls by one set of names, alike in every field that no map reads, or one exact input (G-74).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...core.condition import condition_text
from ...core.rule import Rule
from ...net.net import Input, SkillNet, ToolCall, Transition, define_skill_net
from ..types import GrantTerms

Question: TypeAlias = tuple[object, ...]
"""Identity of a question; equal questions are answered together. See `question_of`."""

GRANTED = "granted"

_KEY = re.compile(r"grant-([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant under its `key`, which is also the key of its `net`.

    It answers `question`, which net `asks` raised first, when `tool` is called under exactly the set
    `names`: with an input equal to `input` if that is given, else with the values in `fixed` in the
    fields that no map reads, and with no other than `programs` as far as its maps leave these open.
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


def question_of(key: str, net: SkillNet, tool: str) -> Question:
    """Question of a net about a name: identical rules ask the same, wherever they are written (G-43).

    Conditions count as they are written.
    """
    rule = net.rule
    if rule is None:
        return (key, tool)
    unplaced: Rule = replace(rule, source=None, when=None)
    return (unplaced, None if rule.when is None else condition_text(rule.when, whole=True), tool)


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


def grant_net(key: str, name: str, terms: GrantTerms) -> SkillNet:
    """The net of a grant in place of a person who would be asked about `name`.

    Each use spends a token of `granted`, or returns it where uses are not counted; what is left of them
    ends with the time.
    """
    spends = GRANTED if terms.uses is None else "used"
    transitions = [Transition("use", (GRANTED,), (spends,), (name,))]
    if terms.seconds is not None:
        transitions.append(Transition("expire", (GRANTED,), ("ended",), after=terms.seconds))
    return define_skill_net(
        key,
        places=(GRANTED, "used", "ended"),
        transitions=transitions,
        initial_marking={GRANTED: terms.uses or 1},
    )
