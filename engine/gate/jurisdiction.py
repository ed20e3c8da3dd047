"""What a net says of a call, once its condition and the time have had their say.

Names of a call for which a net's condition does not hold are none of its business; where that cannot be
told, they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..condition import Surroundings, holds, untold, written
from ..net import NetError, SkillNet, ToolCall
from . import reasons
from .member import Member
from .moment import Moment
from .types import NetVerdict


def governed(
    net: SkillNet, names: Sequence[str], call: ToolCall, around: Surroundings
) -> tuple[tuple[str, ...], str | None]:
    """Those of a call's names that the net judges, and what is to be said of its condition.

    That is `None` where the condition holds or is not asked. Raises what a matcher raises.
    """
    condition = net.condition
    if condition is None or not any(name in net.governs for name in names):
        return tuple(names), None
    answer = holds(condition, call.input, around)
    if answer is None:
        return tuple(names), untold(condition, call.input, around)
    if answer:
        return tuple(names), None
    return (
        tuple(name for name in names if name not in net.governs),
        f"{written(condition)} does not hold",
    )


def judged(member: Member, names: Sequence[str], call: ToolCall, moment: Moment) -> NetVerdict:
    """The net's verdict. What it cannot judge, it blocks (G-59)."""
    if member.plain:
        return member.verdict(names)
    try:
        left, note = governed(member.net, names, call, moment.around)
    except Exception as problem:
        return member.blocked(names[0], reasons.callback_failed(member.key, "condition", problem))
    if not any(name in member.knows for name in left):
        return replace(member.abstain(names[0]), note=note)
    try:
        marking = moment.marking(member)
    except NetError as problem:
        return member.blocked(names[0], reasons.cannot_fire(member.key, problem))
    except Exception as problem:
        return member.blocked(names[0], reasons.callback_failed(member.key, "clock", problem))
    verdict = member.verdict(left, marking)
    if note is None or len(left) < len(names):
        return verdict
    reason = verdict.reason
    if reason is not None and verdict.tool in member.net.governs:
        reason = reasons.applying(reason, note)
    return replace(verdict, reason=reason, note=note)
