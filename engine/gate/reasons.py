"""Every sentence with which the gate blocks a call (G-13, G-15, G-18, G-53, G-59).

A model reads them, so each says what to do, or that nothing can be done, rather than what the net looks
like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core.amounts import SumField
from ..core.approvers import ANYBODY, PASSKEY, Approvers, some_of
from ..core.condition import condition_text
from ..core.durations import as_typed
from ..core.rule import (
    UNCLEAR,
    ApprovalRule,
    BlockRule,
    LimitRule,
    Rule,
    SequenceRule,
    value_key,
)
from ..core.sanitize import visible
from ..net.net import SkillNet
from .excerpt import excerpt

UNREAD = "it could not be read to its end"
"""Reason why a call is unclear, if the function that named it gives no reason."""


def unavailable(net: SkillNet, tool: str) -> str:
    """Reason why `net` does not let `tool` pass now, in its rule's words if it has a rule."""
    rule = net.rule
    return because(_sentence(rule, tool), rule)


def _sentence(rule: Rule | None, tool: str) -> str:
    """The sentence of a kind of rule (G-18)."""
    condition = "" if rule is None or rule.when is None else f" when {condition_text(rule.when)}"
    key = value_key(rule)
    quantity = "each" if isinstance(rule, LimitRule) else "the same"
    same = "" if key is None else f" for {quantity} {key.field}"
    match rule:
        case SequenceRule(needed=needed, dependent=dependent):
            each = "each of " if rule.every else ""
            first = "first" if rule.since is None else f"after the last call to {rule.since}"
            ago = "" if rule.within is None else f", not longer than {as_typed(rule.within)} ago"
            return (
                f"{dependent} requires a successful call to {each}{needed} {first}{ago}{same}{condition}."
            )
        case LimitRule(tool=limited, scope=scope, total=SumField()):
            return f"{limited} would exceed its limit of {rule.most} per {scope}{same}{condition}."
        case LimitRule(tool=limited, limit=limit, scope=scope):
            across = "" if rule.across is None else f" across {rule.across}"
            return (
                f"{limited} has reached its limit of {limit} calls per {scope}{same}{across}{condition}."
            )
        case BlockRule(tool=blocked, after=str()):
            return f"{blocked} is blocked after a call to {rule.causes}{same}{condition}."
        case BlockRule(tool=blocked) if condition:
            return f"{blocked} is blocked{condition}."
        case BlockRule(tool=blocked):
            return f"{blocked} is blocked and cannot be called."
        case ApprovalRule(tool=approved):
            return requires_approval(approved)
        case None:
            return f"Tool '{tool}' is not available in the current state."


def no_value(tool: str, why: str) -> str:
    """Reason why a rule per value cannot assign a call to a value."""
    return f"{tool} is blocked: {why}."


def with_rest(reason: str | None, rest: str) -> str:
    """Reason of a limit on a sum, with the amount left."""
    return f"{(reason or '').removesuffix('.')}; {rest} is left."


def because(reason: str, rule: Rule | None) -> str:
    """A rule's sentence with the rule's own reason, if its author wrote one."""
    if rule is None or rule.because is None:
        return reason
    return f"{reason.removesuffix('.')}: {rule.because.rstrip('.')}."


def with_deed(reason: str, place: str, text: str, rule: Rule | None) -> str:
    """Reason under a mapped name, with the call that has this name and the rule's location (G-18).

    `place` is the tool, and its field unless that holds a command; `text` is what was found there.
    """
    deed = f"{excerpt(place)}: {excerpt(text)}"
    source = None if rule is None else rule.source
    where = "" if source is None else f"; {visible(source.where)}"
    return f"{reason.removesuffix('.')} ({deed}{where})."


def refusals(names: Iterable[str]) -> Iterator[str]:
    """Beginnings of the reasons with which any rules block calls with these names (G-62)."""
    for name in names:
        yield f"{name} requires a successful call to "
        yield f"{name} has reached its limit of "
        yield f"{name} would exceed its limit of "
        yield f"{name} is blocked"
        yield requires_approval(name)[:-1]
        yield rejected(name, None)[:-1]
        yield unasked(name, "")[:-1].partition(":")[0]
        yield never_decided(name)
        yield no_grant(name, "")[:-3]
        yield state_changed(name)
        yield f"Tool '{name}' is not available in the current state"
    yield "Tool call id '"
    yield unrecorded("")
    yield "The gate failed: "


def reserved(reason: str, name: str, tool: str, unclear: str | None) -> str:
    """Reason under a reserved name, which agents do not know, with why the call has it (G-64, G-66)."""
    if name == UNCLEAR:
        return f"{reason} The call cannot be read to its end: {(unclear or UNREAD).rstrip('.')}."
    return f"{reason} No rule names '{tool}'."


def requires_approval(tool: str) -> str:
    """Reason for a call that needs approval if nobody can be asked."""
    return f"{tool} requires human approval."


def applying(reason: str, note: str) -> str:
    """Reason of a rule that applies because its condition could not be evaluated."""
    return f"{reason.removesuffix('.')} (it applies because {note})."


def too_few(people: int, did: int, terms: Approvers = ANYBODY) -> str:
    """Reason for a call that fewer people have approved than must."""
    key = f" {PASSKEY}" if terms.passkey else ""
    return f"{some_of(people, terms.group)} must approve{key}; {did or 'nobody known'} did"


EDITED_EFFECTS = "the edit changes what the call counts as, so nothing that was shown can be granted"


OF_SUBAGENT = "a subagent made the call"
OTHER_INPUT = "the input is another one"
OTHER_PROGRAM = "the command runs another program"
USED_UP = "it is used up or its time is over"
MAY_BE_MORE = "the call may do more than its names tell"
NOT_AS_PLANNED = "its input does not meet the condition of the plan"
PLAN_OF_SUBAGENT = "a subagent made it, and a plan is that of the session's own agent"
PLAN_AS_IT_IS = "a plan is approved as it is"
PLAN_NOT_ASKED = (
    "This plan lets nothing pass by itself. Make your calls: each is judged as it comes. A plan counts "
    "where the rules say 'require human-approval before plan' and an operator approves it."
)
PLAN_ANSWERS_NOTHING = (
    "Your plan is approved, but it holds no call for which a plan can count. Make your calls: each is "
    "judged as it comes, and an operator is asked about it where the rules say so."
)


def plan_approved(calls: str) -> str:
    """Notice to the agent that its approved plan lets calls pass."""
    return (
        f"Your plan is approved. At most {calls} of it pass without a further approval, as far as they "
        "are as planned. What the rules block stays blocked, and all other calls are judged as before."
    )


def other_names(names: tuple[str, ...]) -> str:
    """Reason why a grant does not cover a call with other effects."""
    return f"the call counts as {', '.join(names)}"


def other_values(fields: Iterable[str]) -> str:
    """Reason why a grant does not cover a call with other values in fields that no map reads."""
    return f"another value in {', '.join(fields)}"


def beyond(key: str, why: str) -> str:
    """Note that a grant for the same question does not cover a call."""
    return f"{key} does not cover this call: {why}"


def no_grant(tool: str, why: str) -> str:
    """Reason for a call whose approval came with a grant that is not allowed."""
    return f"{tool} was approved with a grant, which cannot be given: {why}."


def never_decided(tool: str) -> str:
    """Reason for a call that was asked about too often without a lasting answer."""
    return f"{tool} was asked about too often without a decision."


def rejected(tool: str, reason: str | None) -> str:
    """Reason for a call that an operator denied."""
    if reason:
        return f"{tool} was rejected by human review: {reason}"
    return f"{tool} was rejected by human review."


def unasked(tool: str, reason: str | None) -> str:
    """Reason for a call about which no operator could be asked."""
    return f"Nobody was asked about {tool}: {reason or 'that was not possible'}."


def state_changed(tool: str) -> str:
    """Reason of a net that allowed the call before approval was requested and no longer does."""
    return f"Tool '{tool}' is no longer available (state changed)."


def id_in_use(tool_call_id: str) -> str:
    return f"Tool call id '{tool_call_id}' is already in use."


def callback_failed(net: str, callback: str, problem: object) -> str:
    """Reason for a callback that raised an exception or returned an invalid value."""
    return f"{net}: {callback} failed: {problem}"


def cannot_fire(net: str, problem: object) -> str:
    """Reason for a faulty net, such as one with a structural loop that never comes to rest."""
    return f"{net}: cannot fire: {problem}"


def unrecorded(problem: object) -> str:
    return f"decision could not be recorded: {problem}"


def uncounted(problem: object) -> str:
    """Reason for a call whose use of a limit over sessions could not be reserved."""
    return f"use of its limit could not be reserved: {problem}"


def gate_failed(problem: BaseException) -> str:
    """Reason for a failure of the gate itself; a call that it cannot judge does not run."""
    return f"The gate failed: {type(problem).__name__}: {problem}"
