"""Warnings: rules that compile and probably do not say what their author means (G-43)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..engine.rule import LimitRule, Rule, RuleSource, SequenceRule
from .durations import meant
from .lines import code, head
from .names import tools_named
from .problems import Problem, quote
from .statements import HUMAN, SESSION, Map, Statement

_STRAY_ENDS = ",;:'\""
_QUOTED = re.compile(r"""(["']).+\1""")


def advise(statements: Sequence[Statement]) -> list[Problem]:
    """What looks wrong in rules that compile, in the order of the statements."""
    rules = [s for s in statements if not isinstance(s, Map)]
    used = {tool for rule in rules for tool in tools_named(rule)}
    seen: dict[Rule, RuleSource] = {}
    warnings: list[Problem] = []
    for statement in statements:
        if isinstance(statement, Map):
            if statement.name not in used:
                warnings.append(_unused(statement))
            if _QUOTED.fullmatch(statement.pattern.text):
                warnings.append(_quoted(statement))
        elif statement.source is not None:
            warnings += _about_rule(statement, statement.source, seen)
    return warnings


def _unused(m: Map) -> Problem:
    message = f"no rule names {quote(m.name)}, so this map has no effect"
    return at_word(m.source, m.name, message, "add a rule for it, or remove the map")


def _quoted(m: Map) -> Problem:
    pattern = m.pattern.text
    message = f"the map looks for {pattern} with the quotes around it"
    field = f"{m.tool}.{m.field}"
    at = m.source.text.index(pattern, m.source.text.index(field) + len(field))
    remedy = "leave them out unless the text has them"
    return Problem(m.source.file, m.source.line, at + 1, len(pattern), m.source.text, message, remedy)


def _about_rule(rule: Rule, source: RuleSource, seen: dict[Rule, RuleSource]) -> list[Problem]:
    found: list[Problem] = []
    first = seen.setdefault(bare(rule), source)
    if first is not source:
        where = f"{first.file}:{first.line}" if first.file != source.file else f"line {first.line}"
        found.append(
            at_word(source, None, f"the same rule as in {where}", "it is checked twice: remove one")
        )
    for tool in dict.fromkeys(tools_named(rule)):
        if len(tool) > 1 and tool[-1] in _STRAY_ENDS:
            message = f"the tool's name is taken to be {quote(tool)}, with the {tool[-1]} at its end"
            found.append(at_word(source, tool, message, "remove it unless the name has it"))
    match rule:
        case SequenceRule():
            found += _about_sequence(rule, source)
        case LimitRule(window=None) if rule.scope != SESSION:
            like = SESSION if rule.scope.lower().strip("s") == SESSION.strip("s") else meant(rule.scope)
            if like is not None:
                message = f"{quote(rule.scope)} is taken as a tool whose success restores the budget"
                found.append(at_word(source, rule.scope, message, f"did you mean '{like}'?"))
        case _:
            pass
    return found


def _about_sequence(rule: SequenceRule, source: RuleSource) -> list[Problem]:
    found: list[Problem] = []
    if rule.prerequisite == rule.dependent:
        message = f"a rule that requires {quote(rule.dependent)} before itself never blocks"
        found.append(at_word(source, rule.dependent, message, "name two different tools"))
    if rule.dependent == HUMAN:
        message = f"'{HUMAN}' is taken as a tool's name here"
        found.append(at_word(source, HUMAN, message, f"write it first: require {HUMAN} before <tool>"))
    if rule.prerequisite.lower().replace("_", "-").rstrip("s") in {HUMAN, "approval", "human"}:
        message = f"{quote(rule.prerequisite)} is taken as a tool's name here"
        found.append(at_word(source, rule.prerequisite, message, f"did you mean '{HUMAN}'?"))
    return found


def bare(rule: Rule) -> Rule:
    """A rule without its place; of two that say the same, `per 60m` and `per 1h`, both are alike."""
    alone = replace(rule, source=None)
    slides = isinstance(alone, LimitRule) and alone.window is not None
    return replace(alone, scope=SESSION) if slides else alone


def at_word(source: RuleSource, word: str | None, message: str, remedy: str) -> Problem:
    """A warning at `word`, at its last place before a condition, or at all of the rule."""
    start = source.column - 1
    if word is not None:
        start = max(head(source.text).rfind(word), start)
    length = len(code(source.text)) - start if word is None else len(word)
    return Problem(source.file, source.line, start + 1, length, source.text, message, remedy)
