"""`interlock run`: hosts an agent under rules, defined by a file, a Python module or options."""

from __future__ import annotations

import argparse
import os
import sys
import traceback

from ...config.arguments import BAD_INPUT, refuse, refuse_hosting, report_directory
from ..options import add_agent, add_hosting, dollars


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "target",
        metavar="AGENT",
        nargs="?",
        help="agent.toml or package.module:agent; otherwise use --model",
    )
    parser.add_argument("task", metavar="TASK", nargs="?", help="the task for the agent; comes last")
    add_agent(parser)
    parser.add_argument(
        "--max-cost", metavar="USD", type=dollars, help="maximum cost of the session (default: no limit)"
    )
    add_hosting(parser)


def run(args: argparse.Namespace) -> int:
    """Host the agent, with or without a screen. Returns the exit code."""
    if (code := refuse_hosting(args, "run")) is not None:
        return code
    from ....rules import RuleError
    from ...agents.builder import NO_MODEL, prepare
    from ...agents.command_line import IMPORTED, NO_TASK, from_command_line
    from ...agents.spec import AgentSpecError
    from ...config.loader import SettingsError
    from ...config.operators import report_approvers
    from ...config.trust import rule_texts
    from ...hosting.host import host
    from ...sessions.start import start

    try:
        spec = from_command_line(args)
        if spec.task is None:
            raise AgentSpecError([f'{NO_TASK}, or as task = "…" in the agent file'])
        prepared = prepare(spec, rule_texts(args))
        report_directory(args, "run", spec.rules)
        report_approvers("run", prepared.rules.nets)
        return host(args, lambda hub: start(hub, prepared, args.operator))
    except (RuleError, SettingsError) as error:
        return refuse("run", error)
    except AgentSpecError as error:
        for problem in error.problems:
            refuse("run", problem)
        task = args.task or ""
        if NO_MODEL in error.problems and IMPORTED.fullmatch(task):
            print(
                f"interlock run: '{task}' was taken as the task, because no module "
                f"'{task.partition('.')[0].partition(':')[0]}' was found from here",
                file=sys.stderr,
            )
        if os.environ.get("INTERLOCK_DEBUG"):
            traceback.print_exception(error)
        return BAD_INPUT
