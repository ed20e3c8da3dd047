"""`interlock check`: compiles rules files, verifies them together, and prints the result."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, database, refuse
from ..options import add_switch

if TYPE_CHECKING:
    from ....engine.core.approvers import Operators
    from .check_report import CheckedSet

FAULTY = 1
LOOSER = 3
FORMATS = ("text", "json", "sarif", "github")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="rules files")
    parser.add_argument(
        "--tools", metavar="A,B|FILE.json", help="the known tools; other names get a warning"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="output format: text (default), json, sarif for code scanning, or github for annotations",
    )
    parser.add_argument(
        "--against",
        metavar="OLD",
        action="append",
        help="compare the calls that are allowed with those under this file or these files",
    )
    add_switch(parser, "--json", "print the findings as JSON, the same as --format json")
    add_switch(parser, "--strict", "fail the check on warnings, too")
    add_switch(parser, "--quiet", "print only what fails the check")
    add_switch(parser, "--each", "check each file separately, not all of them together")


def run(args: argparse.Namespace) -> int:
    """Compile the files together, or each by itself; print their nets and tools, and the findings.

    Returns 0; 1 if the rules contradict each other, or with `--strict` for any warning; 2 if errors keep
    them from compiling; 3 if calls become possible or need less approval than under the rules compared
    with, or if that is not known. In text output errors go to the error stream. Every other format
    includes errors together with the findings, and the nets and tools of what was compiled.
    """
    from ...agents.tools import ToolsError, known_tools
    from ...config.loader import SettingsError
    from ...config.operators import operators, with_keys

    if not args.files:
        return refuse("check", "name at least one rules file")
    if args.json and args.format not in (None, "json"):
        return refuse("check", f"--json and --format {args.format} exclude each other; use one of them")
    try:
        tools = None if args.tools is None else known_tools(args.tools)
    except ToolsError as error:
        return refuse("check", error)
    if args.against and args.each:
        return refuse("check", "--against compares whole sets, so it excludes --each")
    groups = [[file] for file in args.files] if args.each else [args.files]
    try:
        known = with_keys(operators(), database(argparse.Namespace(db=None)))
    except SettingsError as error:
        return refuse("", error)
    checked = [_checked(files, tools, known) for files in groups]
    if args.against:
        return _compare(args, checked[0], _checked(args.against, tools, known), tools)
    _report(args, checked)
    return _code(args, checked)


def _report(args: argparse.Namespace, checked: Sequence[CheckedSet]) -> None:
    from .check_report import as_json, as_lines
    from .code_scanning import as_github, as_sarif

    match "json" if args.json else args.format:
        case "json":
            print(json.dumps(as_json(checked), indent=2))
        case "sarif":
            print(json.dumps(as_sarif(checked), indent=2))
        case "github":
            for line in as_github(checked):
                print(line)
        case _:
            for one in checked:
                _print(one, quiet=bool(args.quiet), strict=bool(args.strict))
            for line in () if args.quiet else as_lines(checked):
                print(line)


def _code(args: argparse.Namespace, checked: Sequence[CheckedSet]) -> int:
    if any(one.rules is None for one in checked):
        return BAD_INPUT
    warned = args.strict and any(one.warnings for one in checked)
    return FAULTY if warned or any(one.errors for one in checked) else 0


def _compare(
    args: argparse.Namespace, new: CheckedSet, old: CheckedSet, tools: Sequence[str] | None
) -> int:
    """Print how decisions on calls change, and what fails the check of the new rules."""
    from dataclasses import replace

    from ....rules.analysis.comparison import compare
    from .check_report import as_json
    from .comparison_report import as_json as compared_json
    from .comparison_report import as_lines, as_problems

    if new.rules is None or old.rules is None:
        _report(args, [one for one in (new, old) if one.rules is None])
        return BAD_INPUT
    comparison = compare(old.rules, new.rules, tools)
    match "json" if args.json else args.format:
        case "json":
            found = as_json([new])
            assert isinstance(found, dict)
            print(json.dumps({**found, "against": compared_json(comparison)}, indent=2))
        case "sarif" | "github":
            changes = tuple(as_problems(comparison, new.files[0]))
            _report(args, [replace(new, warnings=(*new.warnings, *changes))])
        case _:
            _print(new, quiet=True, strict=bool(args.strict))
            for line in as_lines(comparison, ", ".join(old.files)):
                print(line)
    failed = _code(args, [new])
    return failed or (LOOSER if comparison.looser or comparison.unknown else 0)


def _checked(files: Sequence[str], tools: Sequence[str] | None, operators: Operators) -> CheckedSet:
    """Compile the files as one set, and examine it for these operators."""
    from ....rules import RuleError, load_rules
    from ....rules.analysis.findings import examine
    from .check_report import CheckedSet

    try:
        rules = load_rules(*files)
    except RuleError as error:
        return CheckedSet(tuple(dict.fromkeys(files)), errors=error.problems)
    findings = examine(rules, tools, operators)
    return CheckedSet(
        tuple(rules.paths), tuple(findings.errors), tuple(findings.warnings), rules, findings
    )


def _print(one: CheckedSet, *, quiet: bool, strict: bool) -> None:
    """Print to the error stream the problems that keep a set from compiling.

    With `quiet` also those that fail a set that compiles: errors, and with `strict` warnings.
    """
    from ...format.text import count

    if one.rules is not None and not quiet:
        return
    problems = (*one.errors, *(one.warnings if strict else ()))
    for problem in problems:
        print(problem, file=sys.stderr)
    if one.rules is None:
        print(f"\n{count(len(problems), 'error')}; nothing was compiled.", file=sys.stderr)
