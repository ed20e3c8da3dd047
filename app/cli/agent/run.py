"""`interlock run`: host an agent under rules, from a file, a Python module or options."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from ....engine.core.sanitize import visible
from ...agents.builder import NO_MODEL, prepare
from ...agents.command_line import IMPORTED, NO_TASK, from_command_line
from ...agents.spec import AgentSpecError
from ...config.arguments import BAD_INPUT, in_terminal, needs_terminal
from ...config.trust import added, rule_texts
from ...hosting.host import host
from ...sessions.start import start


def run(args: argparse.Namespace, database: Path, operator: str) -> int:
    """Host the agent on a screen, or without one. Returns the exit code."""
    headless = bool(args.headless)
    if not headless and not in_terminal():
        return needs_terminal("run", "use --headless --answer approve|deny to run without one")
    if headless and args.answer is None:
        # No operator, and no `--answer`: the safe answer.
        args.answer = "deny"
    try:
        spec = from_command_line(args)
        if spec.task is None:
            raise AgentSpecError([f'{NO_TASK}, or as task = "…" in the agent file'])
        prepared = prepare(spec, rule_texts(args))
        if told := added(args, spec.rules):
            print(f"interlock run: {told}", file=sys.stderr)

        return host(
            args, database, operator, lambda hub: start(hub, prepared, operator), headless=headless
        )
    except AgentSpecError as error:
        _tell(error, args)
        return BAD_INPUT


def _tell(error: AgentSpecError, args: argparse.Namespace) -> None:
    for problem in error.problems:
        print(f"interlock run: {visible(problem, keep_newlines=True)}", file=sys.stderr)
    task = args.task or ""
    if NO_MODEL in error.problems and IMPORTED.fullmatch(task):
        print(
            f"interlock run: '{task}' was taken for the task, as there is no module "
            f"'{task.partition('.')[0].partition(':')[0]}' to find from here",
            file=sys.stderr,
        )
    if os.environ.get("INTERLOCK_DEBUG"):
        traceback.print_exception(error)
