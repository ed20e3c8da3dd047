"""Waiting requests, in the order in which operators see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeVar

from ..core.rule import Risk
from ..history.model.state import ApprovalState

T = TypeVar("T")

RANK: dict[Risk | None, int] = {"high": 0, "medium": 1, None: 2, "low": 3}
"""The order of risks: a request without a risk comes before one with low risk."""
FIRST = 60
"""Number of requests that are listed at a time, more than are decided together; others follow later."""
_AGE = attrgetter("since", "id")


class Unread(NamedTuple):
    """Live sessions of a server that a console has not read, and their requests that it cannot list."""

    sessions: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class SessionRequests:
    """Requests that stop a session or its subagents: their number, and the most pressing one."""

    number: int
    first: ApprovalState


def longest_first(approvals: Iterable[ApprovalState]) -> list[ApprovalState]:
    """Return the requests by waiting time, the longest first."""
    return sorted(approvals, key=_AGE)


def in_order(approvals: Iterable[ApprovalState]) -> list[ApprovalState]:
    """Return all requests in the order of `ApprovalQueue`."""
    return ApprovalQueue(longest_first(approvals)).first()


class ApprovalQueue:
    """Requests at one moment, given longest first; each session has one opener.

    They are ordered by the risk that rules name, then in turns, then by waiting time. Agents take turns,
    external ones by their tokens, and so do each agent's sessions: a hundred requests of one agent do not
    hide those of others. Only as many as are needed are sorted.
    """

    def __init__(self, approvals: Iterable[ApprovalState] = ()) -> None:
        self._all = list(approvals)
        self._own: dict[tuple[Risk | None, str], list[ApprovalState]] = {}
        self._below: dict[tuple[Risk | None, str], list[ApprovalState]] = {}
        for each in self._all:
            self._own.setdefault((each.risk, each.session), []).append(each)
            if each.via is not None and each.via != each.session:
                self._below.setdefault((each.risk, each.via), []).append(each)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[ApprovalState]:
        """Yield the requests, longest first."""
        return iter(self._all)

    def get(self, approval_id: str | None) -> ApprovalState | None:
        return next((each for each in self._all if each.id == approval_id), None)

    def first(self, most: int | None = None) -> list[ApprovalState]:
        """Return the first `most` in order, or all of them."""
        return list(islice(self._ordered(), most))

    def of(self, session: str) -> list[ApprovalState]:
        """Return requests that a session or its subagents wait for, the most pressing first."""
        keys: list[tuple[Risk | None, str]] = [(risk, session) for risk in RANK]
        return [
            each
            for key in keys
            for each in longest_first([*self._own.get(key, ()), *self._below.get(key, ())])
        ]

    def stops(self) -> dict[str, SessionRequests]:
        """Return the `SessionRequests` of each session that waits, by its id."""
        found: dict[str, SessionRequests] = {}
        for (_, session), group in (*self._own.items(), *self._below.items()):
            number, first = len(group), group[0]
            if (known := found.get(session)) is not None:
                number += known.number
                first = min(known.first, first, key=lambda each: (RANK[each.risk], *_AGE(each)))
            found[session] = SessionRequests(number, first)
        return found

    def _ordered(self) -> Iterator[ApprovalState]:
        for risk in RANK:
            askers: dict[tuple[bool, str], list[list[ApprovalState]]] = {}
            for (named, session), group in self._own.items():
                if named == risk:
                    opener = group[0].opener
                    askers.setdefault((opener is None, opener or session), []).append(group)
            for turn in _turns([_by_session(groups) for groups in askers.values()]):
                yield from (each for *_, each in sorted(turn, key=lambda own: (own[0], *_AGE(own[1]))))


def _by_session(groups: Iterable[list[ApprovalState]]) -> Iterator[tuple[int, ApprovalState]]:
    """Yield the requests of one agent, its sessions taking turns, each with the number of its turn."""
    for number, turn in enumerate(_turns([iter(group) for group in groups])):
        yield from ((number, each) for each in longest_first(turn))


def _turns(queues: list[Iterator[T]]) -> Iterator[list[T]]:
    """Yield the first of every queue, then the second of every queue that has one, and so on."""
    while queues:
        turn: list[T] = []
        waiting: list[Iterator[T]] = []
        for queue in queues:
            for each in islice(queue, 1):
                turn.append(each)
                waiting.append(queue)
        if turn:
            yield turn
        queues = waiting
