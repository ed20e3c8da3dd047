"""All states and their transitions, from any search, for counting along them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass
class Walks(Generic[S]):
    """The fewest steps to each call, and every state's transitions; -1 is a step without a call."""

    start: S
    fewest: dict[int, int] = field(default_factory=dict)
    edges: dict[S, list[tuple[int, S]]] = field(default_factory=dict)

    def most(self, counted: set[int]) -> float:
        """Return the most calls of `counted` on any walk, by repeated passes over all states."""
        best = {self.start: 0}
        for _ in range(len(self.edges) + 1):
            changed = False
            for state, number in list(best.items()):
                for made, after in self.edges[state]:
                    further = number + (made in counted)
                    if further > best.get(after, -1):
                        best[after] = further
                        changed = True
            if not changed:
                return max(best.values())
        return float("inf")
