"""What a rule does, in words, with its options.

Texts hold names as rules files wrote them: whoever shows them makes them safe.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..engine.condition import written
from ..engine.lasting import lasting
from ..engine.rule import ApprovalRule, BlockRule, LimitRule, Rule, SequenceRule
from ..rules.statements import SESSION
from .words import count


def does(rule: Rule) -> Iterator[str]:
    """What becomes of calls, then each option, then the condition."""
    match rule:
        case SequenceRule():
            yield f"a successful {rule.prerequisite} unlocks one {rule.dependent}"
        case ApprovalRule():
            yield from _approval(rule)
        case BlockRule():
            yield f"{rule.tool} is blocked"
        case LimitRule():
            yield from _limit(rule)
    if rule.when is not None:
        yield f"only when {written(rule.when)}"


def _approval(rule: ApprovalRule) -> Iterator[str]:
    asked = "a person" if rule.people == 1 else f"{rule.people} different people"
    yield f"{rule.tool} asks {asked}"
    if rule.within is not None:
        yield f"within {lasting(rule.within)}"
    if rule.risk is not None:
        yield f"risk {rule.risk}"
    if not rule.grants:
        yield "no grants"


def _limit(rule: LimitRule) -> Iterator[str]:
    calls = f"{count(rule.limit, 'call')} of {rule.tool}"
    if rule.window is not None:
        yield f"{calls} per {rule.scope}"
        yield f"each comes back after {lasting(rule.window)}"
    elif rule.scope == SESSION:
        yield f"{calls} a session"
    else:
        yield calls
        yield f"a successful {rule.scope} restores {'it' if rule.limit == 1 else 'them'}"
