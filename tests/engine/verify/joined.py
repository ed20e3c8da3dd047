"""The slow, plain answers for endless nets: Karp–Miller trees and backward search on a joined net."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from interlock.engine import SkillNet

from .generated import PLACES

Joint = tuple[float, ...]


@dataclass(frozen=True)
class Move:
    """A call of all nets together: the tokens that each place needs, gets and transfers."""

    name: str
    needs: Joint
    gives: Joint
    transfers: tuple[tuple[int, int], ...]

    def after(self, marking: Joint) -> Joint | None:
        if any(held < need for held, need in zip(marking, self.needs, strict=True)):
            return None
        left = [held - need for held, need in zip(marking, self.needs, strict=True)]
        for source, target in self.transfers:
            moved, left[source] = left[source], 0
            left[target] += moved
        return tuple(held + given for held, given in zip(left, self.gives, strict=True))

    def before(self, marking: Joint) -> list[Joint]:
        """Return the minimal markings from which the call leads to at least `marking`."""
        least = [tuple(max(0, held - given) for held, given in zip(marking, self.gives, strict=True))]
        for source, target in reversed(self.transfers):
            least = [
                tuple(
                    moved if p == source else held[target] - moved if p == target else tokens
                    for p, tokens in enumerate(held)
                )
                for held in least
                if not held[source]
                for moved in range(int(held[target]) + 1)
            ]
        return [tuple(a + b for a, b in zip(held, self.needs, strict=True)) for held in least]


def joined(nets: Mapping[str, SkillNet]) -> tuple[Joint, list[Move]]:
    """Return all nets as one Petri net that synchronises on call names, one transition per net each."""
    at = {(key, place): n for n, (key, place) in enumerate((k, p) for k in nets for p in PLACES)}
    start = tuple(float(net.initial_marking[p]) for net in nets.values() for p in PLACES)
    moves: list[Move] = []
    for name in dict.fromkeys(tool for net in nets.values() for t in net.transitions for tool in t.tools):
        for succeeds in (True, False):
            needs: Counter[int] = Counter()
            gives: Counter[int] = Counter()
            transfers: list[tuple[int, int]] = []
            for key, net in nets.items():
                for t in (t for t in net.transitions if name in t.tools):
                    needs.update(at[key, p] for p in t.inputs)
                    if t.deferred and not succeeds:
                        gives.update(at[key, p] for p in t.inputs)
                        continue
                    gives.update(at[key, p] for p in t.outputs)
                    transfers += [(at[key, a], at[key, b]) for a, b in t.transfers]
            numbers = range(len(start))
            held, given = (tuple(float(c[n]) for n in numbers) for c in (needs, gives))
            moves.append(Move(name, held, given, tuple(transfers)))
    return start, moves


def covers(marking: Joint, other: Joint) -> bool:
    return all(a >= b for a, b in zip(marking, other, strict=True))


def karp_miller(start: Joint, moves: Sequence[Move], limit: int = 1500) -> set[str] | None:
    """Return the calls that are ever possible, by a tree whose growing branches become infinite."""
    found: set[str] = set()
    tree: list[tuple[Joint, int]] = [(start, -1)]
    seen = {start}
    for here, (marking, _) in enumerate(tree):
        for move in moves:
            after = move.after(marking)
            if after is None:
                continue
            found.add(move.name)
            above = here
            while above >= 0:
                earlier, parent = tree[above]
                if covers(after, earlier):
                    after = tuple(inf if a > b else a for a, b in zip(after, earlier, strict=True))
                above = parent
            if after not in seen:
                if len(tree) >= limit:
                    return None
                seen.add(after)
                tree.append((after, here))
    return found


def backwards(start: Joint, moves: Sequence[Move], name: str, limit: int = 1500) -> int | None:
    """Return the fewest calls up to and including `name`, by backward search; 0 without a way.

    `None` if the search takes too long.
    """
    goal = next(move.needs for move in moves if move.name == name)
    level, seen, calls = [goal], [goal], 1
    while level:
        if any(covers(start, demand) for demand in level):
            return calls
        calls += 1
        further: list[Joint] = []
        for demand in level:
            for move in moves:
                for earlier in move.before(demand) if move.name != name else ():
                    if not any(covers(earlier, other) for other in seen):
                        seen.append(earlier)
                        further.append(earlier)
                        if len(seen) > limit:
                            return None
        level = further
    return 0
