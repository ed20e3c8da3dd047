"""`interlock test`: run the scenarios of `*_test.rules` files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, refuse

if TYPE_CHECKING:
    from ....rules import Problem, RuleSet
    from ....rules.scenarios.scenarios import Scenario
    from .scenario_runner import ScenarioDivergence

FAILED = 1
SUFFIX = "_test.rules"
IGNORED = ("node_modules", "__pycache__")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a scenario: its seconds, and for a divergence the message and the lines printed."""

    name: str
    line: int
    seconds: float
    message: str | None = None
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """Outcome of one file, or the problems that kept it from running."""

    file: str
    outcomes: tuple[Outcome, ...] = ()
    problems: Sequence[Problem] = ()

    @property
    def failed(self) -> int:
        """Number of scenarios that diverged."""
        return sum(outcome.message is not None for outcome in self.outcomes)


LINES = (
    (("use FILE …",), "rules files to test, relative to this file; all of them apply together"),
    (('scenario "name"',), "a new scenario, with a session of its own"),
    (
        ("call TOOL FIELD VALUE …",),
        "the agent calls TOOL with this input; the call succeeds if the rules let it run",
    ),
    (("call TOOL … fails",), "the same, but the call fails if it runs"),
    (("call TOOL … returns VALUE",), "the same; the call returns this text or JSON"),
    (('say "text"',), "a user says this in the session"),
    (("session agent NAME", "session started_by NAME"), "sets this field of the session from here on"),
    (("session labels NAME …",), "sets all labels of the session from here on"),
    (("hint TOOL read_only true …",), "sets all hints that the tool's server claims from here on"),
    (
        ("session new",),
        "another session begins, with the same fields: for limits `across` sessions",
    ),
    (("expect allow",), "the last call ran, with or without approval"),
    (("expect ask",), "the last call needs approval and is waiting"),
    (
        ("expect block", 'expect block "text"'),
        "the last call was blocked; its reason contains the text",
    ),
    (("group NAME MEMBER, …",), "these people are the members of the group from here on"),
    (
        ("approve",),
        "an operator who counts for the rule approves the waiting call; each further `approve` is by a "
        "different one",
    ),
    (
        ("approve as NAME",),
        "NAME approves it; if NAME does not count for the rule, the call keeps waiting",
    ),
    (("deny", 'deny "reason"', 'deny as NAME "reason"'), "an operator denies the waiting call"),
    (
        ("switch RULE on", "switch RULE off"),
        "an operator turns the rule with this net name on or off",
    ),
    (("mode enforce", "mode shadow"), "sets the session's mode from here on"),
    (("wait 1h",), "this much time passes, such as `90s`, `15m`, `1h` or `2d`"),
)
"""Lines of a scenario file, each with its forms and its meaning."""
VALUES = (
    "Values are words, texts in double quotes with JSON's escapes, or lists and objects as in JSON; "
    "config.env prod sets a field within an object. '#' starts a comment."
)
WIDTH = 80
INDENT = 26


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("paths", metavar="PATH", nargs="*", help="files or directories (default: here)")
    parser.add_argument(
        "--junit",
        metavar="FILE",
        type=Path,
        help="also write the outcome as JUnit XML, for continuous integration",
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = fill(parser.description or "", WIDTH)
    parser.epilog = "\n\n".join((_lines(), fill(VALUES, WIDTH), fill(parser.epilog or "", WIDTH)))


def _lines() -> str:
    """Table of the lines of a scenario file, as shown by `--help`."""
    rows = ["lines of a scenario file:"]
    for forms, meaning in LINES:
        text = wrap(meaning.replace("`", ""), WIDTH - INDENT)
        templates = [f"  {form}" for form in forms]
        if len(templates[0]) >= INDENT - 1:
            text.insert(0, "")
        rows += [
            f"{form:<{INDENT}}{words}".rstrip()
            for form, words in zip_longest(templates, text, fillvalue="")
        ]
    return "\n".join(rows)


def run(args: argparse.Namespace) -> int:
    """Run every scenario of the paths, one line each; a folder stands for the `*_test.rules` below it.

    Without a path, the working directory's. With `--junit` the outcome is written to that file, too.
    Returns 0, 1 when a scenario diverges, or 2 after printing what is wrong with the files.
    """
    from ....rules import RuleError
    from ....rules.scenarios.scenarios import load_scenarios, load_used_rules

    files, problems = _find(args.paths)
    suites = [Suite(problem.file, problems=(problem,)) for problem in problems]
    for problem in problems:
        print(problem, file=sys.stderr)
    for path in files:
        try:
            file = load_scenarios(path)
            rules = load_used_rules(file)
        except RuleError as error:
            print(error, file=sys.stderr)
            suites.append(Suite(path, problems=error.problems))
            continue
        suites.append(Suite(path, tuple(_outcome(scenario, rules) for scenario in file.scenarios)))
    total = sum(len(suite.outcomes) for suite in suites)
    failed = sum(suite.failed for suite in suites)
    errors = sum(len(suite.problems) for suite in suites)
    if total:
        scenarios = f"{total} {'scenario' if total == 1 else 'scenarios'}"
        print(f"\n{scenarios}, {failed} failed." if failed else f"\n{scenarios}, all as expected.")
    if errors:
        found = f"{errors} {'error' if errors == 1 else 'errors'}"
        print(f"\n{found} in the files to be tested.", file=sys.stderr)
    if args.junit is not None:
        from .junit import as_junit

        try:
            args.junit.write_text(as_junit(suites), encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            return refuse("test", f"cannot write '{args.junit}': {reason or error}")
    return BAD_INPUT if errors else FAILED if failed else 0


def _find(paths: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Scenario files in `paths`, each once, and the problems of the paths."""
    from ....rules import Problem

    found: dict[str, None] = {}
    problems: list[Problem] = []
    for path in paths or [os.curdir]:
        if not os.path.isdir(path):
            found[path] = None
            continue
        named = list(_scenario_files(path))
        if not named:
            message = f"holds no file named *{SUFFIX}"
            problems.append(
                Problem(path, 0, 0, 0, "", message, f"put scenarios into a file NAME{SUFFIX}")
            )
        found.update(dict.fromkeys(named))
    return list(found), problems


def _scenario_files(folder: str) -> Iterator[str]:
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in IGNORED)
        for name in sorted(files):
            if name.endswith(SUFFIX):
                yield os.path.normpath(os.path.join(directory, name))


def _outcome(scenario: Scenario, rules: RuleSet) -> Outcome:
    """Run a scenario and print its outcome."""
    from time import perf_counter

    from ....engine.core.sanitize import visible
    from .scenario_runner import run_scenario

    started_at = perf_counter()
    divergence = run_scenario(scenario, rules)
    seconds = perf_counter() - started_at
    place = f"{scenario.spot.file}:{scenario.spot.line}"
    word = "ok  " if divergence is None else "FAIL"
    print(f"{word}  {visible(place)}  {visible(scenario.name)}")
    details = () if divergence is None else tuple(_details(divergence))
    for line in details:
        print(f"      {line}" if line else "")
    message = None if divergence is None else divergence.problem.message
    return Outcome(scenario.name, scenario.spot.line, seconds, message, details)


def _details(divergence: ScenarioDivergence) -> Iterator[str]:
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
