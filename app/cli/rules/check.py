"""`interlock check`: compiles rules files, verifies them together, and prints the result."""

from __future__ import annotations

import argparse
import json
import sys

from ...config.arguments import BAD_INPUT, refuse
from ..options import add_switch

FAULTY = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="rules files")
    parser.add_argument(
        "--tools", metavar="A,B|FILE.json", help="the tools there are; other names are doubted"
    )
    add_switch(parser, "--json", "print the findings as JSON")
    add_switch(parser, "--strict", "warnings fail the check too")


def run(args: argparse.Namespace) -> int:
    """Compile the files together, and print what they make and the findings about them.

    Returns 0; 1 when the rules contradict each other, or with `--strict` when there is any warning; 2
    after printing what keeps them from being compiled.
    """
    from ....rules import RuleError, load_rules
    from ....rules.analysis.findings import examine
    from ...agents.tools import ToolsError, known_tools
    from ...format.text import count
    from .check_report import as_json, as_lines

    if not args.files:
        return refuse("check", "name at least one rules file")
    try:
        known = None if args.tools is None else known_tools(args.tools)
        rules = load_rules(*args.files)
    except ToolsError as error:
        return refuse("check", error)
    except RuleError as error:
        print(error, file=sys.stderr)
        print(f"\n{count(len(error.problems), 'error')}; nothing was compiled.", file=sys.stderr)
        return BAD_INPUT
    findings = examine(rules, known)
    if args.json:
        print(json.dumps(as_json(rules, findings), indent=2))
    else:
        for line in as_lines(rules, findings):
            print(line)
    return FAULTY if findings.errors or (args.strict and findings.warnings) else 0
