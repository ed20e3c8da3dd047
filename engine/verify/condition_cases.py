"""Cases of conditions: the nets that a call can be inside or outside of, depending on its input.

Equal conditions hold together, and a condition and its negation do not. A call without the fields that
they need is inside both. For conditions that compare one field with values (`=`, `!=`, `in`), the field's
value decides. All other conditions are assumed to hold or not in all combinations. In nets of rules, a
call from outside never allows less afterwards than one from inside. Calls that something else blocks are
therefore only considered from outside, unless two conditions exclude each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import TypeAlias, assert_never, cast

from ..core.condition import ABSENT, PRESENT, And, Compare, Condition, Matcher, Not, Operator, Or, Scalar
from ..net.net import SkillNet
from .local_net import Action

MAX_COMBINED = 4
"""Conditions of one call, or fields, whose combinations are all considered; beyond that, each alone."""

MAX_COMBINATIONS = 81
"""Most combinations that are considered for one call."""

MAX_APART = 64
"""Most conditions of one call that are each considered from inside as well."""

Base: TypeAlias = Hashable
"""Key that equal conditions and their negations share."""

Values: TypeAlias = tuple[bool | None, ...]

_OPPOSITE: Mapping[Operator, Operator] = {"!=": "=", ">=": "<", ">": "<="}


@dataclass(frozen=True, slots=True)
class _Member:
    """A net with a condition: calls by its governed names are exempt if the condition does not hold."""

    key: str
    governs: frozenset[str]
    negated: bool

    def applies(self, value: bool | None) -> bool:
        """True if the net applies when the shared condition has this value, `None` for unknown."""
        return value != self.negated


@dataclass(slots=True)
class _Group:
    """Nets whose conditions are one condition or its negation.

    `choice` is the field that the condition compares, and the values of which the field must have one;
    `None` if it checks anything else.
    """

    members: list[_Member] = field(default_factory=list[_Member])
    by_hand: bool = False
    choice: tuple[Hashable, frozenset[Hashable]] | None = None

    def applied(self, value: bool | None) -> frozenset[str]:
        """Nets that apply if the condition has this value."""
        return frozenset([m.key for m in self.members if m.applies(value)])


@dataclass(slots=True)
class _Field:
    """Conditions that depend on each other, and all combinations of values that they can have.

    These are conditions that compare the same field with values: no call has both `input.env = "a"` and
    `input.env = "b"`, and if the field is missing all of them are unknown. Any other condition is alone.
    """

    groups: list[_Group]
    possible: list[Values]
    free: list[Values] = field(init=False)
    """Combinations that suffice: every other one allows no more than one of these."""

    def __post_init__(self) -> None:
        self.free = self._most_open(self.possible)

    def inside(self, place: int) -> list[Values]:
        """For each outcome of one condition, the combinations that allow most otherwise."""
        ways: dict[frozenset[str], list[Values]] = {}
        for values in self.possible:
            ways.setdefault(self.groups[place].applied(values[place]), []).append(values)
        return [values for way in ways.values() for values in self._most_open(way)]

    def _most_open(self, choices: Sequence[Values]) -> list[Values]:
        by_applied: dict[frozenset[tuple[int, str]], Values] = {}
        for values in choices:
            each = enumerate(zip(self.groups, values, strict=True))
            applied = frozenset([(n, key) for n, (group, v) in each for key in group.applied(v)])
            by_applied.setdefault(applied, values)
        if any(group.by_hand for group in self.groups):
            return list(by_applied.values())
        least: list[frozenset[tuple[int, str]]] = []
        for applied in sorted(by_applied, key=len):
            # Sets of equal size are different, so none contains another.
            if not any(len(other) < len(applied) and other <= applied for other in least):
                least.append(applied)
        literals = set(least)
        return [values for applied, values in by_applied.items() if applied in literals]


class Cases:
    """The conditions of some nets, and the cases that they make of a call.

    `complete` is false once a call had more combinations than were considered: what was not found may
    then still be possible.
    """

    def __init__(self, nets: Mapping[str, SkillNet]) -> None:
        self.complete = True
        self._groups: dict[Base, _Group] = {}
        self._by_name: dict[str, dict[Base, None]] = {}
        self._fields: dict[tuple[Base, ...], list[_Field]] = {}
        for key, net in nets.items():
            if net.condition is None:
                continue
            base, negated = _base(net.condition)
            group = self._groups.setdefault(base, _Group(choice=_choice(base)))
            group.members.append(_Member(key, frozenset(net.governs), negated))
            group.by_hand = group.by_hand or net.rule is None
            for name in net.governs:
                self._by_name.setdefault(name, {})[base] = None

    def free(self, actions: Iterable[Action]) -> list[Action]:
        """Cases of the actions that allow most."""
        if not self._groups:
            return list(actions)
        return [one for action in actions for one in self._free(action)]

    def each(self, actions: Iterable[Action]) -> tuple[list[Action], bool]:
        """Cases as in `free`, and also from inside each condition; and whether none was left out."""
        found: list[Action] = []
        all_of_them = True
        for action in actions:
            fields = self._about(action)
            free = self._combined(fields)
            chosen = dict.fromkeys(free)
            if sum(len(f.groups) for f in fields) > MAX_APART:
                all_of_them = False
            else:
                inside = [[v for n in range(len(f.groups)) for v in f.inside(n)] for f in fields]
                for values in free:
                    for place, choices in enumerate(inside):
                        for choice in choices:
                            chosen[(*values[:place], choice, *values[place + 1 :])] = None
            found += [_case_action(action, fields, values) for values in chosen]
        return found, all_of_them and self.complete

    def _free(self, action: Action) -> list[Action]:
        fields = self._about(action)
        return [_case_action(action, fields, values) for values in self._combined(fields)]

    def _about(self, action: Action) -> list[_Field]:
        """Conditions of nets that apply to the call."""
        bases = tuple(
            dict.fromkeys(base for name in action.names for base in self._by_name.get(name, ()))
        )
        fields = self._fields.get(bases)
        if fields is None:
            fields = self._fields[bases] = _fields([self._groups[base] for base in bases])
        return fields

    def _combined(self, fields: Sequence[_Field]) -> list[tuple[Values, ...]]:
        free = [f.free for f in fields]
        sizes = [len(values) for values in free if len(values) > 1]
        if len(sizes) <= MAX_COMBINED and prod(sizes) <= MAX_COMBINATIONS:
            return list(product(*free))
        self.complete = False
        first, last = tuple(v[0] for v in free), tuple(v[-1] for v in free)
        some = dict.fromkeys([first, last])
        for place, values in enumerate(free):
            for value in values:
                some[(*first[:place], value, *first[place + 1 :])] = None
                some[(*last[:place], value, *last[place + 1 :])] = None
        return list(some)


def _fields(groups: Sequence[_Group]) -> list[_Field]:
    """Conditions on the same field together, any other alone."""
    together: dict[Hashable, list[_Group]] = {}
    for number, group in enumerate(groups):
        together.setdefault(number if group.choice is None else group.choice[0], []).append(group)
    return [_Field(each, _possible(each)) for each in together.values()]


def _possible(groups: Sequence[_Group]) -> list[Values]:
    """Combinations of values that conditions on one field can have, or the values of one alone."""
    choices = [frozenset[Hashable]() if group.choice is None else group.choice[1] for group in groups]
    if len(groups) == 1:
        return [(False,), (True,), (None,)]
    # A value that no condition names, each value that one names, and no value.
    found: dict[Values, None] = {(False,) * len(groups): None}
    for held in dict.fromkeys(value for choice in choices for value in choice):
        found[tuple([held in choice for choice in choices])] = None
    found[(None,) * len(groups)] = None
    return list(found)


def _case_action(action: Action, fields: Sequence[_Field], values: tuple[Values, ...]) -> Action:
    """The action as the nets see it if the conditions have these values."""
    by_net: dict[str, tuple[str, ...]] = {}
    for one, each in zip(fields, values, strict=True):
        for group, value in zip(one.groups, each, strict=True):
            for member in group.members:
                if not member.applies(value):
                    known = action.names_in(member.key)
                    by_net[member.key] = tuple(n for n in known if n not in member.governs)
    if not by_net:
        return action
    return replace(action, by_net={**(action.by_net or {}), **by_net}, outside=tuple(by_net))


def _base(condition: Condition) -> tuple[Base, bool]:
    """Key that a condition shares with its negation, and whether it is the negation."""
    match condition:
        case Compare(operator=operator, value=value):
            path = (condition.root, *condition.path)
            if operator == "is":
                return (path, operator, PRESENT), value == ABSENT
            if condition.quantifier is not None:
                return (path, (condition.quantifier, operator), _plain(value)), False
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


def _choice(base: Base) -> tuple[Hashable, frozenset[Hashable]] | None:
    """The field, and the values of which it must have one, if the condition checks only that."""
    path, condition, *wanted = cast("tuple[Hashable, ...]", base)
    if condition == "=":
        return path, frozenset(wanted)
    if condition == "in" and wanted[0]:
        return path, frozenset(cast("tuple[Hashable, ...]", wanted[0]))
    return None


def _plain(value: Scalar | tuple[Scalar, ...] | Matcher) -> Hashable:
    """Key of a value, equal for two values only if comparisons treat them alike: `true` is not 1."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, str | int | float):
        return isinstance(value, bool), value
    return value.text
