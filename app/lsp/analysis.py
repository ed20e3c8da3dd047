"""Analysis of a text in an editor: the problems that `interlock check` or `interlock test` reports."""

from __future__ import annotations

from dataclasses import dataclass

from ...rules import Problem, RuleError, RuleSet, compile_files
from ...rules.analysis.findings import Findings, examine
from ...rules.compiler import checked_text, with_value_files
from ...rules.parse.statements import Statement
from ...rules.parse.syntax import parse
from ...rules.scenarios.scenarios import load_used_rules, parse_scenarios

SCENARIOS = "_test.rules"
"""Suffix of files with scenarios."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """A text by its file name, with its problems; `rules` is `None` if the text does not compile."""

    file: str
    text: str
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    rules: RuleSet | None = None
    findings: Findings | None = None


def is_scenarios(file: str) -> bool:
    """Return whether a file contains scenarios rather than rules."""
    return file.endswith(SCENARIOS)


def analyse(file: str, text: str) -> Analysis:
    """Compile and examine a single text. Files that it names are read from disk."""
    readable = checked_text(file, text.encode("utf-8", "surrogatepass"))
    if isinstance(readable, Problem):
        return Analysis(file, text, (readable,))
    # A byte order mark counts as a blank in rules, so columns stay the same as in the editor.
    return _scenarios(file, text) if is_scenarios(file) else _rules(file, text)


def statements(file: str, text: str) -> tuple[list[Statement], list[Problem]]:
    """Return the statements of a rules file, and the problems of its other lines."""
    return parse(text, file, with_value_files({file: text}))


def _rules(file: str, text: str) -> Analysis:
    try:
        rules = compile_files(with_value_files({file: text}))
    except RuleError as error:
        return Analysis(file, text, error.problems)
    findings = examine(rules)
    return Analysis(file, text, findings.errors, findings.warnings, rules, findings)


def _scenarios(file: str, text: str) -> Analysis:
    """Return the faults of scenarios; those of the rules that they use are placed at the first `use`."""
    try:
        parsed = parse_scenarios(text, file=file)
    except RuleError as error:
        return Analysis(file, text, error.problems)
    try:
        load_used_rules(parsed)
    except RuleError as error:
        own = [problem for problem in error.problems if problem.file == file]
        others = [problem for problem in error.problems if problem.file != file]
        spot = parsed.uses[0].spot
        moved = [spot.problem(f"{other.where}: {other.message}", other.remedy) for other in others]
        return Analysis(file, text, (*own, *moved))
    return Analysis(file, text)
