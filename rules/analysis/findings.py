"""Findings about rules that are judged together: errors, warnings, and the results for each tool.

Rules that compile can still be wrong together: two rules that each wait for the other, a limit that
cannot be reached, a map shadowed by another. Only proven problems are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from ...engine.core.approvers import Operators
from ...engine.core.condition import condition_text
from ...engine.core.rule import RESERVED, BlockRule, LimitRule, Rule, RuleSource, SequenceRule, always
from ...engine.verify import Answer, Effort, Most, Never, Together
from ...engine.verify.vocabulary import vocabulary
from ..errors.problems import Problem, quote
from ..naming import is_shell_field, tools_named
from ..parse.lines import head
from ..parse.statements import SESSION, Map
from ..ruleset import RuleSet
from .approvers import ApproverFindings, about_approvers
from .condition_logic import covers
from .lint import at_word, meaning, mentions
from .located_rule import LocatedRule
from .overlaps import overlaps

REDUNDANCY_EFFORT = 400_000
"""Total effort of the search for redundant rules; rules not examined within it are not reported."""

COMPARING_EFFORT = 400_000
"""Total effort of comparing the conditions of limits and blocks; the rest is not reported."""

_SHOWN_RULES = 6


@dataclass(frozen=True, slots=True)
class Within:
    """Shortest way to a call that meets the condition of a rule, by its net's key and as written."""

    net: str
    when: str
    way: Answer


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """One gated tool: the shortest way to it, and the most calls that a session can make.

    `blocked` is the `block` rule that covers all of its calls, if any. `within` has the ways under the
    conditions of all other rules about it; it is empty for a tool that can never be called.
    """

    name: str
    way: Answer
    most: Most
    blocked: Rule | None = None
    within: tuple[Within, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """Errors and warnings in the order of the rules, and every gated tool."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    tools: tuple[ToolFinding, ...]


def examine(
    rules: RuleSet, tools: Collection[str] | None = None, operators: Operators | None = None
) -> Findings:
    """Judge all rules together. `tools` are the existing tools; without it any tool may exist.

    `operators` are those whose approvals rules may require, if known.
    """
    maps = _maps(rules)
    together = Together(rules.registry, words=vocabulary(rules.nets, tools))
    placed = [
        LocatedRule(key, net.rule, net.rule.source)
        for key, net in rules.registry.items()
        if net.rule is not None and net.rule.source is not None
    ]
    blocks = {
        p.rule.tool: p for p in reversed(placed) if isinstance(p.rule, BlockRule) and always(p.rule)
    }
    by_tool: dict[str, list[LocatedRule]] = {}
    for one in placed:
        by_tool.setdefault(one.gated, []).append(one)
    found = {
        name: _about_tool(name, about, together, blocks.get(name)) for name, about in by_tool.items()
    }
    comparing = Effort(COMPARING_EFFORT)
    approvers = ApproverFindings()
    if operators is not None:
        approvers = about_approvers((net.rule for net in rules.nets), operators)
    errors = [
        *_unreachable(found, placed),
        *_never_within(found, placed, comparing),
        *approvers.errors,
    ]
    warnings = [
        *approvers.warnings,
        *rules.warnings,
        *_hidden(maps),
        *mentions((p.rule for p in placed), maps),
        *_unknown(placed, maps, tools),
        *overlaps(placed),
    ]
    effort = Effort(REDUNDANCY_EFFORT)
    duplicates = _repeated(placed)
    for one in placed:
        if one.key in duplicates:
            continue
        against = blocks.get(one.gated)
        if isinstance(one.rule, BlockRule):
            continue
        if against is not None:
            same_file = against.source.file == one.source.file
            (errors if same_file else warnings).append(_unmet(one, against))
            continue
        if isinstance(one.rule, LimitRule):
            limit = _about_limit(one, one.rule, together, by_tool[one.gated], found, blocks, comparing)
            if limit is not None:
                (errors if limit[0] else warnings).append(limit[1])
        elif (
            isinstance(one.rule, SequenceRule)
            and one.rule.prerequisite != one.rule.dependent
            and not isinstance(found[one.rule.dependent].way, Never)
            and effort.left > 0
            and together.redundant(one.key, effort)
        ):
            message = "this rule is redundant: the others already block all that it blocks"
            warnings.append(at_word(one.source, None, message, "remove it, unless they may change"))
    order = {file: position for position, file in enumerate(rules.sources)}

    def place(problem: Problem) -> tuple[int, int]:
        return order.get(problem.file, 0), problem.line

    return Findings(
        tuple(sorted(errors, key=place)), tuple(sorted(warnings, key=place)), tuple(found.values())
    )


def _about_tool(
    name: str, about: Sequence[LocatedRule], together: Together, block: LocatedRule | None
) -> ToolFinding:
    way = together.way(name)
    closed = isinstance(way, Never)
    within = tuple(
        Within(one.key, condition_text(one.rule.when), together.way_within(one.key))
        for one in about
        if not closed and one.rule.when is not None and not isinstance(one.rule, BlockRule)
    )
    return ToolFinding(name, way, together.most(name), block.rule if block else None, within)


def _maps(rules: RuleSet) -> list[Map]:
    from ..parse.syntax import parse

    return [
        statement
        for file, text in rules.sources.items()
        for statement in parse(text, file)[0]
        if isinstance(statement, Map)
    ]


def _unreachable(found: dict[str, ToolFinding], placed: Sequence[LocatedRule]) -> Iterable[Problem]:
    """One error for all tools that the same rules make impossible although none blocks them."""
    by_key = {p.key: p for p in placed}
    groups: dict[tuple[str, ...], list[str]] = {}
    implied = {p.gated for p in placed if p.source.implied}
    for name, tool in found.items():
        if name in implied:
            # No rule says that it can be called.
            continue
        if tool.blocked is None and isinstance(tool.way, Never) and tool.way.nets:
            groups.setdefault(tool.way.nets, []).append(name)
    for keys, names in groups.items():
        against = [by_key[key] for key in keys]
        if all(isinstance(p.rule, BlockRule) and p.gated in names for p in against):
            # Blocked under opposite conditions, which `overlaps` reports.
            continue
        first = next((p for p in against if names[0] == p.gated), against[0])
        names_text = " and ".join(map(quote, names))
        message = (
            f"{names_text} can never be called, though no rule blocks {'it' if not names[1:] else 'them'}"
        )
        yield at_word(first.source, None, message, _forbidden(first, against, names))


def _forbidden(first: LocatedRule, against: Sequence[LocatedRule], names: Collection[str]) -> str:
    """Remedy, shown at `first`, if the rules `against` calls of `names` forbid them together."""
    others = [p for p in against if p is not first]
    if not others:
        needed = [t for t in tools_named(first.rule) if t not in names]
        remedy = f"there is no call to {' or '.join(map(quote, needed))}" if needed else ""
        return remedy or "no call meets this rule"
    listed = ", ".join(p.brief(first) for p in others[:_SHOWN_RULES])
    more = f" and {len(others) - _SHOWN_RULES} more" if len(others) > _SHOWN_RULES else ""
    return f"forbidden together with {listed}{more}: change one of them"


def _never_within(
    found: Mapping[str, ToolFinding], placed: Sequence[LocatedRule], effort: Effort
) -> Iterable[Problem]:
    """An error for each condition under which a tool can never be called, one for each set of rules."""
    by_key = {p.key: p for p in placed}
    for name, tool in found.items():
        reported: set[tuple[str, ...]] = set()
        for within in tool.within:
            way = within.way
            if not isinstance(way, Never) or not way.nets or way.nets in reported:
                continue
            one, against = by_key[within.net], [by_key[net] for net in way.nets]
            if any(_takes_all(other, one, effort) for other in against):
                # All calls of the rule are blocked, which `overlaps` reports.
                continue
            reported.add(way.nets)
            first = one if one in against else next((p for p in against if p.gated == name), one)
            message = f"no call of {quote(name)} that meets this condition is ever possible"
            yield at_word(first.source, None, message, _forbidden(first, against, (name,)))


def _takes_all(block: LocatedRule, one: LocatedRule, effort: Effort) -> bool:
    """Return whether a rule blocks every call to which another applies."""
    return (
        isinstance(block.rule, BlockRule)
        and block.rule.after is None
        and block.gated == one.gated
        and covers(block.rule.when, one.rule.when, effort)
    )


def _unmet(rule: LocatedRule, block: LocatedRule) -> Problem:
    tool = rule.gated
    message = f"no call can ever meet this rule: {quote(tool)} is blocked"
    apart = block.source.file != rule.source.file
    remedy = "right if they are not active together" if apart else "remove one of the two"
    return at_word(rule.source, None, message, f"by {block.brief(rule)}: {remedy}")


def _about_limit(
    limit: LocatedRule,
    rule: LimitRule,
    together: Together,
    about: Sequence[LocatedRule],
    found: dict[str, ToolFinding],
    blocks: dict[str, LocatedRule],
    effort: Effort,
) -> tuple[bool, Problem] | None:
    """A limit that never counts or is never refilled; the first value says whether that is an error.

    `about` are the rules about its tool. Comparing conditions is charged to `effort`.
    """
    tool = found[rule.tool]
    if isinstance(tool.way, Never):
        return None
    if rule.scope != SESSION and rule.window is None:
        refill = found[rule.scope].way if rule.scope in found else together.way(rule.scope)
        if isinstance(refill, Never):
            block = blocks.get(rule.scope)
            message = f"this limit is never refilled: {quote(rule.scope)} can never be called"
            problem = at_word(limit.source, rule.scope, message, f"name a tool, or '{SESSION}'")
            return block is None or block.source.file == limit.source.file, problem
    if any(within.net == limit.key and isinstance(within.way, Never) for within in tool.within):
        return None
    for other in about:
        if (
            isinstance(other.rule, LimitRule)
            and other.key != limit.key
            and _tighter(other.rule, rule, effort)
        ):
            smaller = other.rule.window is None and other.rule.limit < rule.limit
            message = f"this limit is redundant beside a {'smaller' if smaller else 'tighter'} one"
            remedy = f"that is in {other.brief(limit)}{': remove the larger' if smaller else ''}"
            return False, at_word(limit.source, None, message, remedy)
    if rule.total is not None or rule.across is not None:
        return None
    bound = together.calls_bound(rule.tool, without=limit.key)
    # If no calls are left, a block covers all calls of the limit, which is reported already.
    if bound == inf or bound > rule.limit or bound == 0:
        return None
    times = f"at most {int(bound):,} time{'' if bound == 1 else 's'}"
    times += "" if rule.when is None else " where it applies"
    if bound == rule.limit:
        message = f"this limit is redundant: other rules let {quote(rule.tool)} be called {times}"
        return False, at_word(limit.source, None, message, "remove it, unless they may change")
    message = f"this limit can never be reached: other rules let {quote(rule.tool)} be called {times}"
    return True, _at_count(limit.source, rule.limit, message, "lower it, or remove it")


def _tighter(other: LimitRule, rule: LimitRule, effort: Effort) -> bool:
    """Return whether `other` is a stricter limit than `rule` wherever `rule` applies.

    It allows no more calls in no less time, and is not equal.
    """
    if other.window is not None:
        shorter = rule.window is not None and rule.window < other.window
        comparable = shorter or rule.window == other.window
    else:
        shorter = other.scope == SESSION != rule.scope
        comparable = shorter or (rule.window is None and rule.scope == other.scope)
    comparable = comparable and other.total == rule.total and other.same in (None, rule.same)
    farther = other.across != rule.across
    comparable = comparable and (not farther or rule.across is None or other.across == "everyone")
    if not comparable or other.limit > rule.limit or not covers(other.when, rule.when, effort):
        return False
    strictly = shorter or farther or other.limit < rule.limit
    return strictly or not covers(rule.when, other.when, effort)


def _at_count(source: RuleSource, count: int, message: str, remedy: str) -> Problem:
    """A problem at the number of a limit; the limit's time may contain the same digits."""
    at = max(head(source.text).rpartition("per")[0].rfind(str(count)), source.column - 1)
    return Problem(source.file, source.line, at + 1, len(str(count)), source.text, message, remedy)


def _repeated(placed: Sequence[LocatedRule]) -> set[str]:
    """Keys of rules that occur more than once, about which `advise` has warned."""
    keys: dict[object, list[str]] = {}
    for one in placed:
        keys.setdefault(meaning(one.rule), []).append(one.key)
    return {key for equal in keys.values() if len(equal) > 1 for key in equal}


def _hidden(maps: Sequence[Map]) -> Iterable[Problem]:
    """Maps that an earlier map repeats, or in a shell command always precedes (G-51)."""
    earlier: dict[tuple[str, str], list[Map]] = {}
    for m in maps:
        before = earlier.setdefault((m.tool, m.field), [])
        shell = is_shell_field(m.field) or m.shell
        for other in before:
            is_same = other.pattern == m.pattern
            apart = other.source.file != m.source.file
            place = other.source.where if apart else f"line {other.source.line}"
            if is_same and other.name == m.name:
                # Files that are also used separately each need their maps, so a repetition is harmless.
                if not apart:
                    yield at_word(m.source, None, f"the same map as in {place}", "remove one")
                break
            if shell and (is_same or _forestalls(other, m)):
                message = "this map never matches: an earlier one matches everything that it matches"
                yield at_word(m.source, None, message, f"put it before {place}")
                break
        before.append(m)


def _forestalls(first: Map, later: Map) -> bool:
    """Return whether a bare word occurs as a separate word in every match of a longer bare word."""
    short, long = first.pattern, later.pattern
    words = not short.text.startswith("/") and not long.text.startswith("/")
    plain = short.text.replace("-", "").isalnum() and short.text[0] != "-" != short.text[-1]
    return words and plain and short.text.isascii() and short.search(long.text)


def _unknown(
    placed: Iterable[LocatedRule], maps: Sequence[Map], tools: Collection[str] | None
) -> Iterable[Problem]:
    """Names in rules that are neither tools nor mapped."""
    if tools is None:
        return
    from difflib import get_close_matches

    known = {*tools, *(m.name for m in maps)}
    for m in maps:
        if m.tool not in tools:
            message = f"{quote(m.tool)} is not among the tools"
            close = get_close_matches(m.tool, sorted(tools), n=1)
            yield at_word(m.source, f"{m.tool}.", message, _suggestion(close))
    for one in placed:
        for name in tools_named(one.rule):
            if name in known or name in RESERVED or (name.partition(".")[0] in tools and "." in name):
                continue
            message = f"{quote(name)} is neither mapped nor among the tools"
            close = get_close_matches(name, sorted(known), n=1)
            yield at_word(one.source, name, message, _suggestion(close))


def _suggestion(close: Sequence[str]) -> str:
    return f"did you mean {quote(close[0])}?" if close else "add it to the tools, or map it"
