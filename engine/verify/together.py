"""Rules proved together: the shortest way to a tool, what forbids it, and how often it can be called.

Nothing is claimed that was not found out: where the search gives up the answer is `Unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..net import SkillNet
from .effort import Effort
from .local import Action
from .most import Bounds, Most, most_calls
from .search import DEFAULT_EFFORT, Forbidden, Found, GaveUp, Word, find, redundant
from .vocabulary import Vocabulary, certain_actions, combines, loose_actions, loosely_covered
from .whole import Whole

Markings: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call on a way: its names, the most specific first, whether a person is asked, how it ends."""

    names: tuple[str, ...]
    approval: bool = False
    succeeds: bool = True

    def __str__(self) -> str:
        marks = [*(["approval"] if self.approval else []), *([] if self.succeeds else ["fails"])]
        return f"{self.names[0]} ({', '.join(marks)})" if marks else self.names[0]


@dataclass(frozen=True, slots=True)
class Way:
    """Calls that lead to a tool, its own call last; `shortest` when no fewer do.

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
        self._words = words = words or Vocabulary()
        each = list(nets.values())
        self._certain = Whole(nets, [*extra, *certain_actions(each, words)], markings)
        self._loose = self._certain
        self._sure = True
        if combines(each, words):
            self._sure = loosely_covered(each, words)
            loose = Whole(nets, [*extra, *loose_actions(each, words, frozenset())], markings)
            carriers = {tool for tools in words.carriers.values() for tool in tools}
            never = frozenset(
                t
                for t in carriers
                if any(t in a.names for a in loose.actions) and not _possible(loose, t)
            )
            if never and self._sure:
                actions = [*extra, *loose_actions(each, words, never)]
                loose = Whole(nets, actions, markings)
            self._loose = loose
        self._bounds: Bounds | None = None
        self._planned: dict[tuple[int, bool], PlannedCall] = {}

    @property
    def certain(self) -> Whole:
        """The whole over the calls that surely exist."""
        return self._certain

    def way(self, name: str) -> Answer:
        """The shortest way to a call that has `name`."""
        return self._answer([_named(whole, name) for whole in (self._certain, self._loose)])

    def way_to_extra(self) -> Answer:
        """The shortest way to the first of the `extra` actions."""
        return self._answer([[0], [0]])

    def _answer(self, goals: Sequence[Sequence[int]]) -> Answer:
        found, left = _best(self._certain, goals[0], self._effort)
        if isinstance(found, Word):
            return self._shown(found)
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

    def _shown(self, word: Word) -> Way:
        whole = self._certain
        state = whole.begin()
        calls: list[PlannedCall] = []
        for number in word.actions:
            asks = number in whole.asking
            if whole.manual:
                asks = asks or any(whole.locals[n].asks(state[n], number) for n in whole.nets_of[number])
                whole.run(state, [number])
            key = (number, asks)
            if key not in self._planned:
                action = whole.actions[number]
                self._planned[key] = PlannedCall(action.names, asks, action.succeeds)
            calls.append(self._planned[key])
        return Way(tuple(calls), word.shortest)

    def most(self, name: str) -> Most:
        """The most calls of `name` that a session can make."""
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
        """A bound on the calls of `name` by all nets but the one with the key `without`."""
        whole = self._loose
        nets = [n for n, local in enumerate(whole.locals) if local.key == without]
        if not nets or not self._sure:
            return float("inf")
        bounds = self._bounds_of_certain() if whole is self._certain else Bounds(whole)
        return bounds.most(_named(whole, name), without=nets[0])

    def redundant(self, key: str, effort: Effort) -> bool:
        """Whether all other nets together are known to block whatever the net `key` blocks.

        Takes from `effort`; `False` also when that did not suffice, or names combine.
        """
        whole = self._certain
        net = next((n for n, local in enumerate(whole.locals) if local.key == key), None)
        return net is not None and self._loose is whole and redundant(whole, net, effort)

    def _bounds_of_certain(self) -> Bounds:
        if self._bounds is None:
            self._bounds = Bounds(self._certain)
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
