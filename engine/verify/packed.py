"""Markings as whole numbers, so that a search fires with one addition and compares with one `&`.

Each place has a field of bits in one `int`: its tokens, and above them a guard bit that is 0 in every
marking. The fields are wide enough for all the tokens their places can come to hold, so that none ever
overflows into the next. To each place that a transition needs tokens of, the guard bit's value less
that need is added: this sets the guard bit exactly if the place holds enough. The transition is enabled
if all these bits are set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..net import Marking, NetError, SkillNet, Transition

Move: TypeAlias = tuple[int, int, int, Callable[[int], int] | None]


class Field(NamedTuple):
    """Where a place's tokens stand in a number: `one` is a single token, `guard` the guard bit."""

    shift: int
    one: int
    guard: int

    def tokens(self, packed: int) -> int:
        return (packed & (self.guard - self.one)) >> self.shift


@dataclass(frozen=True, slots=True)
class Packed:
    """A net whose markings are numbers; `start` is its initial one.

    `moves` are its transitions in their order, without those that can never be enabled. Of each move
    `(offer, guards, change, transferred)` it holds: it is enabled at `m` if `(m + offer) & guards ==
    guards`, and leads to `m + change`, or to `transferred(m)` if it transfers tokens.
    """

    fields: dict[str, Field]
    start: int
    moves: tuple[Move, ...]

    def unpack(self, packed: int) -> Marking:
        """The marking that a number stands for."""
        return {place: field.tokens(packed) for place, field in self.fields.items()}


def pack(net: SkillNet, firings: int) -> Packed:
    """`net` with markings as numbers, which hold for up to so many firings one after the other.

    Raises `NetError` for a place that starts with less than no tokens.
    """
    start: Marking = {**dict.fromkeys(net.places, 0), **net.initial_marking}
    fields: dict[str, Field] = {}
    shift = 0
    for place, most in _bounds(net, start, firings).items():
        if most < 0:
            raise NetError(f"net '{net.name}': place '{place}' starts with {most} tokens")
        end = shift + most.bit_length()
        fields[place] = Field(shift, 1 << shift, 1 << end)
        shift = end + 1
    moves = (_move(transition, fields) for transition in net.transitions)
    code = sum(tokens << fields[place].shift for place, tokens in start.items())
    return Packed(fields, code, tuple(move for move in moves if move is not None))


def _bounds(net: SkillNet, start: Marking, firings: int) -> Marking:
    """No fewer tokens than each place can hold after so many firings.

    Where no transition gives a place more than it takes from it, these are those it starts with.
    Otherwise they are all the net can hold: transfers only move what is there.
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


def _move(transition: Transition, fields: dict[str, Field]) -> Move | None:
    """What a transition does to numbers; `None` if a place cannot hold the tokens it needs."""
    taken = guards = given = 0
    for place, need in transition.needs:
        _, one, guard = fields[place]
        if need * one >= guard:
            return None
        taken += need * one
        guards += guard
    for place in transition.outputs:
        given += fields[place].one
    if not transition.transfers:
        return guards - taken, guards, given - taken, None
    pairs = [(fields[source], fields[target]) for source, target in transition.transfers]
    return guards - taken, guards, 0, _transferred(taken, pairs, given)


def _transferred(taken: int, pairs: Sequence[tuple[Field, Field]], given: int) -> Callable[[int], int]:
    """Firing with transfers, in the order of `fire`: what is taken, then moved, then given."""
    moved = [(source, target.one - source.one) for source, target in pairs]

    def fired(packed: int) -> int:
        packed -= taken
        for source, change in moved:
            packed += source.tokens(packed) * change
        return packed + given

    return fired
