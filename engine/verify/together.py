"""Rules proved together: the shortest way to a tool, what forbids it, and how often it can be called.

Nothing is claimed that was not found out: where the search gives up the answer is `Unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..net import SkillNet
from .cases import Cases
from .effort import Effort
from .local import Action
from .most import Bounds, Most, most_calls, paces
from .search import DEFAULT_EFFORT, Forbidden, Found, GaveUp, Word, find, redundant
from .shown import PlannedCall, Shown
from .vocabulary import Vocabulary, certain_actions, combines, loose_actions, loosely_covered
from .waiting import waits
from .whole import Whole

Markings: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Way:
    """Calls that lead to a tool, its own call last; `shortest` when no fewer do, waiting counted too.

    Calls that have several mapped names at once are not looked for: with them it may be shorter.
    """

    calls: tuple[PlannedCall, ...]
    shortest: bool = True

    def __str__(self) -> str:
        return " → ".join(map(str, self.calls))


@dataclass(frozen=True, slots=True)
class Never:
    """No sequence of calls leads there; `nets` (keys) forbid it and none of them can be left out.

    Without nets there is no call of that name at all.
    """

    nets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Too much to tell."""


Answer: TypeAlias = Way | Never | Unknown


class Together:
    """All nets of a rule set, or of a session at its present markings, as one.

    Raises `NetError` when a net does not come to rest.
    """

    def __init__(
        self,
        nets: Mapping[str, SkillNet],
        *,
        markings: Markings | None = None,
        words: Vocabulary | None = None,
        extra: Sequence[Action] = (),
        effort: int = DEFAULT_EFFORT,
    ) -> None:
        self._effort = effort
        self._nets = nets
        self._markings = markings
        self._words = words = words or Vocabulary()
        self._extra = extra
        self._cases = cases = Cases(nets)
        self._waits = waits(nets)
        each = list(nets.values())
        self._certain = self._whole(cases.free(certain_actions(each, words)))
        self._shown = Shown(self._certain, nets, markings)
        self._loose = self._certain
        self._sure = True
        if combines(each, words):
            self._sure = loosely_covered(each, words)
            loose = self._whole(cases.free(loose_actions(each, words, frozenset())))
            carriers = {tool for tools in words.carriers.values() for tool in tools}
            never = frozenset(
                t
                for t in carriers
                if any(t in a.names for a in loose.actions) and not _possible(loose, t)
            )
            if never and self._sure:
                loose = self._whole(cases.free(loose_actions(each, words, never)))
            self._loose = loose
        self._bounds: Bounds | None = None
        self._inside: _Inside | None = None

    @property
    def certain(self) -> Whole:
        """The whole over the calls that surely exist."""
        return self._certain

    def way(self, name: str) -> Answer:
        """The shortest way to a call that has `name`; from outside conditions where that is shorter."""
        return self._answer([_named(whole, name) for whole in (self._certain, self._loose)])

    def way_within(self, key: str) -> Answer:
        """The shortest way to a call that the condition of the net `key` is asked of and holds for.

        Of a net without a condition, to a call that it gates.
        """
        inside = self._conditional()
        found, _ = _best(inside.whole, inside.governed(key, self._nets[key]), self._effort)
        match found:
            case Word():
                return Way(inside.shown.calls(found.actions), found.shortest)
            case Forbidden() if inside.complete and self._loose is self._certain:
                return self._never(inside.whole, found)
            case _:
                return Unknown()

    def way_to_extra(self) -> Answer:
        """The shortest way to the first of the `extra` actions."""
        return self._answer([[0], [0]])

    def _answer(self, goals: Sequence[Sequence[int]]) -> Answer:
        found, left = _best(self._certain, goals[0], self._effort)
        if isinstance(found, Word):
            return Way(self._shown.calls(found.actions), found.shortest)
        if not self._cases.complete:
            return Unknown()
        if self._loose is self._certain:
            return self._never(self._certain, found) if isinstance(found, Forbidden) else Unknown()
        proof, _ = _best(self._loose, goals[1], max(left, self._effort // 2))
        if not isinstance(proof, Forbidden):
            return Unknown()
        against = [self._loose.locals[net].net for net in proof.nets]
        if not loosely_covered(against, self._words):
            return Unknown()
        # Where a tool that carries names is itself out of reach, only the certain calls tell why.
        if self._sure and isinstance(found, Forbidden):
            return self._never(self._certain, found)
        return self._never(self._loose, proof)

    def _never(self, whole: Whole, found: Forbidden) -> Never:
        return Never(tuple(whole.locals[net].key for net in found.nets))

    def _whole(self, actions: Sequence[Action]) -> Whole:
        return Whole(self._nets, [*self._extra, *actions, *self._waits], self._markings)

    def _conditional(self) -> _Inside:
        """All nets with calls from inside each condition as well; made when first asked for."""
        if self._inside is None:
            calls = certain_actions(list(self._nets.values()), self._words)
            actions, complete = self._cases.each(calls)
            whole = self._whole(actions)
            self._inside = _Inside(whole, Shown(whole, self._nets, self._markings), complete)
        return self._inside

    def most(self, name: str) -> Most:
        """The most calls of `name` that a session can make, from wherever conditions allow most."""
        most = self._most(name)
        if not self._cases.complete and not most.unlimited:
            most = Most(most.least, None)
        return replace(most, paces=paces(self._loose, _named(self._loose, name))) if self._waits else most

    def _most(self, name: str) -> Most:
        bounds, named = self._bounds_of_certain(), _named(self._certain, name)
        certain = most_calls(self._certain, bounds, named, self._effort // 2)
        if self._loose is self._certain or certain.unlimited:
            return certain
        if not self._sure:
            never = not certain.least and isinstance(self.way(name), Never)
            return Most(certain.least, 0 if never else None)
        named = _named(self._loose, name)
        loose = most_calls(self._loose, Bounds(self._loose), named, self._effort // 2)
        return Most(certain.least, None if loose.unlimited else loose.most)

    def bound(self, name: str, *, without: str) -> float:
        """A bound on the calls of `name` by all nets but the one with the key `without`.

        Where that has a condition, on those for which it holds.
        """
        if self._nets[without].condition is not None:
            return self._bound_within(name, without)
        whole = self._loose
        nets = [n for n, local in enumerate(whole.locals) if local.key == without]
        if not nets or not self._sure or not self._cases.complete:
            return float("inf")
        bounds = self._bounds_of_certain() if whole is self._certain else Bounds(whole)
        return bounds.most(_named(whole, name), without=nets[0])

    def _bound_within(self, name: str, key: str) -> float:
        inside = self._conditional()
        named = {*_named(inside.whole, name)}.intersection(inside.governed(key, self._nets[key]))
        nets = [n for n, local in enumerate(inside.whole.locals) if local.key == key]
        if not named or not nets or not inside.complete or self._loose is not self._certain:
            return float("inf")
        return inside.bounds().most(named, without=nets[0])

    def redundant(self, key: str, effort: Effort) -> bool:
        """Whether all other nets together are known to block whatever the net `key` blocks.

        Takes from `effort`; `False` also when that did not suffice, or names combine.
        """
        if self._loose is not self._certain:
            return False
        whole, complete = self._certain, self._cases.complete
        if self._nets[key].condition is not None:
            inside = self._conditional()
            whole, complete = inside.whole, inside.complete
        net = next((n for n, local in enumerate(whole.locals) if local.key == key), None)
        return net is not None and complete and redundant(whole, net, effort)

    def _bounds_of_certain(self) -> Bounds:
        if self._bounds is None:
            self._bounds = Bounds(self._certain)
        return self._bounds


class _Inside:
    """All nets together, with calls from inside each condition; `complete` when none was left out."""

    def __init__(self, whole: Whole, shown: Shown, complete: bool) -> None:
        self.whole = whole
        self.shown = shown
        self.complete = complete
        self._bounds: Bounds | None = None

    def governed(self, key: str, net: SkillNet) -> list[int]:
        """The calls that the condition of a net is asked of and holds for."""
        names = {*net.governs} if net.condition else {tool for t in net.transitions for tool in t.tools}
        numbers = dict.fromkeys(n for name in names for n in _named(self.whole, name))
        return [n for n in numbers if not names.isdisjoint(self.whole.actions[n].names_in(key))]

    def bounds(self) -> Bounds:
        if self._bounds is None:
            self._bounds = Bounds(self.whole)
        return self._bounds


def _named(whole: Whole, name: str) -> list[int]:
    return whole.named.get(name, [])


def _possible(whole: Whole, name: str) -> bool:
    return any(whole.reached.possible(a) for a in _named(whole, name))


def _best(whole: Whole, goals: Sequence[int], effort: int) -> tuple[Found, int]:
    """The shortest word to one of `goals`, forbidden only when all are; and what effort is left."""
    best: Word | None = None
    against: dict[int, None] = {}
    gave_up = False
    for position, goal in enumerate(goals):
        before = whole.effort.left
        found = find(whole, goal, effort // (len(goals) - position))
        effort -= before - whole.effort.left
        match found:
            case Word() as word:
                if best is None or len(word.actions) < len(best.actions):
                    best = word
            case Forbidden(nets):
                against.update(dict.fromkeys(nets))
            case GaveUp():
                gave_up = True
    if best is not None:
        return Word(best.actions, best.shortest and not gave_up), effort
    return GaveUp() if gave_up else Forbidden(tuple(sorted(against))), effort
