"""The rule that maps of a shell field imply: commands that cannot be analysed need approval (G-64).

A map to a name that a rule restricts promises that commands of that kind are caught. For a command that
cannot be analysed completely, the promise holds only if an operator looks at it. So, unless the rules
mention `unclear`, they are compiled with `require human-approval before unclear` for the tools of such
maps. Such a command may have any of those names, so it needs approval on the strictest terms of any of
them. A written rule on `unclear` replaces the implied one; if it requires less, there is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..engine.core.durations import as_typed
from ..engine.core.rule import (
    UNCLEAR,
    ApprovalRule,
    BlockRule,
    Rule,
    RuleSource,
    always,
    is_weaker_approval,
    restricted,
    strictest,
    watched,
)
from .errors.problems import Problem, quote
from .naming import is_shell_field, tools_named
from .parse.lines import code, head
from .parse.statements import HUMAN, Allowance, Map

_SHOWN_MAPS = 6


def implied_rule(
    maps: Iterable[Map], rules: Sequence[Rule], allowances: Iterable[Allowance]
) -> tuple[ApprovalRule | None, frozenset[str] | None]:
    """The implied rule, if any, and its tools; `None` for all tools that have maps.

    A rule that names `unclear` is for all tools, and replaces the implied one.
    """
    if speaks_of_unclear(rules):
        return None, None
    allowed = {allowance.tool for allowance in allowances}
    found = {tool: of_tool for tool, of_tool in _risky_maps(maps, rules).items() if tool not in allowed}
    if not found:
        return None, None
    every = [m for of_tool in found.values() for m in of_tool]
    first = every[0].source
    rule = _needed(every, rules)
    text = f"{_written(rule)} (implied by {_fields(every)})"
    source = RuleSource(first.file, first.line, 1, text, implied=True)
    return replace(rule, source=source), frozenset(found)


def _needed(maps: Iterable[Map], rules: Iterable[Rule]) -> ApprovalRule:
    """Rule on unclear calls that is as strict as any on a name of these maps."""
    names = {m.name for m in maps}
    found = strictest(rule for rule in rules if not names.isdisjoint(watched(rule)))
    return ApprovalRule(UNCLEAR) if found is None else replace(found, tool=UNCLEAR)


def _written(rule: ApprovalRule) -> str:
    """An approval rule as written in rules files."""
    needed = HUMAN if rule.people == 1 else f"{rule.people} {HUMAN}s"
    options = (
        "" if rule.within is None else f" within {as_typed(rule.within)}",
        "" if rule.risk is None else f" risk {rule.risk}",
        "" if rule.grants else " no grants",
        "" if rule.approvers is None else f" {rule.approvers.words}",
    )
    return f"require {needed} before {rule.tool}{''.join(options)}"


def speaks_of_unclear(rules: Iterable[Rule]) -> bool:
    """Return whether a rule names `unclear`."""
    return any(UNCLEAR in tools_named(rule) for rule in rules)


def _risky_maps(maps: Iterable[Map], rules: Iterable[Rule]) -> Mapping[str, Sequence[Map]]:
    """By tool, the maps of shell fields to a name that a rule restricts."""
    names = frozenset(name for rule in rules for name in watched(rule))
    shell = {(m.tool, m.field) for m in maps if m.shell or is_shell_field(m.field)}
    found: dict[str, list[Map]] = {}
    for m in maps:
        if (m.tool, m.field) in shell and m.name in names:
            found.setdefault(m.tool, []).append(m)
    return found


def _fields(maps: Sequence[Map]) -> str:
    """`the maps of bash.command`, and how many other fields have maps."""
    first, *others = dict.fromkeys(f"{m.tool}.{m.field}" for m in maps)
    more = f" and {len(others)} more field{'' if len(others) == 1 else 's'}" if others else ""
    return f"the {'map' if len(maps) == 1 else 'maps'} of {first}{more}"


def about_allowances(
    maps: Sequence[Map], rules: Sequence[Rule], allowances: Iterable[Allowance]
) -> Iterator[Problem]:
    """Warning about each `allow unclear`: what it lets through, or why it has no effect."""
    risky = _risky_maps(maps, rules)
    ruled = speaks_of_unclear(rules)
    reported: set[str] = set()
    for allowance in allowances:
        tool = allowance.tool
        if ruled:
            message = f"{quote(tool)} is not allowed by this line: a rule says what {UNCLEAR} calls need"
            yield _at_tool(allowance, message, "remove this line, or the rule")
        elif tool in reported:
            yield _at_tool(allowance, f"{quote(tool)} is allowed twice", "remove this line")
        elif tool not in risky:
            message = f"no map of a shell field of {quote(tool)} leads to a restricted name"
            yield _at_tool(allowance, message, "remove this line: it allows what needs no approval")
        else:
            names = list(dict.fromkeys(m.name for m in risky[tool]))
            names_text = " or ".join(map(quote, names[:_SHOWN_MAPS]))
            more = "" if len(names) <= _SHOWN_MAPS else f" or {len(names) - _SHOWN_MAPS} more"
            message = (
                f"calls of {quote(tool)} that cannot be read pass without approval, "
                f"although they may be {names_text}{more}"
            )
            remedy = f"without this line they need approval before '{UNCLEAR}'"
            yield _at_tool(allowance, message, remedy)
        reported.add(tool)


def _at_tool(allowance: Allowance, message: str, remedy: str) -> Problem:
    source = allowance.source
    at = source.text.index(allowance.tool, source.text.index(UNCLEAR) + len(UNCLEAR))
    length = len(allowance.tool)
    return Problem(source.file, source.line, at + 1, length, source.text, message, remedy)


def about_rules(maps: Sequence[Map], rules: Sequence[Rule]) -> Iterator[Problem]:
    """A warning if rules on `unclear` require less than those on the names that an unclear call may have.

    It is at the rule on `unclear` that comes closest, and names a rule that requires more.
    """
    about = [rule for rule in rules if restricted(rule) == UNCLEAR]
    found: list[tuple[Sequence[Map], ApprovalRule | None]] = []
    for tool, of_tool in _risky_maps(maps, rules).items() if about else ():
        approvals = [r for r in rules if restricted(r) in (UNCLEAR, tool) and always(r)]
        strictest_rule = strictest(approvals)
        blocked = any(isinstance(rule, BlockRule) for rule in approvals)
        if not blocked and is_weaker_approval(strictest_rule, _needed(of_tool, rules)):
            found.append((of_tool, strictest_rule))
    if not found:
        return
    asking = (rule for rule in about if always(rule) and isinstance(rule, ApprovalRule))
    nearest = next(asking, about[0])
    if nearest.source is not None:
        every = [m for of_tool, _ in found for m in of_tool]
        yield _asks_less(nearest.source, found[0][1], every, rules)


def _asks_less(
    source: RuleSource, approval: ApprovalRule | None, maps: Sequence[Map], rules: Iterable[Rule]
) -> Problem:
    """Warning at a rule on `unclear`; `approval` is what calls of these maps require."""
    names = {m.name for m in maps}
    on_names = [rule for rule in rules if not names.isdisjoint(watched(rule))]
    stricter = (r for r in on_names if isinstance(r, ApprovalRule) and is_weaker_approval(approval, r))
    guard = next(stricter, on_names[0])
    name = next(name for name in watched(guard) if name in names)
    tool = next(m.tool for m in maps if m.name == name)
    may_be = f"a call of {quote(tool)} that cannot be read may be {quote(name)}"
    difference = (
        "requires less than" if approval is not None else "may pass without approval, in spite of"
    )
    message = f"{may_be}, and {difference} {_where(guard, source)}"
    remedy = f"write: {_written(_needed(maps, rules))}"
    at = max(head(source.text).rfind(UNCLEAR), source.column - 1)
    return Problem(source.file, source.line, at + 1, len(UNCLEAR), source.text, message, remedy)


def _where(rule: Rule, source: RuleSource) -> str:
    """`line 4 (block rm)`, or with its file if that is another one."""
    if rule.source is None:
        return "another rule"
    is_same_file = rule.source.file == source.file
    line = f"line {rule.source.line}" if is_same_file else rule.source.where
    return f"{line} ({code(rule.source.text).strip()})"
