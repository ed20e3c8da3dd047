"""Report of `interlock check`: nets, tools and findings, as lines or as JSON for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TypeAlias

from ....engine.core.condition import condition_text
from ....engine.core.rule import RuleSource
from ....engine.core.sanitize import visible
from ....engine.net.net import SkillNet, format_marking
from ....engine.verify import Answer, Most, Never, Way, reachable
from ....rules import Problem, RuleSet
from ....rules.analysis.findings import Findings
from ....rules.parse.lines import code
from ...format.rules import (
    OUTSIDE,
    STATES_SHOWN,
    TOGETHER,
    place_text,
    steers,
    tool_lines,
    transition_text,
)
from ...format.text import count

WIDTH = 80
INDENT = 15
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


@dataclass(frozen=True, slots=True)
class CheckedSet:
    """Files that were checked as one set, and their problems; `rules` is `None` if compiling failed."""

    files: tuple[str, ...]
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    rules: RuleSet | None = None
    findings: Findings | None = None


def as_lines(checked: Sequence[CheckedSet]) -> Iterator[str]:
    """Yield each net, each gated tool and the findings of each set that compiles."""
    between = False
    for one in checked:
        if one.rules is None or one.findings is None:
            continue
        if between:
            yield ""
        between = True
        yield from _summary(one.rules, one.findings)
        yield from _nets(one.rules)
        yield from _tools(one.findings)
        yield from _problems(one.findings)


def _summary(rules: RuleSet, findings: Findings) -> Iterator[str]:
    files = ", ".join(visible(file) for file in rules.paths)
    errors = f", {count(len(findings.errors), 'error')}" if findings.errors else ""
    warnings = f", {count(len(findings.warnings), 'warning')}" if findings.warnings else ""
    yield f"{files}: {count(len(rules), 'net')}{errors}{warnings}"
    if not rules.nets:
        yield "No rule restricts anything: every call is allowed."


def _nets(rules: RuleSet) -> Iterator[str]:
    for (key, net), verified in zip(rules.registry.items(), rules.verification, strict=True):
        yield ""
        yield from _title(key, net)
        yield from _row("places", ", ".join(visible(place_text(net, place)) for place in net.places))
        for position, transition in enumerate(net.transitions):
            yield from _row("" if position else "transitions", visible(transition_text(transition)))
        yield from _states(net, verified.reachable_states)


def _title(key: str, net: SkillNet) -> Iterator[str]:
    key = visible(key)
    source = None if net.rule is None else net.rule.source
    if source is None:
        yield key
        return
    place = visible(source.where)
    room = WIDTH - len(key) - len(place)
    yield f"{key}{' ' * room}{place}" if room > 1 else f"{key}  {place}"
    yield f"  {visible(code(source.text).strip())}"


def _states(net: SkillNet, number: int) -> Iterator[str]:
    reached = reachable(net, keep=STATES_SHOWN)
    yield from _row("reachable", count(number, "state"))
    for marking in reached.states:
        yield from _row("", format_marking(marking))
    if number > len(reached.states):
        yield from _row("", f"… {number - len(reached.states):,} more")


def _tools(findings: Findings) -> Iterator[str]:
    if findings.tools:
        yield ""
        yield TOGETHER
    if steers(findings):
        yield OUTSIDE
    for tool in findings.tools:
        name = visible(tool.name)
        fits = len(name) <= INDENT - 4
        if not fits:
            yield f"  {name}"
        label = name if fits else ""
        for line in tool_lines(tool):
            yield from _row(label, visible(line))
            label = ""


def _problems(findings: Findings) -> Iterator[str]:
    for kind, problems in (("error", findings.errors), ("warning", findings.warnings)):
        for problem in problems:
            yield ""
            yield f"{kind}: {problem}"


def _row(label: str, text: str) -> Iterator[str]:
    lines = wrap(text, WIDTH - INDENT, break_long_words=False, break_on_hyphens=False) or [""]
    for position, line in enumerate(lines):
        yield f"  {'' if position else label:<{INDENT - 2}}{line}"


def as_json(checked: Sequence[CheckedSet]) -> Json:
    """Return nets, tools, errors and warnings; an unknown value is `null` or `unknown`.

    Files that do not compile have only errors. In a sequence of calls, a step with `seconds` is a wait
    instead of a call.
    """
    return {
        "files": [file for one in checked for file in one.files],
        "nets": [net for one in checked if one.rules is not None for net in _json_nets(one.rules)],
        "tools": [
            tool for one in checked if one.findings is not None for tool in _json_tools(one.findings)
        ],
        "errors": [_problem(problem) for one in checked for problem in one.errors],
        "warnings": [_problem(problem) for one in checked for problem in one.warnings],
    }


def _json_nets(rules: RuleSet) -> Iterator[Json]:
    for (key, net), verified in zip(rules.registry.items(), rules.verification, strict=True):
        yield {
            "key": key,
            "rule": _place(net.rule.source if net.rule else None),
            "when": None if net.condition is None else condition_text(net.condition),
            "because": None if net.rule is None else net.rule.because,
            "states": verified.reachable_states,
        }


def _json_tools(findings: Findings) -> Iterator[Json]:
    for tool in findings.tools:
        yield {
            "name": tool.name,
            "blocked": None if tool.blocked is None else _place(tool.blocked.source),
            **_way(tool.way),
            "within": [
                {"net": within.net, "when": within.when, **_way(within.way)} for within in tool.within
            ],
            "most": _most(tool.most),
        }


def _place(source: RuleSource | None) -> Json:
    return None if source is None else source.where


def _way(answer: Answer) -> dict[str, Json]:
    match answer:
        case Way(calls, shortest):
            steps: list[Json] = [
                {
                    "tool": call.names[0],
                    "approval": call.approval,
                    "succeeds": call.succeeds,
                    "people": call.people,
                    "outside": list(call.outside),
                    "seconds": call.seconds,
                }
                for call in calls
            ]
            return {"reachable": "yes", "way": steps, "shortest": shortest}
        case Never(nets):
            return {"reachable": "never", "forbidden_by": list(nets)}
        case _:
            return {"reachable": "unknown"}


def _most(most: Most) -> Json:
    return {
        "least": most.least,
        "most": most.most,
        "unlimited": most.unlimited,
        "exact": most.exact,
        "paces": [{"calls": pace.calls, "seconds": pace.seconds} for pace in most.paces],
        "each": list(most.each),
    }


def _problem(problem: Problem) -> Json:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "length": problem.length,
        "message": problem.message,
        "remedy": problem.remedy,
    }
