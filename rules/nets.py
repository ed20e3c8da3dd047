"""Compilation of a rule to its net, with the places, transitions and names of the reference.

Two forms differ on purpose: `again-A` (G-54) and a `refill` that restores the whole budget (G-55). The
reference has no nets for `or`, `and`, `since`, `within`, `after`, `until`, values and sums (G-78 to G-82,
G-89, G-92, G-111).
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
    """Net of one rule; `call_names` is shared by all nets of a set."""
    net = _net_of(rule, call_names)
    # A tool's name may end like the key of a net of one value, which no registered net may have.
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
        # As in the reference: one tool, two transitions with the same name, of which the marking enables
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
"""Place that a token passes so that its time starts again."""


def _unlocking(
    rule: SequenceRule, tool: str, locked: str, done_place: str, renewed: str = _RENEWED
) -> tuple[Transition, Transition]:
    """Success of a tool, and its calls while that already counts, which renew an expiring success."""
    do = Transition(f"do-{tool}", (locked,), (done_place,), (tool,), deferred=True)
    if rule.within is None:
        return do, Transition(f"again-{tool}", (done_place,), (done_place,), (tool,))
    return do, Transition(f"again-{tool}", (done_place,), (renewed,), (tool,), deferred=True)


def _expiring(
    rule: SequenceRule, suffix: str, locked: str, done_place: str, renewed: str = _RENEWED
) -> tuple[Transition, ...]:
    """Expiry of a success, and the restart of its time."""
    if rule.within is None:
        return ()
    return (
        Transition(f"renew{suffix}", (renewed,), (done_place,)),
        Transition(f"expire{suffix}", (done_place,), (locked,), after=rule.within),
    )


def _locking(
    rule: SequenceRule, done_places: Mapping[str, str], unlocking: Iterable[Transition]
) -> tuple[Transition, ...]:
    """Calls of the tool after `since`, which lock what is `done`, by the place to which they lead.

    A call of a prerequisite that runs at the same time proves nothing: it may have seen the earlier
    state.
    """
    if rule.since is None:
        return ()
    tools, locks = (rule.since,), list(done_places.items())
    names = [f"lock-{rule.since}", *(f"lock-{rule.since}-{n}" for n in range(2, len(locks) + 1))]
    proving = tuple(t.name for t in unlocking if t.deferred)
    return (
        *(
            Transition(name, (open_place,), (locked,), tools, partial=True)
            for name, (locked, open_place) in zip(names, locks, strict=True)
        ),
        Transition(
            f"do-{rule.since}",
            tuple(done_places),
            tuple(done_places),
            tools,
            deferred=True,
            voids=proving,
        ),
    )


def _after_each(rule: SequenceRule, call_names: CallNames | None) -> SkillNet:
    """A place for each tool that must succeed; B takes a token from all of them."""
    then, needed = rule.dependent, rule.prerequisites
    locked, done_places = {one: f"no-{one}" for one in needed}, {one: f"done-{one}" for one in needed}
    start = Transition("start", ("idle",), tuple(locked.values()))
    renewed = {one: f"{_RENEWED}-{one}" for one in needed}
    unlocking = [
        each
        for one in needed
        for each in _unlocking(rule, one, locked[one], done_places[one], renewed[one])
    ]
    expiring = [
        each
        for one in needed
        for each in _expiring(rule, f"-{one}", locked[one], done_places[one], renewed[one])
    ]
    locking = _locking(rule, {locked[one]: done_places[one] for one in needed}, unlocking)
    after = done_places if rule.once else locked
    use = Transition(f"do-{then}", tuple(done_places.values()), tuple(after.values()), (then,))
    places = [*locked.values(), *done_places.values(), *(renewed.values() if expiring else ())]
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

    `approve` comes first, so that a call asks no more people than it needs.
    """
    name, tools = f"approve-before-{rule.tool}", (rule.tool,)
    at, flag, before = "ready", dict[str, int](), tuple[Transition, ...]()
    if rule.until:
        return _until_approved(rule, call_names)
    if rule.after is not None:
        name, at, flag = f"{name}{_after(rule)}{_value_suffix(rule)}", _RAISED, {_RAISED: 0}
        before = _until_raised(rule)
    approvers = rule.approvers
    if rule.people == 1:
        approve = Transition("approve", (at,), (at,), tools, type="manual", approvers=approvers)
        return _net(name, flag, (*before, approve), rule, call_names)
    tokens = ("approval",) * rule.people
    approve = Transition("approve", (at, *tokens), (at,), tools)
    given_by = (at, "approval")
    person = Transition(
        "person", (at,), given_by, tools, type="manual", partial=True, approvers=approvers
    )
    return _net(name, {**flag, "approval": 0}, (*before, approve, person), rule, call_names)


_RAISED = "raised"


def _after(rule: ApprovalRule | BlockRule) -> str:
    """Part of a net's name that says after which tools it applies."""
    return f"-after-{'-or-'.join(causes_of(rule))}"


def _until_approved(rule: ApprovalRule, call_names: CallNames | None) -> SkillNet:
    """Like an approval after the causes, but the success of an approved call resets the flag.

    The flag stays if a call of a cause ran at the same time. `ask` is for unclear calls, and does not
    reset it.
    """
    tools, approvers = (rule.tool,), rule.approvers
    transitions = (
        Transition(f"do-{rule.tool}", ("ready",), ("ready",), tools),
        Transition(
            "approve", (_RAISED,), ("ready",), tools, type="manual", deferred=True, approvers=approvers
        ),
        Transition("ask", (_RAISED,), (_RAISED,), tools, type="manual", approvers=approvers),
        *(t for cause in causes_of(rule) for t in _raising_again(cause)),
    )
    name = f"block-{rule.tool}{_after(rule)}-until-approval"
    return _net(name, {_RAISED: 0}, transitions, rule, call_names)


def _raising_again(cause: str) -> tuple[Transition, Transition]:
    """Calls of a cause in nets whose approved calls reset the flag; they void concurrent ones."""
    again_name = f"again-{cause}"
    return (
        Transition(f"do-{cause}", ("ready",), (_RAISED,), (cause,), partial=True),
        Transition(again_name, (_RAISED,), (_RAISED,), (cause,), deferred=True, voids=("approve",)),
    )


def _until_raised(rule: ApprovalRule | BlockRule) -> tuple[Transition, ...]:
    """Calls of the tool while no call of a cause has begun, and calls of causes, which raise the flag.

    The flag, a token in `raised`, is set when the call begins: whether it succeeds or not, the agent may
    have read something.
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
        title = f"{name}-per-{rule.scope}{each}{across}"
        return _net(title, places, (use, recover), rule, call_names, _shared(rule, "budget"))
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
    """Uses that a limit over sessions counts: calls of its tool, by value and under its condition."""
    if rule.across is None or rule.window is None:
        return None
    each = "" if rule.same is None else f" for each {rule.same.field}"
    condition = "" if rule.when is None else f" when {condition_text(rule.when, whole=True)}"
    return SharedLimit(f"{rule.tool}{each}{condition}", rule.across, place, rule.window)


def _per_value(rule: Rule) -> ValueKey | None:
    """Field that distinguishes the nets; calls that the rule must not miss need a value there."""
    key = value_key(rule)
    return None if key is None else replace(key, needed_by=watched(rule))


def _value_suffix(rule: Rule) -> str:
    """End of a net's name that says for which values there is one net each."""
    key = value_key(rule)
    if key is None:
        return ""
    return f"-{'each' if isinstance(rule, LimitRule) else 'same'}-{key.field.removeprefix('input.')}"


def _leading(rule: Rule) -> tuple[str, ...]:
    """Names of a call that are applied before its others, because they raise the flag for these."""
    return tuple(cause for cause in causes_of(rule) if cause != restricted(rule))


def _governed(rule: Rule) -> tuple[str, ...]:
    """Names for whose calls the rule's condition is evaluated; empty without a condition."""
    if rule.when is None:
        return ()
    return (rule.dependent,) if isinstance(rule, SequenceRule) else (rule.tool,)
