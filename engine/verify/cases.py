"""Which nets a call can be inside or outside of: conditions depend on what the call brings along.

Equal conditions hold together, a condition and its negation do not; a call without the fields they ask
for is inside both. Any others are taken to hold or not in all combinations. In nets of rules a call from
outside never leaves less possible than one from inside, so those that something bars are looked at from
outside only, unless two of them want opposite things.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias, assert_never

from ..condition import And, Compare, Condition, Matcher, Not, Operator, Or, Scalar
from ..net import SkillNet
from .local import Action

MAX_COMBINED = 4
"""Conditions of one call whose combinations are all looked at; of more, each alone."""

MAX_APART = 64
"""Conditions of one call that are each looked at from inside as well."""

Base: TypeAlias = Hashable
"""What equal conditions and their negations have in common."""

Values: TypeAlias = tuple[bool | None, ...]

_OPPOSITE: Mapping[Operator, Operator] = {"!=": "=", ">=": "<", ">": "<="}


@dataclass(frozen=True, slots=True)
class _Member:
    """A net with a condition; it applies to calls by its governed names unless that does not hold."""

    key: str
    governs: frozenset[str]
    negated: bool

    def applies(self, value: bool | None) -> bool:
        """Whether it does where the condition they share has this value, `None` when that is not told."""
        return value != self.negated


@dataclass(slots=True)
class _Group:
    """The nets whose conditions are one condition or its negation."""

    members: list[_Member] = field(default_factory=list[_Member])
    by_hand: bool = False

    def free(self) -> Values:
        """The values that something may need; none of the others allows anything that these do not."""
        values = {m.negated for m in self.members}
        opposed = len(values) > 1
        if self.by_hand:
            return (False, True, None) if opposed else (False, True)
        return (False, True) if opposed else tuple(values)

    def all(self) -> Values:
        """Every value that makes a difference."""
        opposed = len({m.negated for m in self.members}) > 1
        return (False, True, None) if opposed else (False, True)


class Cases:
    """The conditions of some nets, and what they make of a call.

    `complete` is false once a call had more combinations than were looked at: what is then not found
    may be possible all the same.
    """

    def __init__(self, nets: Mapping[str, SkillNet]) -> None:
        self.complete = True
        self._groups: dict[Base, _Group] = {}
        self._by_name: dict[str, dict[Base, None]] = {}
        for key, net in nets.items():
            if net.condition is None:
                continue
            base, negated = _base(net.condition)
            group = self._groups.setdefault(base, _Group())
            group.members.append(_Member(key, frozenset(net.governs), negated))
            group.by_hand = group.by_hand or net.rule is None
            for name in net.governs:
                self._by_name.setdefault(name, {})[base] = None

    def free(self, actions: Iterable[Action]) -> list[Action]:
        """The actions, from wherever they allow most."""
        if not self._groups:
            return list(actions)
        return [one for action in actions for one in self._free(action)]

    def each(self, actions: Iterable[Action]) -> tuple[list[Action], bool]:
        """As `free`, and also from inside each condition; whether none was left out."""
        found: list[Action] = []
        all_of_them = True
        for action in actions:
            groups = self._about(action)
            free = self._combined(groups)
            chosen = dict.fromkeys(free)
            if len(groups) > MAX_APART:
                all_of_them = False
            else:
                for values in free:
                    for place, group in enumerate(groups):
                        for value in group.all():
                            chosen[(*values[:place], value, *values[place + 1 :])] = None
            found += [_seen(action, groups, values) for values in chosen]
        return found, all_of_them and self.complete

    def _free(self, action: Action) -> list[Action]:
        groups = self._about(action)
        return [_seen(action, groups, values) for values in self._combined(groups)]

    def _about(self, action: Action) -> list[_Group]:
        """The conditions that nets ask of the call."""
        bases = dict.fromkeys(base for name in action.names for base in self._by_name.get(name, ()))
        return [self._groups[base] for base in bases]

    def _combined(self, groups: Sequence[_Group]) -> list[Values]:
        free = [group.free() for group in groups]
        if sum(len(values) > 1 for values in free) <= MAX_COMBINED:
            return list(product(*free))
        self.complete = False
        first, last = tuple(v[0] for v in free), tuple(v[-1] for v in free)
        some = dict.fromkeys([first, last])
        for place, values in enumerate(free):
            for value in values:
                some[(*first[:place], value, *first[place + 1 :])] = None
                some[(*last[:place], value, *last[place + 1 :])] = None
        return list(some)


def _seen(action: Action, groups: Sequence[_Group], values: Values) -> Action:
    """The action as the nets see it when the conditions have these values."""
    by_net: dict[str, tuple[str, ...]] = {}
    for group, value in zip(groups, values, strict=True):
        for member in group.members:
            if not member.applies(value):
                known = action.names_in(member.key)
                by_net[member.key] = tuple(n for n in known if n not in member.governs)
    if not by_net:
        return action
    return replace(action, by_net={**(action.by_net or {}), **by_net}, outside=tuple(by_net))


def _base(condition: Condition) -> tuple[Base, bool]:
    """What a condition has in common with its negation, and whether it is that."""
    match condition:
        case Compare(path=path, operator=operator, value=value):
            opposite = _OPPOSITE.get(operator)
            return (path, opposite or operator, _plain(value)), opposite is not None
        case Not(inner=inner):
            base, negated = _base(inner)
            return base, not negated
        case And(parts=parts):
            return ("and", frozenset(map(_base, parts))), False
        case Or(parts=parts):
            return ("and", frozenset(_base(Not(part)) for part in parts)), True
        case _:
            assert_never(condition)


def _plain(value: Scalar | tuple[Scalar, ...] | Matcher) -> Hashable:
    """A value that equals another only where comparing with either is the same: `true` is not 1."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, str | int | float):
        return isinstance(value, bool), value
    return value.text
