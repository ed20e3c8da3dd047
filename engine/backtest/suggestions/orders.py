"""Orders that always held, and limits that were never exceeded: rules that only tighten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...core.rule import LimitRule, Rule, SequenceRule
from ...history.model.times import from_ms
from .facts import Facts, NameFacts
from .proposal import Proposal
from .suggestion import Support

CALLS = 20
SESSIONS = 5
"""Fewest calls of the later tool, and sessions with such calls, for an order to be meaningful."""

USUAL = 0.9
"""Share of all calls from which on a preceding tool is no longer meaningful."""

LIMIT_SESSIONS = 20
"""Fewest sessions with calls of a tool for their maximum to be meaningful."""

MARGIN = 2
HIGHEST = 100


def orders(facts: Facts, rules: Iterable[Rule]) -> Iterator[Proposal]:
    """`require A before B` if every call of B had a success of A since the last call of B.

    Of several tools A, the one is chosen that precedes other calls least.
    """
    existing_orders = {
        (a, rule.dependent)
        for rule in rules
        if isinstance(rule, SequenceRule)
        for a in rule.prerequisites
    }
    for name, calls in facts.names.items():
        if calls.calls < CALLS or len(calls.sessions) < SESSIONS or not calls.before:
            continue
        if any((before, name) in existing_orders for before in calls.before):
            continue
        rates = sorted((_rate(facts, before, calls), before) for before in calls.before)
        rate, first = rates[0]
        if rate < USUAL:
            yield Proposal(
                "order",
                f"require {first} before {name}",
                _support(calls),
                examples=_order_examples(facts, first, name),
            )


def _rate(facts: Facts, before: str, calls: NameFacts) -> float:
    """Share of calls of other tools that a success of it preceded as well."""
    prerequisite_calls = facts.names[before].calls if before in facts.names else 0
    others = facts.calls - prerequisite_calls - calls.calls
    return (facts.ahead[before] - calls.calls) / others if others > 0 else 0.0


def _order_examples(
    facts: Facts, first: str, name: str
) -> tuple[tuple[tuple[str, dict[str, object]], ...], ...]:
    one, other = facts.names.get(first), facts.names[name]
    if other.example is None:
        return ()
    later = name, dict(other.example)
    if one is None or one.example is None:
        return ((later,),)
    return ((later,), ((first, dict(one.example)), later))


def limits(facts: Facts, rules: Iterable[Rule]) -> Iterator[Proposal]:
    """`limit A to N per session`, with twice the most calls of A in any session."""
    limited_tools = {rule.tool for rule in rules if isinstance(rule, LimitRule)}
    for name, calls in facts.names.items():
        if len(calls.sessions) < LIMIT_SESSIONS or name in limited_tools:
            continue
        limit = MARGIN * max(calls.sessions.values())
        if limit > HIGHEST:
            continue
        example = () if calls.example is None else ((name, dict(calls.example)),) * (limit + 1)
        yield Proposal(
            "limit",
            f"limit {name} to {limit} per session",
            _support(calls),
            examples=(example,) if example else (),
        )


def _support(calls: NameFacts) -> Support:
    return Support(
        calls=calls.calls,
        sessions=len(calls.sessions),
        first=None if calls.first is None else from_ms(calls.first),
        last=None if calls.last is None else from_ms(calls.last),
    )
