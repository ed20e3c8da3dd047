"""Analysis of a text in an editor: the problems that `interlock check` or `interlock test` prints."""

from __future__ import annotations

from dataclasses import dataclass

from ...rules import Problem, RuleError, RuleSet, compile_files
from ...rules.analysis.findings import Findings, examine
from ...rules.compiler import checked_text, with_value_files
from ...rules.parse.statements import Statement
from ...rules.parse.syntax import parse
from ...rules.scenarios.scenarios import load_used_rules, parse_scenarios

SCENARIOS = "_test.rules"
"""End of the name of a file of scenarios."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """A text by its file's name, with its problems; `rules` are `None` where it does not compile."""

    file: str
    text: str
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    rules: RuleSet | None = None
    findings: Findings | None = None


def is_scenarios(file: str) -> bool:
    """Tell whether a file has scenarios, and no rules."""
    return file.endswith(SCENARIOS)


def analyse(file: str, text: str) -> Analysis:
    """Compile and examine a text by itself. Files that it names are read from the disk."""
    readable = checked_text(file, text.encode("utf-8", "surrogatepass"))
    if isinstance(readable, Problem):
        return Analysis(file, text, (readable,))
    # A byte order mark is a blank in rules: with it columns are those of the editor.
    return _scenarios(file, text) if is_scenarios(file) else _rules(file, text)


def statements(file: str, text: str) -> tuple[list[Statement], list[Problem]]:
    """The statements of a rules file, and what is wrong with its other lines."""
    return parse(text, file, with_value_files({file: text}))


def _rules(file: str, text: str) -> Analysis:
    try:
        rules = compile_files(with_value_files({file: text}))
    except RuleError as error:
        return Analysis(file, text, error.problems)
    findings = examine(rules)
    return Analysis(file, text, findings.errors, findings.warnings, rules, findings)


def _scenarios(file: str, text: str) -> Analysis:
    """The faults of scenarios, or at the first `use` those of the rules that they use."""
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
