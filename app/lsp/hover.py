"""Hover texts for a position in a rules file: effect, net, and the shortest way to a tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...engine.core.condition import written_source
from ...engine.core.rule import Rule, restricted
from ...engine.core.sanitize import visible
from ...engine.net.net import SkillNet
from ...rules.analysis.findings import Findings
from ...rules.editing.occurrences import VALUE_ROLES, Occurrence, rule_names
from ...rules.parse.patterns import Pattern
from ...rules.parse.statements import Allowance, Let, Map, Sources, Statement
from ..format.rules import OUTSIDE, does, place_text, tool_lines, transition_text
from ..format.text import count
from .analysis import Analysis, statements

VALUES_SHOWN = 12


def hover_text(analysis: Analysis, line: int, column: int) -> str | None:
    """Return the text for a position in a rules file, or `None` if there is none."""
    found = statements(analysis.file, analysis.text)[0]
    here = [each for each in found if each.source is not None and each.source.line == line]
    name = occurrence_at(rule_names(analysis.text), line, column)
    parts = [_about_statement(statement, analysis) for statement in here]
    if name is not None:
        parts.insert(0, _about_name(name, found))
    parts.append(_about_tools(name, here, analysis.findings))
    text = "\n\n".join(shown for part in parts if (shown := "\n".join(part)))
    return visible(text, keep_newlines=True) if text else None


def occurrence_at(names: Sequence[Occurrence], line: int, column: int) -> Occurrence | None:
    """Return the name at a position, or directly before it."""
    at = [each for each in names if each.line == line and each.column <= column <= each.end]
    return at[-1] if at else None


def _about_name(name: Occurrence, found: Sequence[Statement]) -> Iterator[str]:
    """Yield the values of a name, or the maps that define it."""
    for statement in found:
        match statement:
            case Let() if name.role == "value" and statement.name == name.name:
                yield from _about_let(statement)
            case Map() if name.role == "tool" and statement.name == name.name:
                yield from _about_map(statement)
            case _:
                pass


def _about_statement(statement: Statement, analysis: Analysis) -> Iterator[str]:
    match statement:
        case Map():
            yield from _about_map(statement)
        case Let():
            yield from _about_let(statement)
        case Allowance(tool=tool):
            yield f"calls of {tool} that cannot be fully analysed need no approval for that"
        case rule:
            yield from _about_rule(rule, analysis)


def _about_rule(rule: Rule, analysis: Analysis) -> Iterator[str]:
    yield from does(rule)
    if rule.because is not None:
        yield f"because {rule.because}"
    for key, net in () if analysis.rules is None else analysis.rules.registry.items():
        if net.rule is not None and net.rule.source is not None and rule.source is not None:
            source = net.rule.source
            if (source.file, source.line) == (rule.source.file, rule.source.line) and not source.implied:
                yield ""
                yield from _about_net(key, net)


def _about_net(key: str, net: SkillNet) -> Iterator[str]:
    yield f"net {key}"
    yield f"  places: {', '.join(place_text(net, place) for place in net.places)}"
    for transition in net.transitions:
        yield f"  {transition_text(transition)}"


def _about_tools(
    name: Occurrence | None, here: Sequence[Statement], findings: Findings | None
) -> Iterator[str]:
    """Yield the shortest way to the tool at a position, or else to the tool that its rule restricts."""
    gated = [restricted(each) for each in here if not isinstance(each, Map | Let | Allowance)]
    named = [name.name] if name is not None and name.role not in VALUE_ROLES else []
    tools = {} if findings is None else {tool.name: tool for tool in findings.tools}
    tool = next((tools[each] for each in (*named, *gated) if each in tools), None)
    if tool is None:
        return
    yield f"all rules of this file together, {tool.name}:"
    lines = list(tool_lines(tool))
    yield from (f"  {line}" for line in lines)
    if any("outside " in line for line in lines):
        yield f"  {OUTSIDE}"


def _about_map(m: Map) -> Iterator[str]:
    shell = ", a shell command" if m.shell else ""
    yield f"calls of {m.tool} with {m.pattern.text} in {m.field}{shell} are also calls of {m.name}"


def _about_let(let: Let) -> Iterator[str]:
    match let.value:
        case tuple() as values:
            shown = [f"  {value}" for value in values[:VALUES_SHOWN]]
            yield f"{let.name}: {count(len(values), 'value')}"
            yield from shown
            if len(values) > len(shown):
                yield f"  … {len(values) - len(shown):,} more"
        case Pattern(text=text):
            yield f"{let.name}: {text}"
        case Sources(names=names):
            yield f"{let.name}: from {', '.join(map(written_source, names))}"
        case value:
            yield f"{let.name}: {value}"
