"""Markings and pending transitions from a record, checked before anything changes (G-63)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from ...core.value_key import split_key
from ...net.net import Marking, NetError, Since, ToolCall
from ..conditions import EvaluationContext
from ..member import Member
from ..types import Step

Markings: TypeAlias = Mapping[str, Mapping[str, int]]
Arrivals: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
Pending: TypeAlias = tuple[str, str, str, ToolCall]
"""Net, transition, tool and call of a deferred transition that waits."""


@dataclass(frozen=True, slots=True)
class RestoredNet:
    """Marking of a net; arrival times as `recorded`, and `since`, with tokens that arrive now added."""

    member: Member
    marking: Marking
    recorded: Since
    since: Since

    def put(self) -> None:
        self.member.state.marking = self.marking
        self.member.state.since = self.since
        self.member.forget_values()
        self.member.keep()


def restored_nets(
    members: Mapping[str, Member], markings: Markings, since: Arrivals, context: EvaluationContext
) -> dict[str, RestoredNet]:
    """Every net whose marking or times are in a record, by key; tokens without a time arrive now.

    Raises `NetError` for an unknown net or place and for an invalid time; and what the clock raises.
    """
    places: dict[str, RestoredNet] = {}
    # A net comes before the nets of its values, because restoring it forgets them.
    for key in sorted(dict.fromkeys([*markings, *since]), key=_is_of_value):
        member = member_of(members, key)
        marking = _marking(member, markings[key]) if key in markings else member.state.marking
        recorded = _since(member, since.get(key, {}))
        places[key] = RestoredNet(member, marking, recorded, context.since(member.net, marking, recorded))
    return places


def _marking(member: Member, marking: Mapping[str, int]) -> Marking:
    places = member.state.marking
    _check_places(member, marking)
    return {place: marking.get(place, 0) for place in places}


def _since(member: Member, since: Mapping[str, Sequence[float]]) -> Since:
    _check_places(member, since)
    for place, times in since.items():
        if not all(isfinite(time) for time in times):
            raise NetError(f"net '{member.key}' has a token in '{place}' without an arrival time")
    return {place: tuple(times) for place, times in since.items()}


def _check_places(member: Member, places: Mapping[str, object]) -> None:
    for place in places:
        if place not in member.state.marking:
            raise NetError(f"net '{member.key}' has no place '{place}'")


def pending_step(members: Mapping[str, Member], pending: Pending) -> tuple[Member, Step, ToolCall]:
    """Pending step with its net and call. Raises `NetError` for an unknown net or transition."""
    key, transition, tool, call = pending
    member = member_of(members, key)
    for known in member.net.transitions:
        if known.name == transition:
            return member, Step(key, known, tool), call
    raise NetError(f"net '{key}' has no transition '{transition}'")


def _is_of_value(key: str) -> bool:
    return split_key(key)[1] is not None


def value_members(members: Mapping[str, Member], keys: Iterable[str]) -> dict[str, Member]:
    """Nets of one value among the keys, by key, if the net that they belong to is here."""
    found: dict[str, Member] = {}
    for key in keys:
        registered, digest = split_key(key)
        member = members.get(registered)
        if digest is not None and member is not None and member.net.per_value is not None:
            found[key] = member.of_value(digest)
    return found


def member_of(members: Mapping[str, Member], key: str) -> Member:
    """Net under `key`. Raises `NetError` for a key that no net has."""
    if key not in members:
        raise NetError(f"Unknown net '{key}'. Available: {', '.join(members)}")
    return members[key]
