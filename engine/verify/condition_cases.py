"""Cases of conditions: the nets that a call can be inside or outside of, depending on its input.

Equal conditions hold together, a condition and its negation do not; a call without the fields they ask
for is inside both. Of those that want one field to be this or that, with `=`, `!=` and `in`, the field
decides. Any others are taken to hold or not in all combinations. In nets of rules a call from outside
never leaves less possible than one from inside, so those that something bars are looked at from outside
only, unless two of them want opposite things.
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
"""Conditions of one call, or fields, whose combinations are all looked at; of more, each alone."""

MAX_COMBINATIONS = 81
"""Combinations of them that are looked at for one call."""

MAX_APART = 64
"""Conditions of one call that are each looked at from inside as well."""

Base: TypeAlias = Hashable
"""Key that equal conditions and their negations share."""

Values: TypeAlias = tuple[bool | None, ...]

_OPPOSITE: Mapping[Operator, Operator] = {"!=": "=", ">=": "<", ">": "<="}


@dataclass(frozen=True, slots=True)
class _Member:
    """A net with a condition; it applies to calls by its governed names unless that does not hold."""

    key: str
    governs: frozenset[str]
    negated: bool

    def applies(self, value: bool | None) -> bool:
        """True if it applies where the condition they share has this value, `None` for unknown."""
        return value != self.negated


@dataclass(slots=True)
class _Group:
    """The nets whose conditions are one condition or its negation.

    `choice` is the field that the condition asks, and the values of which it must hold one, where it
    asks nothing else.
    """

    members: list[_Member] = field(default_factory=list[_Member])
    by_hand: bool = False
    choice: tuple[Hashable, frozenset[Hashable]] | None = None

    def applied(self, value: bool | None) -> frozenset[str]:
        """The nets that apply where the condition has this value."""
        return frozenset([m.key for m in self.members if m.applies(value)])


@dataclass(slots=True)
class _Field:
    """Conditions that depend on each other, and all the values that they can have together.

    Those that want a field to be this or that: no call has both `input.env = "a"` and `input.env = "b"`,
    and where the field is missing all of them are unknown. Any other condition is alone.
    """

    groups: list[_Group]
    possible: list[Values]
    free: list[Values] = field(init=False)
    """The values that something may need; none of the others allows anything that these do not."""

    def __post_init__(self) -> None:
        self.free = self._most_open(self.possible)

    def inside(self, place: int) -> list[Values]:
        """For each way in which one condition can come out, the values that allow most else."""
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
            # Those of one size differ, so none of them is within another.
            if not any(len(other) < len(applied) and other <= applied for other in least):
                least.append(applied)
        kept = set(least)
        return [values for applied, values in by_applied.items() if applied in kept]


class Cases:
    """The conditions of some nets, and what they make of a call.

    `complete` is false once a call had more combinations than were looked at: what is then not found
    may be possible all the same.
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
        """The actions, from wherever they allow most."""
        if not self._groups:
            return list(actions)
        return [one for action in actions for one in self._free(action)]

    def each(self, actions: Iterable[Action]) -> tuple[list[Action], bool]:
        """As `free`, and also from inside each condition; whether none was left out."""
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
        """The conditions that nets ask of the call."""
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
    """The conditions on one field together, any other alone."""
    together: dict[Hashable, list[_Group]] = {}
    for number, group in enumerate(groups):
        together.setdefault(number if group.choice is None else group.choice[0], []).append(group)
    return [_Field(each, _possible(each)) for each in together.values()]


def _possible(groups: Sequence[_Group]) -> list[Values]:
    """The values that conditions on one field can have together; or those of one alone."""
    choices = [frozenset[Hashable]() if group.choice is None else group.choice[1] for group in groups]
    if len(groups) == 1:
        return [(False,), (True,), (None,)]
    # One that none of them names, those that they name, and none at all.
    found: dict[Values, None] = {(False,) * len(groups): None}
    for held in dict.fromkeys(value for choice in choices for value in choice):
        found[tuple([held in choice for choice in choices])] = None
    found[(None,) * len(groups)] = None
    return list(found)


def _case_action(action: Action, fields: Sequence[_Field], values: tuple[Values, ...]) -> Action:
    """The action as the nets see it when the conditions have these values."""
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
    """The key that a condition shares with its negation, and whether it is the negation."""
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
    """The field, and the values of which it must hold one, where that is all that is asked."""
    path, asked, *wanted = cast("tuple[Hashable, ...]", base)
    if asked == "=":
        return path, frozenset(wanted)
    if asked == "in" and wanted[0]:
        return path, frozenset(cast("tuple[Hashable, ...]", wanted[0]))
    return None


def _plain(value: Scalar | tuple[Scalar, ...] | Matcher) -> Hashable:
    """A value that equals another only where comparing with either is the same: `true` is not 1."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, str | int | float):
        return isinstance(value, bool), value
    return value.text
