"""Warnings: rules that compile but probably do not say what their author means (G-43)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import get_args

from ...engine.core.condition import Compare, comparisons, sources_of
from ...engine.core.rule import RESERVED, UNCLEAR, LimitRule, Rule, RuleSource, SequenceRule
from ...engine.core.sanitize import folded_name
from ...engine.core.sources import source_parts
from ..errors.fault import closest
from ..errors.problems import Problem, quote
from ..naming import is_shell_field, tools_named
from ..parse.durations import nearest_duration
from ..parse.lines import code, head
from ..parse.statements import HUMAN, SESSION, Allowance, Let, Map, Sources, Statement
from ..unclear import about_allowances, about_rules

_STRAY_ENDS = ",;:'\""
_RESERVED = sorted(RESERVED)
_SHOWN_NAMES = 6
_NEAR_MISS = 0.85
"""Similarity with a word of the language at which a name is considered a misspelling of it."""

_QUOTED = re.compile(r"""(["']).+\1""")


def advise(statements: Sequence[Statement]) -> list[Problem]:
    """Warnings about rules that compile, in the order of the statements."""
    maps = [s for s in statements if isinstance(s, Map)]
    allowances = [s for s in statements if isinstance(s, Allowance)]
    rules = [s for s in statements if not isinstance(s, Map | Allowance | Let)]
    named = {
        (rule.source.file, name)
        for rule in rules
        if rule.source and rule.when
        for part in comparisons(rule.when)
        for name in _names(part)
    }
    used = {tool for rule in rules for tool in tools_named(rule)}
    allowed = about_allowances(maps, rules, allowances)
    lesser = {(problem.file, problem.line): problem for problem in about_rules(maps, rules)}
    misspelt = _like_reserved(used - {m.name for m in maps})
    sources: dict[object, RuleSource] = {}
    warnings: list[Problem] = []
    for statement in statements:
        if isinstance(statement, Allowance):
            warnings.append(next(allowed))
        elif isinstance(statement, Let):
            if (statement.source.file, statement.name) not in named:
                message = f"no condition of this file says {quote(statement.name)}"
                use = "not from" if isinstance(statement.value, Sources) else "in"
                remedy = f"use it, as in 'when input.<field> {use} <name>', or remove the line"
                warnings.append(at_word(statement.source, statement.name, message, remedy))
        elif isinstance(statement, Map):
            if statement.name not in used:
                warnings.append(_unused(statement, maps, used))
            if _QUOTED.fullmatch(statement.pattern.text):
                warnings.append(_quoted(statement))
        elif statement.source is not None:
            tools = tuple(dict.fromkeys(tools_named(statement)))
            if UNCLEAR in tools and not maps:
                message = "no call is ever unclear: no map says which fields have to be read"
                warnings.append(at_word(statement.source, UNCLEAR, message, "map a field of a tool"))
            if (statement.source.file, statement.source.line) in lesser:
                warnings.append(lesser[statement.source.file, statement.source.line])
            for name in tools:
                if name in misspelt:
                    warnings.append(_misspelt(name, misspelt[name], statement.source))
            warnings += _about_rule(statement, statement.source, tools, sources)
            warnings += _mapped_sources(statement, statement.source, maps)
    return warnings


def _names(part: Compare) -> Iterator[str]:
    """Names of `let` lines that a comparison may use."""
    if part.name is not None:
        yield from map(str.strip, part.name.split(",")) if part.operator == "from" else (part.name,)


def _mapped_sources(rule: Rule, source: RuleSource, maps: Sequence[Map]) -> Iterator[Problem]:
    """Sources that only maps give. A command may print anything, so results count by tools' own names."""
    for part in comparisons(rule.when) if rule.when is not None else ():
        for name in sorted({source_parts(each)[1] for each in sources_of(part)}):
            m = next((m for m in maps if m.name == name and m.tool != name), None)
            if m is not None:
                message = f"{quote(name)} is a name that a map gives some calls of {quote(m.tool)}"
                remedy = "results belong to the tool that returned them: name a tool"
                yield at_word(source, name, message, remedy)


def _unused(m: Map, maps: Sequence[Map], used: Collection[str]) -> Problem:
    """A map to a name that no rule uses: its side effect, or that it has none (G-51)."""
    matching = _kept_from_matching(m, maps, used)
    if matching:
        names = matching if len(matching) <= _SHOWN_NAMES else matching[: _SHOWN_NAMES - 1]
        more = f" and {len(matching) - len(names)} more" if len(matching) > len(names) else ""
        names_text = ", ".join(map(quote, names)) if more else _listed(names)
        message = f"this map, which no rule names, keeps {names_text}{more} from matching"
        remedy = "the first map that a command matches wins: move it below them, or add a rule for it"
        return at_word(m.source, m.name, message, remedy)
    if not RESERVED.isdisjoint(used):
        # The map names the tool for `anything-else`, and its field must then be analysed for `unclear`.
        message = f"no rule names {quote(m.name)}: the map only says that {quote(m.tool)} is known"
        return at_word(m.source, m.name, message, "add a rule for it unless that is what it is for")
    message = f"no rule names {quote(m.name)}, so this map has no effect"
    return at_word(m.source, m.name, message, "add a rule for it, or remove the map")


def _listed(names: Sequence[str]) -> str:
    *others, last = map(quote, names)
    return f"{', '.join(others)} and {last}" if others else last


def _kept_from_matching(m: Map, maps: Sequence[Map], used: Collection[str]) -> list[str]:
    """Names in rules that later maps give to commands which also match this map."""
    alike = [other for other in maps if (other.tool, other.field) == (m.tool, m.field)]
    if not (is_shell_field(m.field) or any(other.shell for other in alike)):
        return []
    below = [other.name for other in alike[alike.index(m) + 1 :] if other.name in used]
    return [name for name in dict.fromkeys(below) if name != m.name]


def _quoted(m: Map) -> Problem:
    pattern = m.pattern.text
    message = f"the map looks for {pattern} with the quotes around it"
    field = f"{m.tool}.{m.field}"
    at = m.source.text.index(pattern, m.source.text.index(field) + len(field))
    remedy = "leave them out unless the text has them"
    return Problem(m.source.file, m.source.line, at + 1, len(pattern), m.source.text, message, remedy)


def _about_rule(
    rule: Rule, source: RuleSource, tools: Iterable[str], sources: dict[object, RuleSource]
) -> list[Problem]:
    found: list[Problem] = []
    first = sources.setdefault(meaning(rule), source)
    if first is not source:
        place = f"{first.file}:{first.line}" if first.file != source.file else f"line {first.line}"
        found.append(
            at_word(source, None, f"the same rule as in {place}", "it is checked twice: remove one")
        )
    for tool in tools:
        if len(tool) > 1 and tool[-1] in _STRAY_ENDS:
            message = f"the tool's name is taken to be {quote(tool)}, with the {tool[-1]} at its end"
            found.append(at_word(source, tool, message, "remove it unless the name has it"))
    match rule:
        case SequenceRule():
            found += _about_sequence(rule, source)
        case LimitRule(window=None) if rule.scope != SESSION:
            like = _like_session(rule.scope) or nearest_duration(rule.scope)
            if like is not None:
                message = f"{quote(rule.scope)} is taken as a tool whose success restores the budget"
                found.append(at_word(source, rule.scope, message, f"did you mean '{like}'?"))
        case _:
            pass
    return found


def _like_session(scope: str) -> str | None:
    """`session`, if a word is probably a misspelling of it."""
    is_same = scope.lower().strip("s") == SESSION.strip("s")
    return SESSION if is_same or closest(scope, [SESSION], _NEAR_MISS) is not None else None


def _like_reserved(names: Iterable[str]) -> dict[str, str]:
    """Names that are probably misspellings of reserved ones, with the reserved name (G-64, G-66)."""
    found: dict[str, str] = {}
    for name in names:
        plain = folded_name(name).replace("_", "-")
        close = None if name in RESERVED else closest(plain, _RESERVED, _NEAR_MISS)
        if close is not None:
            found[name] = close
    return found


def _misspelt(name: str, reserved: str, source: RuleSource) -> Problem:
    return at_word(
        source, name, f"{quote(name)} is taken as a tool's name", f"did you mean '{reserved}'?"
    )


def _about_sequence(rule: SequenceRule, source: RuleSource) -> list[Problem]:
    found: list[Problem] = []
    if rule.prerequisite == rule.dependent:
        message = f"a rule that requires {quote(rule.dependent)} before itself never blocks"
        found.append(at_word(source, rule.dependent, message, "name two different tools"))
    if rule.dependent == HUMAN:
        message = f"'{HUMAN}' is taken as a tool's name here"
        found.append(at_word(source, HUMAN, message, f"write it first: require {HUMAN} before <tool>"))
    for name in rule.prerequisites:
        plain = name.lower().replace("_", "-").rstrip("s")
        if plain in {HUMAN, "approval", "human"} or closest(plain, [HUMAN], _NEAR_MISS) is not None:
            message = f"{quote(name)} is taken as a tool's name here"
            found.append(at_word(source, name, message, f"did you mean '{HUMAN}'?"))
    return found


_MEANING = {
    kind: attrgetter(*(each.name for each in fields(kind) if each.name not in {"source", "because"}))
    for kind in get_args(Rule)
}


def meaning(rule: Rule) -> object:
    """Key that is equal for rules with the same meaning.

    It ignores position and reason, and treats `per 60m` like `per 1h`.
    """
    if isinstance(rule, LimitRule) and rule.window is not None:
        rule = replace(rule, scope=SESSION)
    return type(rule), _MEANING[type(rule)](rule)


def at_word(source: RuleSource, word: str | None, message: str, remedy: str) -> Problem:
    """A warning at the last `word` before a condition, or at the whole rule."""
    start = source.column - 1
    if word is not None:
        start = max(head(source.text).rfind(word), start)
    length = len(code(source.text)) - start if word is None else len(word)
    return Problem(source.file, source.line, start + 1, length, source.text, message, remedy)


# Maps by which mentioning a command unlocks what only running it should.  A map matches anywhere in a
# command unless its pattern is anchored. For calls that are blocked or need approval this is right: `sudo
# rm` is `rm`. It is wrong for a name whose success unlocks something: `echo ./test` succeeds too.


_ANCHOR = re.compile(r"\^|\\A|\\B")


def mentions(rules: Iterable[Rule], maps: Sequence[Map]) -> Iterable[Problem]:
    """A warning for every map of a shell command that an `echo` can match, and so unlock a tool."""
    unlocks: dict[str, str] = {}
    for rule in rules:
        match rule:
            case SequenceRule(dependent=dependent):
                for name in rule.prerequisites:
                    if name != dependent:
                        unlocks.setdefault(name, dependent)
            case LimitRule(tool, _, scope, window=None) if scope != SESSION:
                unlocks.setdefault(scope, tool)
            case _:
                pass
    for m in maps:
        shell = m.shell or is_shell_field(m.field)
        if shell and m.name in unlocks and _anywhere(m):
            pattern = m.pattern.text
            word = not pattern.startswith("/")
            command = f"echo {pattern}" if word else "a command that only mentions it"
            message = f"{quote(command) if word else command} counts as {quote(m.name)} too, and unlocks "
            message += quote(unlocks[m.name])
            start = rf"/^{_escaped(pattern)}(\s|$)/" if word else "a pattern that begins with ^"
            remedy = f"write {start} to look only where a command begins"
            yield at_word(m.source, pattern, message, remedy)


def _anywhere(m: Map) -> bool:
    """Return whether the pattern matches at any position. Only a regular expression can be anchored."""
    text = m.pattern.text
    return not text.startswith("/") or _ANCHOR.search(text) is None


def _escaped(word: str) -> str:
    return re.escape(word).replace("/", r"\/").replace(r"\-", "-").replace("#", "x23")
