"""Effect of conditions on rules: never holding, always holding, or making another rule superfluous."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from ...engine.core.condition import And, Compare, Condition, Not, Or, comparisons, written_value
from ...engine.core.rule import ApprovalRule, BlockRule, causes_of
from ...engine.verify import Effort
from ..errors.problems import Problem, quote
from .condition_logic import FAILS, HOLDS, covers, ruled_out
from .lint import at_word
from .located_rule import LocatedRule

EFFORT = 400_000
"""Total effort of comparing conditions; rules not compared within it are not reported."""

_OPTIONS = {
    "people": "another number of people",
    "approvers": "other people",
    "within": "another time",
    "risk": "another risk",
    "grants": "other words on grants",
}


def overlaps(rules: Sequence[LocatedRule]) -> Iterator[Problem]:
    """Warnings about conditions, and about rules that they make superfluous."""
    effort = Effort(EFFORT)
    for one in rules:
        if one.rule.when is not None:
            yield from _alone(one, one.rule.when, effort)
    by_tool: dict[str, list[LocatedRule]] = {}
    for one in rules:
        # A rule that is in effect only after some call is not compared, because its effect varies.
        if not causes_of(one.rule):
            by_tool.setdefault(one.gated, []).append(one)
    yield from _claimed(rules, effort)
    for tool, about in by_tool.items():
        yield from _always_blocked(tool, about, effort)
    pairs = (pair for about in by_tool.values() for pair in combinations(about, 2))
    reported: set[str] = set()
    for first, later in pairs:
        if effort.left <= 0:
            return
        effort.charge(1)
        if not _conditional(first, later):
            continue
        for problem, key in _between(first, later, effort):
            # One warning about a rule suffices.
            if key not in reported:
                reported.add(key)
                yield problem


def _conditional(first: LocatedRule, later: LocatedRule) -> bool:
    """Return whether two rules differ in their conditions or their options."""
    is_approval = isinstance(first.rule, ApprovalRule) and isinstance(later.rule, ApprovalRule)
    if not is_approval and first.rule.when is None and later.rule.when is None:
        return False
    return replace(first.rule, source=None) != replace(later.rule, source=None)


def _alone(one: LocatedRule, condition: Condition, effort: Effort) -> Iterator[Problem]:
    if ruled_out((condition, HOLDS), effort=effort):
        fields = dict.fromkeys(part.field_name for part in comparisons(condition))
        missing = " or ".join(fields)
        message = "this condition never holds"
        remedy = f"the rule applies only where {missing} is missing or of another kind: correct it"
        yield at_condition(one, condition, message, remedy)
    elif ruled_out((condition, FAILS), effort=effort):
        yield at_condition(one, condition, "this condition always holds", "leave it out, or correct it")
    for part in _lets_pass(condition):
        if not (isinstance(part.value, str) and part.value.startswith("-")):
            value = written_value(part.value)
            message = f"a list that has {value} among others passes this as well"
            remedy = f"if {part.field_name} is a list, write: every {part.field_name} in [{value}]"
            yield at_condition(one, part, message, remedy)
    for part in comparisons(condition):
        if part.operator == "under" and isinstance(part.value, str) and set("*?") & set(part.value):
            message = f"{quote(part.value)} is taken as a folder with exactly this name"
            yield at_condition(one, part, message, "name only the folder: everything in it is under it")


def _claimed(rules: Sequence[LocatedRule], effort: Effort) -> Iterator[Problem]:
    """Rules that a server's claims about its own tool can evade, if no other rule applies."""
    for one in rules:
        hints = _hints(one)
        condition = one.rule.when
        if not hints or condition is None or ruled_out((condition, FAILS), effort=effort):
            continue
        others = (
            each
            for each in rules
            if each.gated == one.gated
            and isinstance(each.rule, ApprovalRule | BlockRule)
            and not causes_of(each.rule)
            and not _hints(each)
        )
        if not any(covers(each.rule.when, condition, effort) for each in others):
            fields = " and ".join(dict.fromkeys(part.field_name for part in hints))
            message = f"{fields} is a claim of the tool's server: a server that lies evades this rule"
            remedy = f"add a rule without a hint: require human-approval before {one.gated}"
            yield at_parts(one, hints, message, remedy)


def _hints(one: LocatedRule) -> list[Compare]:
    """Comparisons of a rule's condition that test hints."""
    condition = one.rule.when
    return [] if condition is None else [part for part in comparisons(condition) if part.root == "hint"]


def _lets_pass(condition: Condition, *, holds: bool = True) -> Iterator[Compare]:
    """`contains` comparisons that keep a rule from applying, so that they are used as an allow-list.

    `holds` says whether the rule applies if the condition holds.
    """
    match condition:
        case Compare(operator="contains", quantifier=None, root="input") if not holds:
            # The labels of a session are set by people, so an agent cannot add another one.
            yield condition
        case Compare():
            return
        case Not(inner=inner):
            yield from _lets_pass(inner, holds=not holds)
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _lets_pass(part, holds=holds)


def at_condition(one: LocatedRule, when: Condition, message: str, remedy: str) -> Problem:
    """A warning at a condition, or a part of one."""
    return at_parts(one, list(comparisons(when)), message, remedy)


def at_parts(one: LocatedRule, parts: Sequence[Compare], message: str, remedy: str) -> Problem:
    """A warning spanning some comparisons, from the first to the last."""
    start, end = min(p.start for p in parts), max(p.end for p in parts)
    source = one.source
    return Problem(source.file, source.line, start + 1, end - start, source.text, message, remedy)


def _always_blocked(tool: str, about: Sequence[LocatedRule], effort: Effort) -> Iterator[Problem]:
    """Blocks of which one applies to every call, although none applies to all calls."""
    blocks = [one for one in about if isinstance(one.rule, BlockRule) and one.rule.when is not None]
    conditions = [one.rule.when for one in blocks]
    if len(blocks) < 2 or any(isinstance(o.rule, BlockRule) and o.rule.when is None for o in about):
        return
    if ruled_out(*((when, FAILS) for when in conditions if when is not None), effort=effort):
        last = blocks[-1]
        others = " and ".join(one.line(last) for one in blocks[:-1])
        message = f"with {others} this blocks every call of {quote(tool)}"
        yield at_word(last.source, None, message, f"write: block {tool}")


def _between(first: LocatedRule, later: LocatedRule, effort: Effort) -> Iterator[tuple[Problem, str]]:
    """Overlaps of two rules about one tool, each with the key of the rule that it is about."""
    for one, other in ((first, later), (later, first)):
        if isinstance(other.rule, BlockRule) and other.rule.when is not None:
            is_block = isinstance(one.rule, BlockRule)
            mutual = is_block and one is first and covers(one.rule.when, other.rule.when, effort)
            if not mutual and covers(other.rule.when, one.rule.when, effort):
                yield _redundant(one, other), one.key
                return
    match first.rule, later.rule:
        case BlockRule(when=None), BlockRule():
            yield _redundant(later, first), later.key
        case BlockRule(), BlockRule(when=None):
            yield _redundant(first, later), first.key
        case ApprovalRule() as one, ApprovalRule() as other:
            yield from _asked_twice(first, one, later, other, effort)
        case _:
            return


def _redundant(one: LocatedRule, block: LocatedRule) -> Problem:
    message = "this rule has no effect: all of its calls are blocked"
    return at_word(one.source, None, message, f"by {block.brief(one)}: remove one of the two")


def _asked_twice(
    first: LocatedRule, one: ApprovalRule, later: LocatedRule, other: ApprovalRule, effort: Effort
) -> Iterable[tuple[Problem, str]]:
    narrows = covers(one.when, other.when, effort)
    widens = covers(other.when, one.when, effort)
    if narrows and widens:
        differ = [words for name, words in _OPTIONS.items() if getattr(one, name) != getattr(other, name)]
        difference = f" with {' and '.join(differ)}" if differ else ""
        message = f"{first.line(later)} asks about the same calls{difference}: each is asked for twice"
        yield at_word(later.source, None, message, "keep one of the two"), later.key
    elif narrows or widens:
        narrow, wide = (later, first) if narrows else (first, later)
        message = f"{wide.line(narrow)} asks about these calls too: each is asked for twice"
        remedy = "if one question is enough, add 'when not …' to the other rule"
        yield at_word(narrow.source, None, message, remedy), narrow.key
