"""`interlock check`: compiles rules files, verifies them together, and prints the result."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator, Sequence
from itertools import chain
from textwrap import wrap
from typing import TextIO

from ....engine.core.sanitize import visible
from ....engine.net.net import SkillNet, format_marking
from ....engine.verify import reachable
from ....rules import RuleError, RuleSet, load_rules
from ....rules.analysis.findings import Findings, examine
from ....rules.parse.lines import code
from ...agents.tools import ToolsError, known_tools
from ...config.arguments import BAD_INPUT
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
from .check_json import as_json

FAULTY = 1
WIDTH = 80
INDENT = 15


def run(
    files: Sequence[str],
    *,
    out: TextIO,
    err: TextIO,
    tools: str | None = None,
    json: bool = False,
    strict: bool = False,
) -> int:
    """Compile `files` together; print each net, each gated tool, and the findings about the rules.

    `tools` are the existing tools: `a,b,c` or a JSON file. `json` prints one JSON object instead. Returns
    0; 1 when the rules contradict each other, or with `strict` when there is any warning; 2 after
    printing to `err` what keeps them from being compiled.
    """
    if not files:
        print("interlock check: name at least one rules file", file=err)
        return BAD_INPUT
    try:
        known = None if tools is None else known_tools(tools)
        rules = load_rules(*files)
    except ToolsError as error:
        print(f"interlock check: {visible(str(error))}", file=err)
        return BAD_INPUT
    except RuleError as error:
        print(error, file=err)
        print(f"\n{count(len(error.problems), 'error')}; nothing was compiled.", file=err)
        return BAD_INPUT
    findings = examine(rules, known)
    if json:
        print(json_text.dumps(as_json(rules, findings), indent=2), file=out)
    else:
        for line in chain(_summary(rules, findings), _nets(rules), _tools(findings), _problems(findings)):
            print(line, file=out)
    return FAULTY if findings.errors or (strict and findings.warnings) else 0


def _summary(rules: RuleSet, findings: Findings) -> Iterator[str]:
    files = ", ".join(visible(file) for file in rules.sources)
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
    where = visible(source.where)
    room = WIDTH - len(key) - len(where)
    yield f"{key}{' ' * room}{where}" if room > 1 else f"{key}  {where}"
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
