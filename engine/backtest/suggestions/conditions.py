"""Conditions that separate approved calls of a rule from denied ones, or that name what was always
approved.

The search is for a condition that holds, or is unknown, for every denied call and for as few approved
calls as possible: one comparison, or two of which either keeps the rule in force. Only seen values are
exempted: single values, ranges between seen numbers, folders of seen paths.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from posixpath import dirname
from typing import TypeAlias

from ...core.condition import (
    Compare,
    Condition,
    Not,
    Or,
    Scalar,
    comparisons,
    condition_text,
    field_text,
    holds,
)
from ...core.rule import Rule
from ..input_fields import LONGEST, paths_beside
from .facts import Observation, RuleFacts
from .proposal import Example, Proposal, support_of
from .suggestion import Kind

ENOUGH = 10
"""Approved calls that a condition must exempt."""

MOST_VALUES = 8
"""Most values that a condition lists."""

_FIELDS = 100
_POOL = 40
_FOLDERS = 5
_PATH_FIELD = re.compile(r"(?i)path|file|dir|folder")
_PATH = re.compile(r"[\w.@+~/-]*/[\w.@+~/-]*")

_Path: TypeAlias = tuple[str, ...]
_Value: TypeAlias = tuple[type, Scalar]
Narrow: TypeAlias = Callable[[Rule, Condition], str]
"""Returns the line of a rule with a further condition."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A condition, the approved calls that it exempts and the denied ones to which the rule still
    applies.

    They are sets of positions, as bits. For denied calls in `met` the condition holds; to other denied
    calls the rule applies because they lack the field.
    """

    condition: Condition
    freed: int
    guarded: int
    met: int

    @property
    def order(self) -> tuple[int, int, int, str]:
        """Sort key, best first: exempts most, then holds for most denied calls, then is shortest.

        A field that only approved calls have says nothing about the denied ones: an agent can add it.
        """
        text = condition_text(self.condition)
        return -self.freed.bit_count(), (self.guarded & ~self.met).bit_count(), len(text), text


def separating(facts: RuleFacts, narrow: Narrow) -> Iterator[Proposal]:
    """The condition that exempts most approved calls and no denied one, if it exempts enough."""
    search = _Search(facts)
    best = search.best(search.pool) or search.best(search.pairs)
    if best is not None:
        yield _proposal("condition", facts, best, narrow)


def always_approved(facts: RuleFacts, narrow: Narrow) -> Iterator[Proposal]:
    """Values of one field that were each approved often and never denied."""
    search = _Search(facts)
    best = search.best(list(search.common))
    if best is not None:
        yield _proposal("value", facts, best, narrow)


class _Search:
    """Candidates for one rule."""

    def __init__(self, facts: RuleFacts) -> None:
        self._approved = facts.approved if facts.complete else []
        self._denied = facts.denied
        self._all_denied = (1 << len(facts.denied)) - 1
        self._approved_values = _values(self._approved)
        self._denied_values = _values(self._denied)
        self.pool: list[_Candidate] = []
        if len(self._approved) >= ENOUGH:
            self.pool = list(map(self._candidate, dict.fromkeys(self._conditions())))

    @property
    def common(self) -> Iterator[_Candidate]:
        """Values that were approved often, field by field."""
        for path, counts in self._approved_values.items():
            approved_values = [
                value
                for value, times in _allowed(counts, self._denied_values.get(path))
                if times >= ENOUGH
            ]
            if 0 < len(approved_values) <= MOST_VALUES:
                yield self._candidate(_none_of(path, approved_values))

    @property
    def pairs(self) -> Iterator[_Candidate]:
        """Pairs of comparisons on different fields, of which either keeps the rule in force."""
        pool = sorted((each for each in self.pool if each.freed), key=lambda each: each.order)[:_POOL]
        for first, second in combinations(pool, 2):
            both = Or((first.condition, second.condition))
            yield _Candidate(
                both, first.freed & second.freed, first.guarded | second.guarded, first.met | second.met
            )

    def best(self, candidates: Iterable[_Candidate]) -> _Candidate | None:
        """The best candidate that keeps the rule for every denied call."""
        safe = [
            each
            for each in candidates
            if each.guarded == self._all_denied and each.freed.bit_count() >= ENOUGH
        ]
        return min(safe, key=lambda each: each.order, default=None)

    def _candidate(self, condition: Condition) -> _Candidate:
        answers_for_denied = [holds(condition, each.input, each.surroundings) for each in self._denied]
        return _Candidate(
            condition,
            _bits(holds(condition, each.input, each.surroundings) is False for each in self._approved),
            _bits(answer is not False for answer in answers_for_denied),
            _bits(answer is True for answer in answers_for_denied),
        )

    def _conditions(self) -> Iterator[Condition]:
        """Comparisons of each field that exempt seen values."""
        for path, counts in self._approved_values.items():
            denied_counts = self._denied_values.get(path)
            for choice in (list(_allowed(counts, denied_counts)), list(counts.items())):
                values = [value for value, times in choice if times > 1]
                if 0 < len(values) <= MOST_VALUES:
                    yield _none_of(path, values)
            if len(counts) > MOST_VALUES:
                yield from _outside_ranges(path, counts, denied_counts or Counter())
                yield from _outside_folders(path, counts)


def _bits(answers: Iterable[bool]) -> int:
    return sum(1 << position for position, answer in enumerate(answers) if answer)


def _values(calls: Sequence[Observation]) -> dict[_Path, Counter[_Value]]:
    """Counts of the values of each field, for the fields that are seen first."""
    counts: dict[_Path, Counter[_Value]] = {}
    for call in calls:
        for path, kind, value in call.fields:
            if path in counts or len(counts) < _FIELDS:
                counts.setdefault(path, Counter())[kind, value] += 1
    return counts


def _allowed(
    counts: Counter[_Value], denied_counts: Counter[_Value] | None
) -> Iterator[tuple[_Value, int]]:
    return ((value, times) for value, times in counts.items() if value not in (denied_counts or ()))


def _none_of(path: _Path, values: Iterable[_Value]) -> Condition:
    """`!=` one value, or `not in` several, in an order independent of the calls'."""
    plain = tuple(value for _, value in sorted(values, key=lambda each: (each[0].__name__, str(each[1]))))
    return Compare(path, "!=", plain[0]) if len(plain) == 1 else Not(Compare(path, "in", plain))


def _outside_ranges(
    path: _Path, counts: Counter[_Value], denied_counts: Counter[_Value]
) -> Iterator[Condition]:
    """Below the smallest or above the largest approved number of a range in which none was denied."""
    approved_numbers = {value for _, value in counts if _is_number(value)}
    denied_numbers = {value for _, value in denied_counts if _is_number(value)}
    numbers = [value for value in approved_numbers | denied_numbers if isinstance(value, int | float)]
    for refusal, group in groupby(sorted(numbers), key=lambda value: value in denied_numbers):
        run = list(group)
        if not refusal and len(run) > 1:
            yield Or((Compare(path, "<", run[0]), Compare(path, ">", run[-1])))


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _outside_folders(path: _Path, counts: Counter[_Value]) -> Iterator[Condition]:
    """Outside a folder of approved paths, for fields that are named like paths and contain only paths."""
    if _PATH_FIELD.search(path[-1]) is None:
        return
    folders: Counter[str] = Counter()
    for (_, value), times in counts.items():
        if isinstance(value, str) and _PATH.fullmatch(value) and ".." not in value:
            folders.update(dict.fromkeys(_parent_folders(value), times))
    deepest = {times: folder for folder, times in sorted(folders.items(), key=lambda each: len(each[0]))}
    for times in sorted(deepest, reverse=True)[:_FOLDERS]:
        yield Not(Compare(path, "under", deepest[times]))


def _parent_folders(path: str) -> Iterator[str]:
    """Every folder above a path, except the root and the base of relative paths."""
    folder = dirname(path)
    while folder.strip("/."):
        yield folder
        folder = dirname(folder)


def _proposal(kind: Kind, facts: RuleFacts, best: _Candidate, narrow: Narrow) -> Proposal:
    freed_calls = [each for position, each in enumerate(facts.approved) if best.freed >> position & 1]
    remaining = [each for position, each in enumerate(facts.approved) if not best.freed >> position & 1]
    return Proposal(
        kind,
        narrow(facts.rule, best.condition),
        support_of(freed_calls, len(facts.denied)),
        facts.rule.source,
        tuple(
            (example,) for some in (freed_calls, facts.denied, remaining) for example in _examples(some)
        ),
        _open_fields(freed_calls, {part.path for part in comparisons(best.condition)}),
    )


def _open_fields(calls: Iterable[Observation], compared_paths: set[_Path]) -> tuple[str, ...]:
    """Fields of calls that a condition on the fields `compared_paths` does not read."""
    paths = dict.fromkeys(path for call in calls for path in paths_beside(call.input, compared_paths))
    texts = map(field_text, paths)
    return tuple(text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in texts)


def _examples(calls: Sequence[Observation]) -> Iterator[Example]:
    """The call with the shortest input."""
    shortest = min(calls, key=lambda each: len(str(dict(each.input))), default=None)
    if shortest is not None:
        yield shortest.tool, shortest.input
