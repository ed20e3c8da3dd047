"""Proofs about rules together: the shortest way to a tool, what forbids it, and how often it can be
called.

Only proven results are claimed: if the search gives up, the answer is `Unknown` (G-95).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from ..core.durations import as_typed
from ..net.net import SkillNet, auto_advance
from .any_value import further_limits, orders_values, over_all_values
from .budget import Effort
from .call_bounds import Bounds, Most, most_calls, paces
from .composition import NetProduct
from .condition_cases import Cases
from .local_net import Action, TimedFiring
from .machine import Machine, Tokens
from .search import DEFAULT_EFFORT, ActionSequence, Forbidden, Found, SearchLimitReached, find, redundant
from .vocabulary import (
    Vocabulary,
    certain_actions,
    combines,
    late_successes,
    loose_actions,
    loosely_covered,
)
from .waiting import seconds_of, waits

# A way as shown to people: calls, the approvals they need, and how long to wait between them.


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call on a way: its names, the most specific first, whether it needs approval, how it ends.

    `people` is how many must approve. `outside` has the keys of nets that would block the call or require
    approval if it met their conditions, which it must not do. With `seconds` it is a wait of that length
    instead of a call, and `names` says so.
    """

    names: tuple[str, ...]
    approval: bool = False
    succeeds: bool = True
    people: int = 1
    outside: tuple[str, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        approval = "approval" if self.people < 2 else f"{self.people} people approve"
        marks = [*([approval] if self.approval else []), *([] if self.succeeds else ["fails"])]
        if self.outside:
            marks.append(f"outside {', '.join(self.outside)}")
        return f"{self.names[0]} ({', '.join(marks)})" if marks else self.names[0]


class CallSequences:
    """Conversion of words over a product to calls; equal calls are created once."""

    def __init__(
        self,
        product: NetProduct,
        nets: Mapping[str, SkillNet],
        markings: Mapping[str, Mapping[str, int]] | None,
    ) -> None:
        self._product = product
        self._nets = nets
        self._markings = markings
        self._at = {local.key: net for net, local in enumerate(product.locals)}
        # If nothing depends on the markings of the nets, the nets need not be moved along.
        self._moves = product.manual or any(a.outside or a.wait for a in product.actions)
        self._known: dict[tuple[int, int, tuple[str, ...]], PlannedCall] = {}
        self._fixed: dict[int, PlannedCall] = {}
        self._left_out: dict[str, tuple[Machine, Tokens]] = {}

    def calls(self, word: Sequence[int]) -> tuple[PlannedCall, ...]:
        """Calls of a word that works from the current markings; consecutive waits become one."""
        if not self._moves:
            for number in word:
                if number not in self._fixed:
                    self._fixed[number] = self._planned({}, number)
            return tuple(map(self._fixed.__getitem__, word))
        product = self._product
        state = product.begin()
        planned: list[PlannedCall] = []
        waited: list[TimedFiring] = []
        since: dict[int, int] = {}
        for number in self._waiting_together(word):
            wait = product.actions[number].wait
            if wait is not None:
                since = since if waited else dict(state)
                waited.append(wait)
            else:
                if waited:
                    planned.append(self._waiting(waited, since))
                    waited = []
                planned.append(self._planned(state, number))
            product.run(state, [number])
        return tuple(planned)

    def _waiting_together(self, word: Sequence[int]) -> list[int]:
        """The word with waits moved up to earlier ones, past calls that the waiting net does not know."""
        found: list[int] = []
        for number in word:
            place = end = len(found)
            if self._product.actions[number].wait is not None:
                nets = set(self._product.nets_of[number])
                while place and nets.isdisjoint(self._product.nets_of[found[place - 1]]):
                    place -= 1
                    if self._product.actions[found[place]].wait is not None:
                        end = place + 1
                        break
            found.insert(end, number)
        return found

    def _waiting(self, waited: Sequence[TimedFiring], state: Mapping[int, int]) -> PlannedCall:
        keys = {wait.key for wait in waited}
        markings = {k: self._product.locals[self._at[k]].marking(state[self._at[k]]) for k in keys}
        seconds = seconds_of(waited, self._nets, markings)
        return PlannedCall((f"wait {as_typed(seconds)}",), seconds=seconds)

    def _planned(self, state: Mapping[int, int], number: int) -> PlannedCall:
        product = self._product
        action = product.actions[number]
        people = product.asking.get(number, 0)
        if product.manual:
            questions = (product.locals[net].asks(state[net], number) for net in product.nets_of[number])
            people = max(people, *questions, 0)
        outside = tuple(key for key in action.outside if self._would_stop(state, action, key))
        key = (number, people, outside)
        if key not in self._known:
            self._known[key] = PlannedCall(
                action.names, people > 0, action.succeeds, max(people, 1), outside
            )
        return self._known[key]

    def _would_stop(self, state: Mapping[int, int], action: Action, key: str) -> bool:
        """True if a net that the call is outside of would block it or require approval from inside."""
        if key in self._at:
            local = self._product.locals[self._at[key]]
            machine, tokens = local.machine, local.tokens(state[self._at[key]])
        else:
            machine, tokens = self._resting(key)
        moved = machine.advance(tokens, action.names, Effort(), succeeds=action.succeeds)
        return moved is None or moved[1] > 0

    def _resting(self, key: str) -> tuple[Machine, Tokens]:
        """A net that none of the calls moves, with its marking."""
        if key not in self._left_out:
            net = self._nets[key]
            markings = self._markings
            marking = auto_advance(net, net.initial_marking) if markings is None else markings[key]
            machine = Machine(net, marking)
            self._left_out[key] = machine, tuple(marking.get(p, 0) for p in machine.places)
        return self._left_out[key]


Markings: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Way:
    """Calls that lead to a tool, its own call last; `shortest` if no fewer steps do, counting waits.

    Calls with several mapped names at once are not considered; with them a way may be shorter.
    """

    calls: tuple[PlannedCall, ...]
    shortest: bool = True

    def __str__(self) -> str:
        return " → ".join(map(str, self.calls))


@dataclass(frozen=True, slots=True)
class Never:
    """No sequence of calls leads there; `nets` (keys) forbid it, and none of them can be left out.

    If `nets` is empty there is no call with that name at all.
    """

    nets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The answer would take too much effort."""


Answer: TypeAlias = Way | Never | Unknown


class Together:
    """All nets of a rule set, or of a session at its current markings, as one system.

    Raises `NetError` if a net does not come to rest.
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
        self._certain = self._product_of(cases.free(certain_actions(each, words)))
        self._shown = CallSequences(self._certain, nets, markings)
        self._loose = self._certain
        self._sure = True
        ends = late_successes(nets)
        if combines(each, words):
            self._sure = loosely_covered(each, words)
            loose = self._beside(cases.free(loose_actions(each, words, frozenset())), ends)
            carriers = {tool for tools in words.carriers.values() for tool in tools}
            named = {tool: _named(loose, tool) for tool in carriers}
            never = frozenset(
                t
                for t, actions in named.items()
                if actions and not any(map(loose.reached.possible, actions))
            )
            if never and self._sure:
                loose = self._beside(cases.free(loose_actions(each, words, never)), ends)
            self._loose = loose
        elif ends:
            self._loose = self._beside(cases.free(certain_actions(each, words)), ends)

    def _beside(self, actions: Sequence[Action], ends: Mapping[str, Sequence[Action]]) -> NetProduct:
        """Product over these calls and the late results of those that can be made."""
        if not ends:
            return self._product_of(actions)
        product = self._product_of([*actions, *(end for each in ends.values() for end in each)])
        effort = self._effort // (4 * len(ends))
        found = {tool: _best(product, _named(product, tool), effort)[0] for tool in ends}
        others = {tool: each for tool, each in ends.items() if not isinstance(found[tool], Forbidden)}
        if len(others) == len(ends):
            return product
        return self._product_of([*actions, *(end for each in others.values() for end in each)])

    @property
    def certain(self) -> NetProduct:
        """Product over the calls that surely exist."""
        return self._certain

    @cached_property
    def _over_values(self) -> Together | None:
        """The rules over all values of fields; `None` if none is per value."""
        nets = over_all_values(self._nets)
        return None if nets is None else Together(nets, words=self._words, effort=self._effort)

    def way(self, name: str) -> Answer:
        """Shortest way to a call with the name `name`, from outside conditions if that is shorter.

        For rules per value of a field, all its calls may have the same value.
        """
        found = self._answer([_named(product, name) for product in (self._certain, self._loose)])
        over = self._over_values
        return found if over is None else self._joined(name, found, over.way(name))

    def _joined(self, name: str, found: Answer, over: Answer) -> Answer:
        """Answer combined from the one for calls of a single value and the one `over` all values."""
        match found, over:
            case _, Never():
                return over
            case Way(), Way() if len(found.calls) == len(over.calls):
                return replace(found, shortest=found.shortest and over.shortest)
            case _, Way() if not orders_values(self._nets, name):
                return over
            case Way(), _:
                return replace(found, shortest=False)
            case _:
                return Unknown()

    def way_within(self, key: str) -> Answer:
        """Shortest way to a call to which the condition of the net `key` applies and for which it holds.

        For a net without a condition, to a call that it gates.
        """
        over = self._over_values
        found = self._way_within(key)
        if over is None:
            return found
        name = next((name for name in self._nets[key].governs), "")
        return self._joined(name, found, over.way_within(key))

    def _way_within(self, key: str) -> Answer:
        inside = self._inside
        found, _ = _best(inside.product, inside.governed(key, self._nets[key]), self._effort)
        match found:
            case ActionSequence():
                return Way(inside.shown.calls(found.actions), found.shortest)
            case Forbidden() if inside.complete and self._loose is self._certain:
                return self._never(inside.product, found)
            case _:
                return Unknown()

    def way_to_extra(self) -> Answer:
        """Shortest way to the first of the `extra` actions."""
        found = self._answer([[0], [0]])
        if isinstance(found, Never) and len(found.nets) > 1:
            # Calls with other values might do what calls with this one cannot.
            nets = [self._nets[key] for key in found.nets]
            return Unknown() if any(net.per_value or net.measured for net in nets) else found
        return found

    def _answer(self, goals: Sequence[Sequence[int]]) -> Answer:
        found, remaining_effort = _best(self._certain, goals[0], self._effort)
        if isinstance(found, ActionSequence):
            return Way(self._shown.calls(found.actions), found.shortest)
        if not self._cases.complete:
            return Unknown()
        if self._loose is self._certain:
            return self._never(self._certain, found) if isinstance(found, Forbidden) else Unknown()
        proof, _ = _best(self._loose, goals[1], max(remaining_effort, self._effort // 2))
        if not isinstance(proof, Forbidden):
            return Unknown()
        against = [self._loose.locals[net].net for net in proof.nets]
        if not loosely_covered(against, self._words):
            return Unknown()
        # If a tool that carries names is itself unreachable, only the certain calls show why.
        if self._sure and isinstance(found, Forbidden):
            return self._never(self._certain, found)
        return self._never(self._loose, proof)

    def _never(self, product: NetProduct, found: Forbidden) -> Never:
        return Never(tuple(product.locals[net].key for net in found.nets))

    def _product_of(self, actions: Sequence[Action]) -> NetProduct:
        return NetProduct(self._nets, [*self._extra, *actions, *self._waits], self._markings)

    @cached_property
    def _inside(self) -> _Inside:
        """All nets, with calls from inside each condition as well."""
        calls = certain_actions(list(self._nets.values()), self._words)
        actions, complete = self._cases.each(calls)
        product = self._product_of(actions)
        return _Inside(product, CallSequences(product, self._nets, self._markings), complete)

    def most(self, name: str) -> Most:
        """The most calls of `name` that a session can make, in the cases that allow most."""
        over = self._over_values
        each = further_limits(self._nets, name)
        if over is None:
            found = self._most_alike(name)
            return replace(found, each=each) if each else found
        most = over.most(name)
        if not orders_values(self._nets, name):
            return replace(most, each=each)
        found = self._most_alike(name)
        if found.unlimited:
            return replace(found, paces=most.paces, each=each)
        return Most(found.least, None if most.unlimited else most.most, paces=most.paces, each=each)

    def _most_alike(self, name: str) -> Most:
        bound = self._most(name)
        if not self._cases.complete and not bound.unlimited:
            bound = Most(bound.least, None)
        return (
            replace(bound, paces=paces(self._loose, _named(self._loose, name))) if self._waits else bound
        )

    def _most(self, name: str) -> Most:
        bounds, actions = self._bounds, _named(self._certain, name)
        certain = most_calls(self._certain, bounds, actions, self._effort // 2)
        if self._loose is self._certain or certain.unlimited:
            return certain
        if not self._sure:
            never = not certain.least and isinstance(self.way(name), Never)
            return Most(certain.least, 0 if never else None)
        actions = _named(self._loose, name)
        loose = most_calls(self._loose, Bounds(self._loose), actions, self._effort // 2)
        return Most(certain.least, None if loose.unlimited else loose.most)

    def calls_bound(self, name: str, *, without: str) -> float:
        """Bound on the calls of `name` by all nets except the one with the key `without`.

        If that net has a condition, only calls for which it holds are counted.
        """
        over = self._over_values
        if over is not None:
            return over.calls_bound(name, without=without)
        if self._nets[without].condition is not None:
            return self._bound_within(name, without)
        product = self._loose
        nets = [n for n, local in enumerate(product.locals) if local.key == without]
        if not nets or not self._sure or not self._cases.complete:
            return float("inf")
        bounds = self._bounds if product is self._certain else Bounds(product)
        return bounds.most(_named(product, name), without=nets[0])

    def _bound_within(self, name: str, key: str) -> float:
        inside = self._inside
        actions = {*_named(inside.product, name)}.intersection(inside.governed(key, self._nets[key]))
        nets = [n for n, local in enumerate(inside.product.locals) if local.key == key]
        if not actions or not nets or not inside.complete or self._loose is not self._certain:
            return float("inf")
        return inside.bounds.most(actions, without=nets[0])

    def redundant(self, key: str, effort: Effort) -> bool:
        """True if all other nets together are known to block every call that the net `key` blocks.

        The work is charged to `effort`; `False` also if that did not suffice, or if names combine.
        """
        over = self._over_values
        if over is not None:
            return self._nets[key].per_value is None and over.redundant(key, effort)
        if self._loose is not self._certain:
            return False
        product, complete = self._certain, self._cases.complete
        if self._nets[key].condition is not None:
            inside = self._inside
            product, complete = inside.product, inside.complete
        net = next((n for n, local in enumerate(product.locals) if local.key == key), None)
        return net is not None and complete and redundant(product, net, effort)

    @cached_property
    def _bounds(self) -> Bounds:
        return Bounds(self._certain)


class _Inside:
    """All nets, with calls from inside each condition; `complete` if none was left out."""

    def __init__(self, product: NetProduct, shown: CallSequences, complete: bool) -> None:
        self.product = product
        self.shown = shown
        self.complete = complete

    def governed(self, key: str, net: SkillNet) -> list[int]:
        """Calls to which the condition of a net applies and for which it holds."""
        names = {*net.governs} if net.condition else {tool for t in net.transitions for tool in t.tools}
        numbers = dict.fromkeys(n for name in names for n in _named(self.product, name))
        return [n for n in numbers if not names.isdisjoint(self.product.actions[n].names_in(key))]

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds(self.product)


def _named(product: NetProduct, name: str) -> list[int]:
    return product.named.get(name, [])


def _best(product: NetProduct, goals: Sequence[int], effort: int) -> tuple[Found, int]:
    """Shortest word to one of `goals`, or forbidden if all are; and the effort that is left."""
    best: ActionSequence | None = None
    against: dict[int, None] = {}
    gave_up = False
    for position, goal in enumerate(goals):
        before = product.effort.left
        found = find(product, goal, effort // (len(goals) - position))
        effort -= before - product.effort.left
        match found:
            case ActionSequence() as word:
                if best is None or len(word.actions) < len(best.actions):
                    best = word
            case Forbidden(nets):
                against.update(dict.fromkeys(nets))
            case SearchLimitReached():
                gave_up = True
    if best is not None:
        return ActionSequence(best.actions, best.shortest and not gave_up), effort
    return SearchLimitReached() if gave_up else Forbidden(tuple(sorted(against))), effort
