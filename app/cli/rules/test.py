"""`interlock test`: run the scenarios of `*_test.rules` files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT

if TYPE_CHECKING:
    from ....rules import Problem, RuleSet
    from ....rules.scenarios.scenarios import Scenario, ScenarioFile
    from .scenario_runner import Divergence

FAILED = 1
SUFFIX = "_test.rules"
IGNORED = ("node_modules", "__pycache__")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("paths", metavar="PATH", nargs="*", help="files or directories (default: here)")


def run(args: argparse.Namespace) -> int:
    """Run every scenario of the paths, one line each; a folder stands for the `*_test.rules` below it.

    Without a path, the working directory's. Returns 0, 1 when a scenario diverges, or 2 after printing
    what is wrong with the files.
    """
    from ....rules import RuleError
    from ....rules.scenarios.scenarios import load_scenarios

    files, problems = _find(args.paths)
    errors = len(problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    passed = failed = 0
    for path in files:
        try:
            file = load_scenarios(path)
            rules = _rules(file)
        except RuleError as error:
            print(error, file=sys.stderr)
            errors += len(error.problems)
            continue
        for scenario in file.scenarios:
            diverged = _diverges(scenario, rules)
            passed += not diverged
            failed += diverged
    if passed or failed:
        print(f"\n{_summary(passed, failed)}")
    if errors:
        found = f"{errors} {'error' if errors == 1 else 'errors'}"
        print(f"\n{found} in what was to be tested.", file=sys.stderr)
        return BAD_INPUT
    return FAILED if failed else 0


def _find(paths: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Scenario files in `paths`, each once, and the problems of the paths."""
    from ....rules import Problem

    found: dict[str, None] = {}
    problems: list[Problem] = []
    for path in paths or [os.curdir]:
        if not os.path.isdir(path):
            found[path] = None
            continue
        below = list(_below(path))
        if not below:
            message = f"holds no file named *{SUFFIX}"
            problems.append(
                Problem(path, 0, 0, 0, "", message, f"put scenarios into a file NAME{SUFFIX}")
            )
        found.update(dict.fromkeys(below))
    return list(found), problems


def _below(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in IGNORED)
        for name in sorted(files):
            if name.endswith(SUFFIX):
                yield os.path.normpath(os.path.join(here, name))


def _rules(file: ScenarioFile) -> RuleSet:
    """The rules that scenarios use. Raises `RuleError`, at the `use` of a missing file."""
    from ....rules import RuleError, load_rules

    missing = [use for use in file.uses if not Path(use.path).is_file()]
    if missing:
        remedy = "the path counts from the folder of this file"
        raise RuleError(use.spot.problem(f"no such rules file: {use.path}", remedy) for use in missing)
    return load_rules(*(use.path for use in file.uses))


def _diverges(scenario: Scenario, rules: RuleSet) -> bool:
    """Run a scenario, print its outcome, and tell whether it was another than expected."""
    from ....engine.core.sanitize import visible
    from .scenario_runner import run_scenario

    divergence = run_scenario(scenario, rules)
    where = f"{scenario.spot.file}:{scenario.spot.line}"
    word = "ok  " if divergence is None else "FAIL"
    print(f"{word}  {visible(where)}  {visible(scenario.name)}")
    if divergence is not None:
        for line in _details(divergence):
            print(f"      {line}" if line else "")
    return divergence is not None


def _details(divergence: Divergence) -> Iterator[str]:
    """The first divergence, with the nets' markings at that time."""
    from ....engine.core.sanitize import visible

    yield from str(divergence.problem).split("\n")
    if divergence.nets:
        yield "the nets at that moment:"
    width = max((len(visible(net.key)) for net in divergence.nets), default=0)
    for net in divergence.nets:
        key = visible(net.key)
        inactive = "" if net.active else "  (inactive)"
        yield f"    {key:<{width}}  {visible(net.marking)}{inactive}"


def _summary(passed: int, failed: int) -> str:
    total = passed + failed
    scenarios = f"{total} {'scenario' if total == 1 else 'scenarios'}"
    return f"{scenarios}, {failed} failed." if failed else f"{scenarios}, all as expected."
