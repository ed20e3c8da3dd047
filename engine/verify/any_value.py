"""Rules per value of a field, combined over all values.

If all calls have the same value, such a net behaves as its structure says, so what is possible there is
possible. Over many values at once, more is possible. The nets here allow at least that much, so what even
they forbid is impossible (G-95).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..core.rule import LimitRule, SequenceRule
from ..net.net import SkillNet, Transition, define_skill_net


def over_all_values(nets: Mapping[str, SkillNet]) -> dict[str, SkillNet] | None:
    """The nets with looser ones in place of those per value; `None` if there are none of these.

    A limit or a block per value restricts nothing if every call has a different value. An order still
    requires that its first tool succeeded once, for any value.
    """
    if not any(net.per_value for net in nets.values()):
        return None
    return {key: net if net.per_value is None else _looser(net) for key, net in nets.items()}


def orders_values(nets: Mapping[str, SkillNet], name: str) -> bool:
    """True if an order per value may affect calls of `name`, so that they cannot all have different
    values.

    It may if a chain of nets that share calls leads from one to the other.
    """
    orders = [net for net in nets.values() if net.per_value and not isinstance(net.rule, LimitRule)]
    if not orders or any(net.call_names or net.tool_mapper for net in nets.values()):
        return bool(orders)
    each = [{tool for t in net.transitions for tool in t.tools} for net in nets.values()]
    names, more = {name}, {name}
    while more:
        more = {tool for tools in each if not names.isdisjoint(tools) for tool in tools} - names
        names |= more
    return any(tool in names for net in orders for t in net.transitions for tool in t.tools)


def further_limits(nets: Mapping[str, SkillNet], name: str) -> tuple[str, ...]:
    """Limits on sums, per value and over sessions that apply to every call of `name`, in words.

    For example `2 per 1d for each input.customer`, `1000.00 of input.amount per session` and `20 per 1d
    across everyone`.
    """
    found: list[str] = []
    for rule in (net.rule for net in nets.values()):
        if not isinstance(rule, LimitRule) or rule.tool != name or rule.when is not None:
            continue
        most = f"{rule.limit:,}" if rule.total is None else rule.most
        each = "" if rule.same is None else f" for each {rule.same.field}"
        across = "" if rule.across is None else f" across {rule.across}"
        if each or across or rule.total is not None:
            found.append(f"{most} per {rule.scope}{each}{across}")
    return tuple(found)


def _looser(net: SkillNet) -> SkillNet:
    rule = net.rule
    if not isinstance(rule, SequenceRule) or rule.dependent in rule.prerequisites:
        tools = tuple(dict.fromkeys(tool for t in net.transitions for tool in t.tools))
        return _net(net, {"ready": 1}, [Transition("pass", ("ready",), ("ready",), tools)])
    needed, then = rule.prerequisites, rule.dependent
    before = {one: f"no-{one}" if rule.every else "ready" for one in needed}
    done_places = {one: f"done-{one}" if rule.every else "gate" for one in needed}
    transitions = [
        each
        for one in needed
        for each in (
            Transition(f"do-{one}", (before[one],), (done_places[one],), (one,), deferred=True),
            Transition(f"again-{one}", (done_places[one],), (done_places[one],), (one,)),
        )
    ]
    places = tuple(dict.fromkeys(done_places.values()))
    marking = {**dict.fromkeys(before.values(), 1), **dict.fromkeys(places, 0)}
    return _net(net, marking, [*transitions, Transition(f"do-{then}", places, places, (then,))])


def _net(net: SkillNet, marking: Mapping[str, int], transitions: Iterable[Transition]) -> SkillNet:
    """A net of another structure on the same calls."""
    return define_skill_net(
        net.name,
        places=tuple(marking),
        transitions=transitions,
        initial_marking=marking,
        call_names=net.call_names,
        rule=net.rule,
        condition=net.condition,
        governs=net.governs,
        leads=net.leads,
    )
