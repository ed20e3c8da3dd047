"""What is found when rules are judged together: errors, warnings, and what each tool takes.

A rule that compiles can still be wrong beside others: two rules that each wait for the other, a limit
nobody can reach, a map in another's shadow. Only what is proved is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from ..engine.rule import BlockRule, LimitRule, Rule, SequenceRule
from ..engine.verify import Answer, Effort, Most, Never, Together, vocabulary
from .advice import at_word
from .logic import covers
from .mentions import mentions
from .names import SHELL_FIELDS, tools_named
from .overlaps import overlaps
from .placed import Placed
from .problems import Problem, quote
from .ruleset import RuleSet
from .statements import SESSION, Map

REDUNDANCY_EFFORT = 400_000
"""What looking for redundant rules may cost in all; those not looked at by then are not reported."""

_SHOWN_RULES = 6


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """One gated tool: the shortest way to it, and the most calls a session can make.

    `blocked` is the `block` rule about all of its calls, if there is one.
    """

    name: str
    way: Answer
    most: Most
    blocked: Rule | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """Errors and warnings in the order of the rules, and every gated tool."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    tools: tuple[ToolFinding, ...]


def examine(rules: RuleSet, tools: Collection[str] | None = None) -> Findings:
    """Judge all rules together. `tools` are the tools that exist; without it any may."""
    maps = _maps(rules)
    together = Together(rules.registry, words=vocabulary(rules.nets, tools))
    placed = [
        Placed(key, net.rule, net.rule.source)
        for key, net in rules.registry.items()
        if net.rule is not None and net.rule.source is not None
    ]
    blocks = {
        p.rule.tool: p for p in reversed(placed) if isinstance(p.rule, BlockRule) and p.rule.when is None
    }
    names = list(dict.fromkeys(p.gated for p in placed))
    found = {
        name: ToolFinding(
            name,
            together.way(name),
            together.most(name),
            blocks[name].rule if name in blocks else None,
        )
        for name in names
    }
    errors = [*_unreachable(found, placed)]
    warnings = [
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
            limit = _about_limit(one, one.rule, together, placed, found, blocks)
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


def _maps(rules: RuleSet) -> list[Map]:
    from .syntax import parse

    return [
        statement
        for file, text in rules.sources.items()
        for statement in parse(text, file)[0]
        if isinstance(statement, Map)
    ]


def _unreachable(found: dict[str, ToolFinding], placed: Sequence[Placed]) -> Iterable[Problem]:
    """One error for all tools that the same rules make impossible, though none blocks them."""
    by_key = {p.key: p for p in placed}
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, tool in found.items():
        if tool.blocked is None and isinstance(tool.way, Never) and tool.way.nets:
            groups.setdefault(tool.way.nets, []).append(name)
    for keys, names in groups.items():
        against = [by_key[key] for key in keys]
        first = next((p for p in against if names[0] == p.gated), against[0])
        shown = " and ".join(map(quote, names))
        message = (
            f"{shown} can never be called, though no rule blocks {'it' if not names[1:] else 'them'}"
        )
        if len(against) == 1:
            needed = [t for t in tools_named(first.rule) if t not in names]
            remedy = f"there is no call to {' or '.join(map(quote, needed))}" if needed else ""
            remedy = remedy or "no call meets this rule"
        else:
            rest = [p for p in against if p is not first]
            listed = ", ".join(p.brief(first) for p in rest[:_SHOWN_RULES])
            more = f" and {len(rest) - _SHOWN_RULES} more" if len(rest) > _SHOWN_RULES else ""
            remedy = f"forbidden together with {listed}{more}: change one of them"
        yield at_word(first.source, None, message, remedy)


def _unmet(rule: Placed, block: Placed) -> Problem:
    tool = rule.gated
    message = f"no call can ever meet this rule: {quote(tool)} is blocked"
    apart = block.source.file != rule.source.file
    remedy = "right if they are not active together" if apart else "remove one of the two"
    return at_word(rule.source, None, message, f"by {block.brief(rule)}: {remedy}")


def _about_limit(
    limit: Placed,
    rule: LimitRule,
    together: Together,
    placed: Sequence[Placed],
    found: dict[str, ToolFinding],
    blocks: dict[str, Placed],
) -> tuple[bool, Problem] | None:
    """A limit that never counts or is never refilled; the first says whether that is an error."""
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
    for other in placed if rule.window is not None else ():
        if other.key != limit.key and _tighter(other.rule, rule):
            message = "this limit is redundant beside a tighter one"
            return False, at_word(limit.source, None, message, f"that is in {other.brief(limit)}")
    bound = together.bound(rule.tool, without=limit.key)
    # Where none is left, a block covers all that the limit is about, which is said of it already.
    if bound == inf or bound > rule.limit or bound == 0:
        return None
    for other in placed:
        match other.rule:
            case LimitRule(rule.tool, smaller, "session", when=None) if smaller < rule.limit:
                message = "this limit is redundant beside a smaller one"
                remedy = f"that is in {other.brief(limit)}: remove the larger"
                return False, at_word(limit.source, None, message, remedy)
            case _:
                pass
    times = f"at most {int(bound):,} time{'' if bound == 1 else 's'}"
    if bound == rule.limit:
        message = f"this limit is redundant: other rules let {quote(rule.tool)} be called {times}"
        return False, at_word(limit.source, None, message, "remove it, unless they may change")
    message = f"this limit can never be reached: other rules let {quote(rule.tool)} be called {times}"
    return True, at_word(limit.source, str(rule.limit), message, "lower it, or remove it")


def _tighter(other: Rule, rule: LimitRule) -> bool:
    """Whether a limit allows no more calls in no less time, wherever `rule` applies."""
    match other, rule.window:
        case LimitRule(rule.tool, fewer, window=float() | int() as longer), float() | int() as window:
            same = (fewer, longer) == (rule.limit, window)
            return not same and fewer <= rule.limit and longer >= window and covers(other.when, rule.when)
        case _:
            return False


def _repeated(placed: Sequence[Placed]) -> set[str]:
    """Keys of rules that stand more than once; `advise` has warned of them."""
    keys: dict[Rule, list[str]] = {}
    for one in placed:
        keys.setdefault(replace(one.rule, source=None), []).append(one.key)
    return {key for same in keys.values() if len(same) > 1 for key in same}


def _hidden(maps: Sequence[Map]) -> Iterable[Problem]:
    """Maps that an earlier one repeats, or in a shell command always forestalls (G-51)."""
    earlier: dict[tuple[str, str], list[Map]] = {}
    for m in maps:
        before = earlier.setdefault((m.tool, m.field), [])
        shell = m.field in SHELL_FIELDS or m.shell
        for other in before:
            same = other.pattern == m.pattern
            apart = other.source.file != m.source.file
            where = other.source.where if apart else f"line {other.source.line}"
            if same and other.name == m.name:
                # Files that are also used apart each need their maps, and it does no harm.
                if not apart:
                    yield at_word(m.source, None, f"the same map as in {where}", "remove one")
                break
            if shell and (same or _forestalls(other, m)):
                message = "this map never counts: an earlier one meets all that it meets"
                yield at_word(m.source, None, message, f"put it before {where}")
                break
        before.append(m)


def _forestalls(first: Map, later: Map) -> bool:
    """Whether a bare word stands, as a word of its own, inside every match of a longer bare word."""
    short, long = first.pattern, later.pattern
    words = not short.text.startswith("/") and not long.text.startswith("/")
    plain = short.text.replace("-", "").isalnum() and short.text[0] != "-" != short.text[-1]
    return words and plain and short.text.isascii() and short.search(long.text)


def _unknown(
    placed: Iterable[Placed], maps: Sequence[Map], tools: Collection[str] | None
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
            yield at_word(m.source, f"{m.tool}.", message, _meant(close))
    for one in placed:
        for name in tools_named(one.rule):
            if name in known or (name.partition(".")[0] in tools and "." in name):
                continue
            message = f"{quote(name)} is neither mapped nor among the tools"
            close = get_close_matches(name, sorted(known), n=1)
            yield at_word(one.source, name, message, _meant(close))


def _meant(close: Sequence[str]) -> str:
    return f"did you mean {quote(close[0])}?" if close else "add it to the tools, or map it"
