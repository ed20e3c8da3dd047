"""Descriptions of a gate: one status line per net for people, and the rules as sentences for models."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from ..core.amounts import SumField
from ..core.approvers import PASSKEY, Approvers, some_of
from ..core.condition import condition_text
from ..core.durations import as_typed
from ..core.rule import (
    ANYTHING_ELSE,
    UNCLEAR,
    ApprovalRule,
    BlockRule,
    LimitRule,
    Rule,
    SequenceRule,
    restricted,
    value_key,
)
from ..core.value_key import ValueKey
from ..net.firing import passage
from ..net.net import Marking, enabled_tool_transitions, format_marking
from .conditions import EvaluationContext
from .grants.store import GrantStore
from .member import Member

log = logging.getLogger(__name__)


def status_lines(
    nets: Iterable[tuple[str, Member]],
    active: Container[str] | None,
    granted: GrantStore,
    context: EvaluationContext,
) -> str:
    """Status lines: `<net>: <marking>` for each net, then `grant-1 (grant for deploy): granted:2`.

    Given the active keys, also `(active)` or `(inactive)` (G-20, G-21).
    """
    shown: list[tuple[str, Member]] = []
    for name, member in nets:
        standing = "" if active is None else " (active)" if member.key in active else " (inactive)"
        shown.append((name + standing, member))
    for key, member in granted.members.items():
        shown.append((f"{key} (grant for {member.net.transitions[0].tools[0]})", member))
    return "\n".join(f"{what}: {_status(m, context)}" for what, m in shown)


def _status(member: Member, context: EvaluationContext) -> str:
    """The marking; for a net per value, also the number of values seen so far."""
    marking = format_marking(marking_by_now(member, context))
    if member.net.per_value is None:
        return marking
    return f"{marking} for each {member.net.per_value.field} ({len(member.state.values):,} so far)"


def marking_by_now(member: Member, context: EvaluationContext) -> Marking:
    """Marking of a net at the current time; its last recorded one if that cannot be computed."""
    try:
        return context.marking(member)
    except Exception:
        log.exception("Net '%s' cannot be brought up to date", member.key)
        return member.state.marking


def system_prompt(active: Iterable[Member], context: EvaluationContext) -> str:
    """Description for the model of what each active net allows now (G-24)."""
    sections = "\n\n".join(_section(member, context) for member in active)
    return f"## Active Petri Nets (composed)\n{sections}"


def _section(member: Member, context: EvaluationContext) -> str:
    net, marking = member.net, marking_by_now(member, context)
    gated = [
        tool
        for t in enabled_tool_transitions(net, marking)
        for tool in t.tools
        if not t.partial or passage(net, marking, tool) is not None
    ]
    return "\n".join(
        [
            f"### {net.name}",
            f"Available gated tools: {', '.join(gated) or 'none'}",
            f"Free tools: {', '.join(net.free_tools)}",
            f"State: {format_marking(marking)}",
        ]
    )


# The same in sentences: what each tool needs, how many calls are left, and what is never allowed (G-73).

_RESERVED_NAMES = {
    UNCLEAR: "A call that cannot be read to its end",
    ANYTHING_ELSE: "A call of a tool that no rule names",
}


def constraints(active: Iterable[Member], context: EvaluationContext) -> tuple[str, ...]:
    """Sentences for the model on what the active nets allow now, one per rule, without duplicates."""
    sentences: dict[str, None] = {}
    for member in active:
        marking = marking_by_now(member, context)
        rule = member.net.rule
        found = _of_hand_built(member, marking) if rule is None else [_with_reason(rule, member, marking)]
        sentences.update(dict.fromkeys(found))
    return tuple(sentences)


def _with_reason(rule: Rule, member: Member, marking: Marking) -> str:
    """The sentence on a rule, followed by its author's reason."""
    sentence = _of_rule(rule, member, marking)
    if rule.because is None:
        return sentence
    because = rule.because.rstrip()
    return f"{sentence} Why: {because}{'' if because.endswith(('.', '!', '?')) else '.'}"


def _approved_by(people: int, who: Approvers | None) -> str:
    """Conditions on the approvers, such as ` by 2 of security, not by whoever started it or gave the
    task`.

    An escalation is not mentioned.
    """
    group = None if who is None else who.group
    by = f" by {some_of(people, group)}" if people > 1 or group is not None else ""
    by += f" {PASSKEY}" if who is not None and who.passkey else ""
    return by if who is None or who.author else f"{by}, not by whoever started this or gave the task"


def _of_rule(rule: Rule, member: Member, marking: Marking) -> str:
    tool = restricted(rule)
    subject = _RESERVED_NAMES.get(tool, tool)
    key = value_key(rule)
    condition = "" if rule.when is None else f" when {condition_text(rule.when)}"
    if key is not None:
        condition += f" for {'each' if isinstance(rule, LimitRule) else 'the same'} {key.field}"
    if isinstance(rule, LimitRule) and rule.across is not None:
        condition += f" across {rule.across}"
    match rule:
        case BlockRule(after=str()) if member.verdict((tool,), marking).kind == "blocked":
            return f"{subject} is blocked{condition}, since {rule.causes} was called."
        case BlockRule(after=str()):
            return f"{subject} may be called{condition} until {rule.causes} is called."
        case BlockRule() if condition:
            return f"{subject} is blocked{condition}."
        case BlockRule():
            return f"{subject} is always blocked."
        case ApprovalRule(people=people):
            by = _approved_by(people, rule.approvers)
            if rule.after is None:
                return f"{subject} needs human approval{by}{condition}."
            is_asking = any(
                s.transition.name != f"do-{tool}" for s in member.verdict((tool,), marking).steps
            )
            after = f", since {rule.causes} was called" if is_asking else f" once {rule.causes} is called"
            after += "; one that is approved and succeeds ends that" if rule.until else ""
            return f"{subject} needs human approval{by}{condition}{after}."
        case SequenceRule(needed=needed):
            were = "were" if rule.every else "was"
            since = "" if rule.since is None else f" since the last call of {rule.since}"
            ago = "" if rule.within is None else f", not longer than {as_typed(rule.within)} ago"
            if member.verdict((tool,), marking).kind == "gated":
                return f"{subject} may be called{condition}: {needed} {were} successful{since}{ago}."
            return f"{subject} needs a successful {needed} first{since}{ago}{condition}."
        case LimitRule(scope=scope, same=ValueKey()):
            during = "in this session" if scope == "session" else f"per {scope}"
            return f"{subject}: at most {rule.most}{condition} {during}."
        case LimitRule(scope=scope, total=SumField() as total):
            left = total.text(marking["budget"])
            until = "in this session" if scope == "session" else f"until {scope} succeeds"
            return f"{subject}: {left} of {rule.most} left{condition} {until}."
        case LimitRule(limit=limit, scope=scope, window=window):
            left = _uses_left(member, marking, tool, limit)
            if window is not None:
                return f"{subject}: {left} of {limit} calls left{condition}, at most {limit} in {scope}."
            until = "in this session" if scope == "session" else f"until {scope} succeeds"
            return f"{subject}: {left} of {limit} calls left{condition} {until}."


def _uses_left(member: Member, marking: Marking, tool: str, limit: int) -> int:
    """Uses left of a limit: the tokens in the place from which its transition consumes them."""
    for transition in member.net.transitions:
        if tool in transition.tools:
            spent = [place for place in transition.inputs if place not in transition.outputs]
            return min((marking[place] for place in spent), default=limit)
    return limit


def _of_hand_built(member: Member, marking: Marking) -> list[str]:
    """Sentences on what a net without a rule blocks now, by tool."""
    found: list[str] = []
    for tool in member.knows:
        verdict = member.verdict((tool,), marking)
        if verdict.kind == "blocked":
            found.append(f"{tool} is not available now ({member.net.name}).")
        elif any(step.transition.type == "manual" for step in verdict.steps):
            found.append(f"{tool} needs human approval.")
    return found


def constraints_text(sentences: Iterable[str]) -> str:
    """The sentences as a section of a system prompt; empty if there are none."""
    lines = "\n".join(f"- {sentence}" for sentence in sentences)
    return f"## Rules for tool calls\n{lines}" if lines else ""
