"""Proofs about conditions without a call.

A condition holds, does not hold, or cannot be evaluated. `ruled_out` proves that no call gives some
conditions the wanted outcomes; if there is no proof, nothing is reported. The conditions are converted to
a disjunction of conjunctions. In each conjunction every field is tested separately: missing, with the
values named in its comparisons, and with one value from each interval between them.

Some outcomes are left open: whether a pattern matches a text of such an interval, which paths are in a
folder, and what a source said. But one comparison always has one outcome, and a value that comes from
some sources also comes from any larger set of sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias, assert_never, cast

from ...engine.core.condition import ABSENT, And, Compare, Condition, Not, Or, Surroundings, holds
from ...engine.verify.budget import Effort, SpentError

Answers: TypeAlias = frozenset[bool | None]
Demand: TypeAlias = tuple[Condition, Answers]
_Conjunction: TypeAlias = Mapping[Compare, Answers]

HOLDS: Answers = frozenset([True])
FAILS: Answers = frozenset([False])
NOT_FAILS: Answers = frozenset([True, None])
NOT_HOLDS: Answers = frozenset([False, None])
_ANY: Answers = frozenset([True, False, None])
_SURENESS = (False, None, True)

ONE_PROOF = 20_000
"""Most effort of a single proof."""

_KINDS: tuple[object, ...] = (None, True, False, [], {}, float("nan"))
"""One value for each unordered kind, all of whose values have the same outcomes."""


def ruled_out(*demands: Demand, effort: Effort | None = None) -> bool:
    """Return whether it is proved that no call gives each condition a demanded outcome.

    The work is charged to `effort`, if given; `False` also if a proof costs too much.
    """
    effort = Effort() if effort is None else effort
    try:
        with effort.within(ONE_PROOF):
            possible: list[_Conjunction] = [{}]
            for condition, outcome in demands:
                possible = _both(possible, _laid_out(condition, outcome, effort), effort)
            return not any(_can_be(conjunction, effort) for conjunction in possible)
    except SpentError:
        return False


def covers(wide: Condition | None, narrow: Condition | None, effort: Effort | None = None) -> bool:
    """Return whether a rule with the condition `wide` surely applies wherever one with `narrow` does.

    A rule applies if its condition holds or cannot be evaluated, and always without a condition.
    """
    if wide is None:
        return True
    demands_within = () if narrow is None else ((narrow, NOT_FAILS),)
    return ruled_out((wide, FAILS), *demands_within, effort=effort)


def _laid_out(condition: Condition, answers: Answers, effort: Effort) -> list[_Conjunction]:
    """Conjunctions of which one must hold for a condition to have an outcome in `answers`."""
    match condition:
        case Compare():
            return [{condition: answers}]
        case Not(inner=inner):
            turned = frozenset(None if answer is None else not answer for answer in answers)
            return _laid_out(inner, turned, effort)
        case And(parts=parts):
            every = answers in (HOLDS, NOT_FAILS)
        case Or(parts=parts):
            every = answers in (FAILS, NOT_HOLDS)
        case _:
            assert_never(condition)
    each = [_laid_out(part, answers, effort) for part in parts]
    if not every:
        return [choice for choices in each for choice in choices]
    joined: list[_Conjunction] = [{}]
    for choices in each:
        joined = _both(joined, choices, effort)
    return joined


def _both(
    some: Iterable[_Conjunction], others: Iterable[_Conjunction], effort: Effort
) -> list[_Conjunction]:
    """Every consistent combination of one conjunction of `some` with one of `others`."""
    found: list[_Conjunction] = []
    for one in some:
        for other in others:
            effort.charge(1 + len(one) + len(other))
            joined = dict(one)
            for comparison, outcome in other.items():
                joined[comparison] = joined.get(comparison, _ANY) & outcome
            if all(joined.values()):
                found.append(joined)
    return found


def _can_be(conjunction: _Conjunction, effort: Effort) -> bool:
    """Return whether every field may have a value that gives its comparisons the wanted outcomes."""
    by_field: dict[tuple[str, ...], list[Compare]] = {}
    for comparison in conjunction:
        by_field.setdefault((comparison.root, *comparison.path), []).append(comparison)
    return all(_has_value(about, conjunction, effort) for about in by_field.values())


def _has_value(about: Sequence[Compare], conjunction: _Conjunction, effort: Effort) -> bool:
    for value in _values(about):
        effort.charge(len(about))
        answers = {c: conjunction[c] & _answers(c, value) for c in about}
        if all(answers.values()) and _sources_agree(answers):
            return True
    return False


def _sources_agree(answers: _Conjunction) -> bool:
    """Return whether each `from` may have one of its outcomes, without one being surer of fewer sources.

    A larger set of sources can only make it more certain that a value comes from them: no, unknown, yes.
    """
    by_sources: dict[tuple[str | None, frozenset[object]], Answers] = {}
    for comparison, possible in answers.items():
        if comparison.operator == "from" and isinstance(comparison.value, tuple):
            key = (comparison.quantifier, frozenset(comparison.value))
            by_sources[key] = by_sources.get(key, _ANY) & possible
    least: dict[tuple[str | None, frozenset[object]], int] = {}
    for quantifier, sources in sorted(by_sources, key=lambda key: len(key[1])):
        within = [n for (q, fewer), n in least.items() if q == quantifier and fewer < sources]
        sure = [
            n
            for n in map(_SURENESS.index, by_sources[quantifier, sources])
            if n >= max(within, default=0)
        ]
        if not sure:
            return False
        least[quantifier, sources] = min(sure)
    return True


@dataclass(frozen=True, slots=True)
class _Value:
    """Value that a field may have. A text that is not `exact` represents all texts of an interval."""

    value: object = None
    exact: bool = True
    missing: bool = False


def _answers(comparison: Compare, at: _Value) -> Answers:
    """Possible outcomes of a comparison."""
    if at.missing:
        return frozenset([comparison.value == ABSENT if comparison.operator == "is" else None])
    if comparison.quantifier is not None:
        # `[]` represents every list, whatever its elements.
        return _ANY if at.value == [] else frozenset([None])
    match comparison.operator:
        case "from":
            # The texts said before the call are unknown here.
            return _ANY if isinstance(at.value, str | int | float | list) else frozenset([None])
        case "under":
            # The targets of links and the working directory are unknown here.
            return _ANY if isinstance(at.value, str) else frozenset([None])
        case "contains" if at.value == []:
            return _ANY
        case "is" if at.value == [] and comparison.root == "session":
            # An empty list of a session counts as missing, a non-empty one does not.
            return frozenset([True, False])
        case "contains" | "matches" if isinstance(at.value, str) and not at.exact:
            is_invalid = comparison.operator == "contains" and not isinstance(comparison.value, str)
            return frozenset([None]) if is_invalid else frozenset([True, False])
        case _:
            field, *names = comparison.path
            value = at.value
            for name in reversed(names):
                value = {name: value}
            fields = {field: value}
            hint = cast("Mapping[str, bool]", fields)
            return frozenset([holds(comparison, fields, Surroundings(session=fields, hint=hint))])


def _values(about: Sequence[Compare]) -> Iterator[_Value]:
    """Values such that every possible value has the same outcomes as one of them."""
    constants: list[object] = []
    for comparison in about:
        constants += comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)
    yield _Value(missing=True)
    if any(comparison.root == "hint" for comparison in about):
        yield from map(_Value, (True, False))
        return
    yield from map(_Value, _KINDS)
    yield from _texts({c for c in constants if isinstance(c, str)})
    numbers = {c for c in constants if isinstance(c, int | float) and not isinstance(c, bool)}
    yield from map(_Value, _numbers(sorted(numbers)))


def _texts(named: set[str]) -> Iterator[_Value]:
    """The named texts, and one from before the first and from after each."""
    yield _Value("", exact="" in named)
    for text in named:
        yield _Value(text)
        # The next text after it: if that is named too, there is no text between them.
        if text + "\0" not in named:
            yield _Value(text + "\0", exact=False)


def _numbers(named: list[int | float]) -> Iterator[int | float]:
    """The named numbers, and one from each interval between and around them, if it contains any."""
    yield from (float("-inf"), float("inf"), *(named or (0,)))
    for left, right in pairwise(named):
        middle = (Fraction(left) + Fraction(right)) / 2
        yield int(middle)
        try:
            yield float(middle)
        except OverflowError:
            continue
