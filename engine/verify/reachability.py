"""Reachable markings of a net: breadth-first search over its plain firing graph.

All transitions count alike here, including structural and timed ones: the states are those of the net,
not of a session, which never rests where a structural transition is enabled. Only a chain that begins
with partial transitions is one step, because no session is ever in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, TypeAlias

from ..net.firing import chain
from ..net.net import Marking, NetError, SkillNet, Transition, auto_advance, fire, is_enabled

# Markings as whole numbers, so that a search fires with one addition and compares with one `&`.
#
# Each place has a field of bits in one `int`: its tokens, and above them a guard bit that is 0 in
# every marking. The fields are wide enough for all the tokens their places can come to hold, so that
# none ever overflows into the next. To each place that a transition needs tokens of, the guard bit's
# value less that need is added: this sets the guard bit exactly if the place holds enough. The
# transition is enabled if all these bits are set.


Move: TypeAlias = tuple[int, int, int, Callable[[int], int] | None]


class BitField(NamedTuple):
    """Bits of a place's tokens in a number: `one` is a single token, `guard` the guard bit."""

    shift: int
    one: int
    guard: int

    def tokens(self, packed: int) -> int:
        return (packed & (self.guard - self.one)) >> self.shift


@dataclass(frozen=True, slots=True)
class Packed:
    """A net whose markings are numbers; `start` is its initial one.

    `moves` are its transitions in order, without those that can never be enabled. For each move `(offer,
    guards, change, transferred)`: it is enabled at `m` if `(m + offer) & guards == guards`, and leads to
    `m + change`, or to `transferred(m)` if it transfers tokens.
    """

    fields: dict[str, BitField]
    start: int
    moves: tuple[Move, ...]

    def unpack(self, packed: int) -> Marking:
        """The marking that a number encodes."""
        return {place: field.tokens(packed) for place, field in self.fields.items()}


def pack(net: SkillNet, firings: int) -> Packed:
    """`net` with markings as numbers, valid for up to `firings` firings in a row.

    Raises `NetError` for a place with a negative initial marking.
    """
    start: Marking = {**dict.fromkeys(net.places, 0), **net.initial_marking}
    fields: dict[str, BitField] = {}
    shift = 0
    for place, bound in _bounds(net, start, firings).items():
        if bound < 0:
            raise NetError(f"net '{net.name}': place '{place}' starts with {bound} tokens")
        end = shift + bound.bit_length()
        fields[place] = BitField(shift, 1 << shift, 1 << end)
        shift = end + 1
    moves = (_move(transition, fields) for transition in net.transitions)
    code = sum(tokens << fields[place].shift for place, tokens in start.items())
    return Packed(fields, code, tuple(move for move in moves if move is not None))


def _bounds(net: SkillNet, start: Marking, firings: int) -> Marking:
    """Upper bound on the tokens in each place after so many firings.

    If no transition adds more tokens to a place than it takes, the bound is the initial marking.
    Otherwise it is all tokens that the net can hold, because transfers only move existing tokens.
    """
    grows: set[str] = set()
    gain = 0
    for t in net.transitions:
        gain = max(gain, len(t.outputs) - len(t.inputs))
        grows.update(target for _, target in t.transfers)
        if t.outputs != t.inputs:
            grows.update(p for p in t.outputs if t.outputs.count(p) > t.inputs.count(p))
    total = sum(start.values()) + gain * firings
    return {place: total if place in grows else tokens for place, tokens in start.items()}


def _move(transition: Transition, fields: dict[str, BitField]) -> Move | None:
    """Effect of a transition on numbers; `None` if a place cannot hold the tokens that it needs."""
    removed = guards = added = 0
    for place, need in transition.needs:
        _, one, guard = fields[place]
        if need * one >= guard:
            return None
        removed += need * one
        guards += guard
    for place in transition.outputs:
        added += fields[place].one
    if not transition.transfers:
        return guards - removed, guards, added - removed, None
    pairs = [(fields[source], fields[target]) for source, target in transition.transfers]
    return guards - removed, guards, 0, _transferred(removed, pairs, added)


def _transferred(
    input_tokens: int, pairs: Sequence[tuple[BitField, BitField]], output_tokens: int
) -> Callable[[int], int]:
    """Firing with transfers, in the order of `fire`: take, then transfer, then add."""
    moved = [(source, target.one - source.one) for source, target in pairs]

    def fired(packed: int) -> int:
        packed -= input_tokens
        for source, change in moved:
            packed += source.tokens(packed) * change
        return packed + output_tokens

    return fired


@dataclass(frozen=True, slots=True)
class Reachability:
    """Number of reachable markings, and the first of them in order of discovery.

    If `complete` is false there are more than `count`: the search stopped at its limit.
    """

    count: int
    complete: bool
    states: tuple[Marking, ...]


def reachable(net: SkillNet, *, limit: int = 10_000, keep: int = 100) -> Reachability:
    """Markings that `net` reaches from its initial one, by transitions in definition order.

    Counts up to `limit` and returns the first `keep`. A budget net (`limit A to N …`) is counted without
    enumerating its states, for any N (G-56).
    """
    net = _by_ones(net)
    budget = budget_of(net)
    if budget is not None:
        return Reachability(budget.states, True, tuple(islice(budget.markings(), keep)))
    if any(t.partial for t in net.transitions):
        return _with_chains(net, limit, keep)
    packed = pack(net, firings=max(limit, 1))
    found = [packed.start]
    visited = {packed.start}
    complete = _explore(packed.moves, found, visited, limit)
    return Reachability(len(found), complete, tuple(map(packed.unpack, islice(found, keep))))


class StateCounts:
    """Counts of reachable states; nets that differ only in tool names share one search."""

    def __init__(self) -> None:
        self._counts: dict[object, int] = {}

    def count(self, net: SkillNet) -> int:
        """Count as of `reachable`."""
        structure = _structure(net)
        if structure is None:
            return reachable(net, keep=0).count
        count = self._counts.get(structure)
        if count is None:
            count = self._counts[structure] = reachable(net, keep=0).count
        return count


def _structure(net: SkillNet) -> object:
    """Everything in a net on which its states depend; `None` if they depend on the names of its tools."""
    transitions: list[object] = []
    for t in net.transitions:
        if t.partial:
            return None
        transitions.append((t.inputs, t.outputs, t.transfers, t.after, t.type, not t.tools))
    return net.places, tuple(net.initial_marking.items()), tuple(transitions)


def _explore(moves: Sequence[Move], found: list[int], visited: set[int], limit: int) -> bool:
    """Append to `found` the markings reachable from its own, up to `limit`; true if those are all."""
    for marking in found:
        for offer, guards, change, transferred in moves:
            if (marking + offer) & guards != guards:
                continue
            after = marking + change if transferred is None else transferred(marking)
            if after in visited:
                continue
            if len(found) >= limit:
                return False
            visited.add(after)
            found.append(after)
    return True


def _with_chains(net: SkillNet, limit: int, keep: int) -> Reachability:
    """Search for a net in which calls by some names fire several transitions as one step."""
    chained: dict[str, list[Transition]] = {
        name: [t for t in net.transitions if name in t.tools]
        for transition in net.transitions
        if transition.partial
        for name in transition.tools
    }
    single = [t for t in net.transitions if not t.tools or not chained.keys() >= {*t.tools}]
    found: list[Marking] = [{**dict.fromkeys(net.places, 0), **net.initial_marking}]
    markings = {tuple(found[0].values())}
    for marking in found:
        after = [fire(marking, t) for t in single if is_enabled(marking, t)]
        for covering in chained.values():
            steps = chain(net, marking, covering)
            if steps is not None:
                after.append(_fired(net, marking, steps))
        for reached in after:
            key = tuple(reached.values())
            if key in markings:
                continue
            if len(found) >= limit:
                return Reachability(len(found), False, tuple(found[:keep]))
            markings.add(key)
            found.append(reached)
    return Reachability(len(found), True, tuple(found[:keep]))


def _fired(net: SkillNet, marking: Marking, steps: Sequence[Transition]) -> Marking:
    """The marking after a chain; as in this graph, structural transitions do not follow its last one."""
    for step in steps[:-1]:
        marking = auto_advance(net, fire(marking, step))
    return fire(marking, steps[-1])


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget net: a token moves from `idle` to `ready`, then those of `budget` are used one by one.

    Used tokens go to `spent`, if there is such a place, and may come back: all at once by a call, or one
    by one with `after`, in seconds.
    """

    idle: str
    ready: str
    budget: str
    spent: str | None
    tokens: int
    places: tuple[str, ...]
    after: float | None = None

    @property
    def states(self) -> int:
        return self.tokens + 2

    def markings(self) -> Iterator[Marking]:
        """States in the order in which a breadth-first search finds them."""
        empty = dict.fromkeys(self.places, 0)
        yield {**empty, self.idle: 1, self.budget: self.tokens}
        for used in range(self.tokens + 1):
            spent = {} if self.spent is None else {self.spent: used}
            yield {**empty, self.ready: 1, self.budget: self.tokens - used, **spent}

    def no_worse(self, marking: Mapping[str, int], other: Mapping[str, int]) -> bool:
        """True if `marking` allows every sequence of calls that `other` allows."""
        left, left_other = marking[self.budget], other[self.budget]
        if any(marking[p] != other[p] for p in (self.idle, self.ready)) or left < left_other:
            return False
        if self.spent is None:
            return True
        return left + marking[self.spent] >= left_other + other[self.spent]


def _by_ones(net: SkillNet) -> SkillNet:
    """The net with one token in place of each amount; it reaches every marking that amounts lead to."""
    if not net.measured:
        return net
    return replace(net, transitions=tuple(_of_one(transition) for transition in net.transitions))


def _of_one(transition: Transition) -> Transition:
    amount = transition.amount
    if amount is None:
        return transition
    target = () if amount.target is None else (amount.target,)
    inputs, outputs = (*transition.inputs, amount.source), (*transition.outputs, *target)
    return replace(transition, inputs=inputs, outputs=outputs, amount=None)


def budget_of(net: SkillNet) -> Budget | None:
    """`net` as a budget net, judged by its structure alone; `None` if it is another kind of net."""
    match net.transitions:
        case (start, use):
            refill = None
        case (start, use, refill):
            pass
        case _:
            return None
    if not start.structural or not use.tools or any(t.partial for t in net.transitions):
        return None
    if len(start.inputs) != 1 or len(start.outputs) != 1 or len(use.inputs) != 2 or start.transfers:
        return None
    idle, ready, budget = start.inputs[0], start.outputs[0], use.inputs[1]
    spent = use.outputs[1] if len(use.outputs) == 2 else None
    places = (idle, ready, budget) if spent is None else (idle, ready, budget, spent)
    fits = (
        net.places == places
        and len(set(places)) == len(places)
        and use.inputs == (ready, budget)
        and use.outputs == (ready, *places[3:])
        and not use.transfers
    )
    if fits and refill is not None:
        by_call = refill.inputs == refill.outputs == (ready,) and refill.transfers == ((spent, budget),)
        in_time = refill.after is not None and (refill.inputs, refill.outputs) == ((spent,), (budget,))
        fits = by_call or in_time
    tokens = net.initial_marking.get(budget, 0)
    if not fits or any(net.initial_marking.get(p, 0) != (p == idle) for p in places if p != budget):
        return None
    return Budget(idle, ready, budget, spent, tokens, net.places, refill and refill.after)
