"""A set of rules files, with the nets and findings of each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...engine.net.net import SkillNet
from ...rules import Problem, RuleError, load_rules
from ...rules.analysis.findings import Findings, examine
from ...rules.compiler import read_text, with_value_files
from ...rules.ruleset import paths_of
from ..format.rules import does
from ..sources.rules_files import Stamp, in_library, name_of, stamps

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """Problem with rules and its severity: an error, or a warning with which the rules still work."""

    severity: Severity
    problem: Problem


@dataclass(frozen=True, slots=True)
class RuleNet:
    """Net of a rule: its key, its number of reachable states, and what the rule does."""

    key: str
    net: SkillNet
    states: int
    does: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """Nets and findings of a line."""

    nets: tuple[RuleNet, ...] = ()
    findings: tuple[RuleFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class RulesFile:
    """A file's text by lines, and nets and findings by line number, from 1.

    Number 0 is for the whole file, and for findings at lines that the text no longer has.
    """

    path: str
    name: str
    library: bool
    lines: tuple[str, ...]
    noted: Mapping[int, Noted] = field(default_factory=dict[int, Noted])


@dataclass(frozen=True, slots=True)
class RulesView:
    """Files as they were at these `stamps`, with nets and findings once they are `checked`.

    `paths` includes the files and the value files that they name. `findings` is `None` if nothing was
    compiled: with a single error there are no nets.
    """

    files: tuple[RulesFile, ...]
    paths: tuple[str, ...]
    stamps: tuple[Stamp, ...]
    checked: bool = False
    rules: int = 0
    errors: int = 0
    warnings: int = 0
    findings: Findings | None = None


def read(paths: Sequence[str]) -> RulesView:
    """Read the texts only, which is fast."""
    texts = {path: read_text(path) for path in paths}
    every = tuple(paths_of(with_value_files(texts)))
    before = stamps(every)
    return RulesView(tuple(map(_read, paths)), every, before)


def _read(path: str) -> RulesFile:
    text = read_text(path)
    if isinstance(text, Problem):
        noted = {0: Noted(findings=(RuleFinding("error", text),))}
        return RulesFile(path, name_of(path), in_library(path), (), noted)
    return RulesFile(path, name_of(path), in_library(path), _lines(text))


def _lines(text: str) -> tuple[str, ...]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return tuple(lines if lines[-1] else lines[:-1])


def check(paths: Sequence[str]) -> RulesView:
    """Read the texts and check them as `interlock check` does. Takes seconds for a large file."""
    unread = read(paths)
    try:
        rules = load_rules(*paths)
    except RuleError as error:
        return _placed(unread, {}, [RuleFinding("error", problem) for problem in error.problems])
    findings = examine(rules)
    nets: dict[tuple[str, int], list[RuleNet]] = {}
    for (key, net), verified in zip(rules.registry.items(), rules.verification, strict=True):
        if net.rule is not None and net.rule.source is not None:
            at = net.rule.source.file, net.rule.source.line
            rule_net = RuleNet(key, net, verified.reachable_states, tuple(does(net.rule)))
            nets.setdefault(at, []).append(rule_net)
    found = [RuleFinding("error", problem) for problem in findings.errors]
    found += [RuleFinding("warning", problem) for problem in findings.warnings]
    return _placed(unread, nets, found, findings)


def _placed(
    unread: RulesView,
    nets: Mapping[tuple[str, int], Sequence[RuleNet]],
    found: Sequence[RuleFinding],
    findings: Findings | None = None,
) -> RulesView:
    """Assign nets and findings to their lines. Read errors are already assigned by path."""
    by_file: dict[str, dict[int, list[RuleFinding]]] = {}
    for finding in found:
        at = by_file.setdefault(name_of(finding.problem.file), {})
        at.setdefault(finding.problem.line, []).append(finding)
    files: list[RulesFile] = []
    for file in unread.files:
        noted: dict[int, Noted] = {}
        problems = by_file.get(file.name, {})
        for (name, line), rule_net in nets.items():
            if name == file.name and line <= len(file.lines):
                noted[line] = Noted(tuple(rule_net))
        for line, several in problems.items():
            at = line if line <= len(file.lines) else 0
            before = noted.get(at, Noted())
            noted[at] = Noted(before.nets, (*before.findings, *several))
        files.append(RulesFile(file.path, file.name, file.library, file.lines, noted))
    return RulesView(
        tuple(files),
        unread.paths,
        unread.stamps,
        checked=True,
        rules=sum(map(len, nets.values())),
        errors=sum(finding.severity == "error" for finding in found),
        warnings=sum(finding.severity == "warning" for finding in found),
        findings=findings,
    )
