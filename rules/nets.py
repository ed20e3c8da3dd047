"""Compilation of a rule to its net: places, transitions and names as the reference has them.

Two shapes differ on purpose: `again-A` (G-54) and a `refill` that restores the whole budget (G-55). The
nets of `or`, `and`, `since`, `within`, `after`, `until`, values and sums are not the reference's (G-78 to
G-82, G-89, G-92, G-111).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from ..engine.core.amounts import Amount, SumField
from ..engine.core.condition import condition_text
from ..engine.core.durations import as_typed
from ..engine.core.rule import (
    ApprovalRule,
    BlockRule,
    LimitRule,
    Rule,
    SequenceRule,
    causes_of,
    restricted,
    value_key,
    watched,
)
from ..engine.core.shared_limit import SharedLimit
from ..engine.core.value_key import ValueKey, split_key
from ..engine.net.net import CallNames, SkillNet, Transition, define_skill_net
from .parse.statements import SESSION

_START = Transition("start", ("idle",), ("ready",))


def build_net(rule: Rule, call_names: CallNames | None = None) -> SkillNet:
    """The net of one rule; `call_names` is shared by all nets of a set."""
    net = _net_of(rule, call_names)
    # A tool's name may end like the key of the net of one value, which no registered net can have.
    return net if split_key(net.name)[1] is None else replace(net, name=f"{net.name}-calls")


def _net_of(rule: Rule, call_names: CallNames | None) -> SkillNet:
    match rule:
        case SequenceRule(every=True):
            return _after_each(rule, call_names)
        case SequenceRule():
            return _sequence(rule, call_names)
        case ApprovalRule():
            return _approval(rule, call_names)
        case BlockRule(after=str()):
            return _block_after(rule, call_names)
        case BlockRule():
            never = Transition(f"do-{rule.tool}", ("locked",), ("locked",), (rule.tool,))
            return _net(f"block-{rule.tool}", {"locked": 0}, (never,), rule, call_names)
        case LimitRule():
            return _limit(rule, call_names)
        case _:
            assert_never(rule)


def _sequence(rule: SequenceRule, call_names: CallNames | None) -> SkillNet:
    first, then = rule.prerequisite, rule.dependent
    unlock = Transition(f"do-{first}", ("ready",), ("gate",), (first,), deferred=True)
    use = Transition(f"do-{then}", ("gate",), ("gate",) if rule.once else ("ready",), (then,))
    if first == then:
        # As the reference has it: one tool, two transitions of one name, of which the marking enables
        # one. Names must be unique for `define_skill_net`, hence the plain constructor.
        return SkillNet(
            name=_sequence_name(rule, "-or-"),
            places=("idle", "ready", "gate"),
            transitions=(_START, unlock, use),
            initial_marking={"idle": 1, "ready": 0, "gate": 0},
            call_names=call_names,
            rule=rule,
            condition=rule.when,
            governs=_governed(rule),
            per_value=_per_value(rule),
        )
    unlocking = [_unlocking(rule, one, "ready", "gate") for one in rule.prerequisites]
    transitions = [t for each in unlocking for t in each]
    expiring = _expiring(rule, "", "ready", "gate")
    locking = _locking(rule, {"ready": "gate"}, transitions)
    places = {"gate": 0} if rule.within is None else {"gate": 0, _RENEWED: 0}
    name = _sequence_name(rule, "-or-")
    return _net(name, places, (*locking, *transitions, use, *expiring), rule, call_names)


def _sequence_name(rule: SequenceRule, joined: str) -> str:
    once = "-once" if rule.once else ""
    since = "" if rule.since is None else f"-since-{rule.since}"
    within = "" if rule.within is None else f"-within-{as_typed(rule.within)}"
    name = f"require-{joined.join(rule.prerequisites)}{once}{since}-before-{rule.dependent}{within}"
    return name + _value_suffix(rule)


_RENEWED = "renewed"
"""Place that a token passes whose time begins anew."""


def _unlocking(
    rule: SequenceRule, tool: str, locked: str, done: str, renewed: str = _RENEWED
) -> tuple[Transition, Transition]:
    """The success of a tool, and its calls while that counts already, which renew what expires."""
    do = Transition(f"do-{tool}", (locked,), (done,), (tool,), deferred=True)
    if rule.within is None:
        return do, Transition(f"again-{tool}", (done,), (done,), (tool,))
    return do, Transition(f"again-{tool}", (done,), (renewed,), (tool,), deferred=True)


def _expiring(
    rule: SequenceRule, suffix: str, locked: str, done: str, renewed: str = _RENEWED
) -> tuple[Transition, ...]:
    """The end of a success, by time, and the beginning of its time anew."""
    if rule.within is None:
        return ()
    return (
        Transition(f"renew{suffix}", (renewed,), (done,)),
        Transition(f"expire{suffix}", (done,), (locked,), after=rule.within),
    )


def _locking(
    rule: SequenceRule, done: Mapping[str, str], unlocking: Iterable[Transition]
) -> tuple[Transition, ...]:
    """The calls of the tool after `since`, which lock what is `done`, by the place that they lead to.

    What runs while such a call does proves nothing: it may have seen what was before.
    """
    if rule.since is None:
        return ()
    tools, locks = (rule.since,), list(done.items())
    names = [f"lock-{rule.since}", *(f"lock-{rule.since}-{n}" for n in range(2, len(locks) + 1))]
    proving = tuple(t.name for t in unlocking if t.deferred)
    return (
        *(
            Transition(name, (open_place,), (locked,), tools, partial=True)
            for name, (locked, open_place) in zip(names, locks, strict=True)
        ),
        Transition(f"do-{rule.since}", tuple(done), tuple(done), tools, deferred=True, voids=proving),
    )


def _after_each(rule: SequenceRule, call_names: CallNames | None) -> SkillNet:
    """A place for each tool that has to succeed, from all of which B takes."""
    then, needed = rule.dependent, rule.prerequisites
    locked, done = {one: f"no-{one}" for one in needed}, {one: f"done-{one}" for one in needed}
    start = Transition("start", ("idle",), tuple(locked.values()))
    renewed = {one: f"{_RENEWED}-{one}" for one in needed}
    unlocking = [
        each for one in needed for each in _unlocking(rule, one, locked[one], done[one], renewed[one])
    ]
    expiring = [
        each
        for one in needed
        for each in _expiring(rule, f"-{one}", locked[one], done[one], renewed[one])
    ]
    locking = _locking(rule, {locked[one]: done[one] for one in needed}, unlocking)
    after = done if rule.once else locked
    use = Transition(f"do-{then}", tuple(done.values()), tuple(after.values()), (then,))
    places = [*locked.values(), *done.values(), *(renewed.values() if expiring else ())]
    marking = {"idle": 1, **dict.fromkeys(places, 0)}
    return define_skill_net(
        _sequence_name(rule, "-and-"),
        places=tuple(marking),
        transitions=(start, *locking, *unlocking, use, *expiring),
        initial_marking=marking,
        call_names=call_names,
        rule=rule,
        condition=rule.when,
        governs=_governed(rule),
        leads=_leading(rule),
        per_value=_per_value(rule),
    )


def _approval(rule: ApprovalRule, call_names: CallNames | None) -> SkillNet:
    """One person's approval, or one token for each of several, which `approve` then takes.

    `approve` comes first, so that a call asks for no more people than it needs.
    """
    name, tools = f"approve-before-{rule.tool}", (rule.tool,)
    at, flag, before = "ready", dict[str, int](), tuple[Transition, ...]()
    if rule.until:
        return _until_approved(rule, call_names)
    if rule.after is not None:
        name, at, flag = f"{name}{_after(rule)}{_value_suffix(rule)}", _RAISED, {_RAISED: 0}
        before = _until_raised(rule)
    who = rule.approvers
    if rule.people == 1:
        approve = Transition("approve", (at,), (at,), tools, type="manual", approvers=who)
        return _net(name, flag, (*before, approve), rule, call_names)
    given = ("approval",) * rule.people
    approve = Transition("approve", (at, *given), (at,), tools)
    given_by = (at, "approval")
    person = Transition("person", (at,), given_by, tools, type="manual", partial=True, approvers=who)
    return _net(name, {**flag, "approval": 0}, (*before, approve, person), rule, call_names)


_RAISED = "raised"


def _after(rule: ApprovalRule | BlockRule) -> str:
    """The part of a net's name that says after which tools."""
    return f"-after-{'-or-'.join(causes_of(rule))}"


def _until_approved(rule: ApprovalRule, call_names: CallNames | None) -> SkillNet:
    """As an approval after the causes; the success of an approved call takes the flag back.

    Not so where a call of a cause ran beside it. `ask` is for a call that is unclear: it takes nothing
    back.
    """
    tools, who = (rule.tool,), rule.approvers
    transitions = (
        Transition(f"do-{rule.tool}", ("ready",), ("ready",), tools),
        Transition("approve", (_RAISED,), ("ready",), tools, type="manual", deferred=True, approvers=who),
        Transition("ask", (_RAISED,), (_RAISED,), tools, type="manual", approvers=who),
        *(t for cause in causes_of(rule) for t in _raising_again(cause)),
    )
    name = f"block-{rule.tool}{_after(rule)}-until-approval"
    return _net(name, {_RAISED: 0}, transitions, rule, call_names)


def _raising_again(cause: str) -> tuple[Transition, Transition]:
    """Calls of a cause where approved calls lower the flag: no success of one beside them does."""
    again = f"again-{cause}"
    return (
        Transition(f"do-{cause}", ("ready",), (_RAISED,), (cause,), partial=True),
        Transition(again, (_RAISED,), (_RAISED,), (cause,), deferred=True, voids=("approve",)),
    )


def _until_raised(rule: ApprovalRule | BlockRule) -> tuple[Transition, ...]:
    """Calls of the tool as long as none of a cause has begun, and these, whose token stays in `raised`.

    It comes there when a call begins: whether that succeeds or not, the agent may have read something.
    """
    tool, causes = rule.tool, causes_of(rule)
    if causes == (tool,):
        return (Transition(f"do-{tool}", ("ready",), (_RAISED,), (tool,)),)
    return (
        Transition(f"do-{tool}", ("ready",), ("ready",), (tool,)),
        *(
            each
            for cause in causes
            for each in (
                Transition(f"do-{cause}", ("ready",), (_RAISED,), (cause,)),
                Transition(f"again-{cause}", (_RAISED,), (_RAISED,), (cause,)),
            )
        ),
    )


def _block_after(rule: BlockRule, call_names: CallNames | None) -> SkillNet:
    name = f"block-{rule.tool}{_after(rule)}{_value_suffix(rule)}"
    return _net(name, {_RAISED: 0}, _until_raised(rule), rule, call_names)


def _limit(rule: LimitRule, call_names: CallNames | None) -> SkillNet:
    name, each = f"limit-{rule.tool}-{rule.limit}", _value_suffix(rule)
    if rule.total is not None:
        return _sum_limit(rule, rule.total, call_names)
    if rule.scope == SESSION:
        use = Transition(f"do-{rule.tool}", ("ready", "budget"), ("ready",), (rule.tool,))
        return _net(name + each, {"budget": rule.limit}, (use,), rule, call_names)
    use = Transition(f"do-{rule.tool}", ("ready", "budget"), ("ready", "spent"), (rule.tool,))
    if rule.window is not None:
        recover = Transition("recover", ("spent",), ("budget",), after=rule.window)
        places = {"budget": rule.limit, "spent": 0}
        across = "" if rule.across is None else f"-across-{rule.across}"
        whole = f"{name}-per-{rule.scope}{each}{across}"
        return _net(whole, places, (use, recover), rule, call_names, _shared(rule, "budget"))
    places = {"budget": rule.limit, "spent": 0}
    refill = _refill(rule)
    return _net(f"{name}-per-{rule.scope}{each}", places, (use, refill), rule, call_names)


def _sum_limit(rule: LimitRule, total: SumField, call_names: CallNames | None) -> SkillNet:
    """A token for each unit of the sum; a call takes as many as its number has."""
    tools, each = (rule.tool,), _value_suffix(rule)
    field = total.name.removeprefix("input.")
    name = f"limit-{rule.tool}-{total.text(rule.limit)}-of-{field}"
    if rule.scope == SESSION:
        use = Transition(f"do-{rule.tool}", ("ready",), ("ready",), tools, amount=Amount(total, "budget"))
        return _net(name + each, {"budget": rule.limit}, (use,), rule, call_names)
    amount = Amount(total, "budget", "spent")
    use = Transition(f"do-{rule.tool}", ("ready",), ("ready",), tools, amount=amount)
    places = {"budget": rule.limit, "spent": 0}
    refill = _refill(rule)
    return _net(f"{name}-per-{rule.scope}{each}", places, (use, refill), rule, call_names)


def _refill(rule: LimitRule) -> Transition:
    return Transition(
        "refill",
        ("ready",),
        ("ready",),
        (rule.scope,),
        deferred=True,
        transfers=(("spent", "budget"),),
    )


def _net(
    name: str,
    places: dict[str, int],
    transitions: tuple[Transition, ...],
    rule: Rule,
    call_names: CallNames | None,
    shared: SharedLimit | None = None,
) -> SkillNet:
    marking = {"idle": 1, "ready": 0, **places}
    return define_skill_net(
        name,
        places=tuple(marking),
        transitions=(_START, *transitions),
        initial_marking=marking,
        call_names=call_names,
        rule=rule,
        condition=rule.when,
        governs=_governed(rule),
        leads=_leading(rule),
        per_value=_per_value(rule),
        shared=shared,
    )


def _shared(rule: LimitRule, place: str) -> SharedLimit | None:
    """The uses that a limit over sessions counts: calls of its tool, by value and under its condition."""
    if rule.across is None or rule.window is None:
        return None
    each = "" if rule.same is None else f" for each {rule.same.field}"
    when = "" if rule.when is None else f" when {condition_text(rule.when, whole=True)}"
    return SharedLimit(f"{rule.tool}{each}{when}", rule.across, place, rule.window)


def _per_value(rule: Rule) -> ValueKey | None:
    """The field by which the nets are told apart; what the rule must not miss needs a value there."""
    key = value_key(rule)
    return None if key is None else replace(key, needed_by=watched(rule))


def _value_suffix(rule: Rule) -> str:
    """The end of a net's name that says for which values it is one each."""
    key = value_key(rule)
    if key is None:
        return ""
    return f"-{'each' if isinstance(rule, LimitRule) else 'same'}-{key.field.removeprefix('input.')}"


def _leading(rule: Rule) -> tuple[str, ...]:
    """The names that count before others of one call: they raise the flag that those meet."""
    return tuple(cause for cause in causes_of(rule) if cause != restricted(rule))


def _governed(rule: Rule) -> tuple[str, ...]:
    """The names whose calls the rule's condition is asked of; none without one."""
    if rule.when is None:
        return ()
    return (rule.dependent,) if isinstance(rule, SequenceRule) else (rule.tool,)
