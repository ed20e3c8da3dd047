"""`interlock flow`: runs flows and resumes runs, with or without a screen; draws and checks flows."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from ...config.arguments import BAD_INPUT, database, refuse, refuse_hosting
from ..options import (
    add_command,
    add_hosting,
    add_journal,
    add_labels,
    add_mode,
    add_resumption,
    add_rules,
    positive,
)

MAX_SECONDS = 365 * 86_400


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their options."""
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)

    run = add_command(parts, "run", "run a flow, each step recorded before the next begins")
    _add_name(run)
    run.add_argument("--input", metavar="JSON", help="its input (default: {})")
    run.add_argument(
        "--input-file", metavar="FILE", type=Path, help="the same from a file; - is standard input"
    )
    run.add_argument("--workdir", metavar="DIR", type=Path, help="its working directory (default: here)")
    run.add_argument(
        "--allow-command",
        metavar="NAME",
        action="append",
        help="a command that its functions may run; may be repeated",
    )
    add_labels(run)
    _add_terms(run)

    resume = add_command(parts, "resume", "resume a run after its last recorded step")
    resume.add_argument("session", metavar="RUN", help="its id or the beginning of it")
    add_resumption(resume)
    _add_terms(resume)

    runs = add_command(parts, "list", "list recorded runs of flows, and the current step of each")
    runs.add_argument("--limit", metavar="N", type=positive, help="maximum number (default: 50)")
    add_journal(runs)

    draw = add_command(parts, "draw", "draw a flow: its states, and the steps between them")
    _add_name(draw)
    draw.add_argument(
        "-o", "--out", metavar="OUT", type=Path, help="an .svg or .mmd file (default: Mermaid, printed)"
    )
    draw.add_argument("--live", metavar="RUN", help="mark the current step of this recorded run")
    add_journal(draw)

    check = add_command(parts, "check", "report what can go wrong in a flow, and the shortest path to it")
    _add_name(check)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("flow", metavar="FLOW", help="package.module:FlowClass")


def _add_terms(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run: rules, limits, answers and hosting."""
    add_rules(parser)
    add_mode(parser)
    parser.add_argument(
        "--max-steps", metavar="N", type=positive, help="maximum number of steps from here on"
    )
    parser.add_argument(
        "--max-turns", metavar="N", type=positive, help="maximum number of model calls from here on"
    )
    parser.add_argument(
        "--max-time", metavar="TIME", type=_time, help="maximum time, such as 90s, 10m or 2h"
    )
    parser.add_argument(
        "--fill",
        metavar="KEY=JSON",
        action="append",
        help="without a screen, the answer for step KEY, which waits for a person; may be repeated",
    )
    add_hosting(parser)


def _time(text: str) -> int:
    from ....engine.core.durations import parse_time

    seconds = parse_time(text)
    if not seconds or seconds > MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"a time such as 90s, 10m or 2h, not '{text}'")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Run the subcommand named in `args`. Returns the exit code."""
    hosts = args.part in ("run", "resume")
    if hosts and (code := refuse_hosting(args, f"flow {args.part}")) is not None:
        return code
    from ....engine.flows import FlowError
    from ....engine.history.errors import JournalError, SessionNotFound
    from ....engine.hub.hub import ResumeError
    from ...flows.spec import FlowSpecError

    try:
        return _run_part(args)
    except FlowSpecError as error:
        return _refuse(args, error, *error.problems)
    except ResumeError as error:
        changed = error.missing or error.changed or error.forgetful
        hint = ["here that is the option --changed-nets, with --reason TEXT"] if changed else []
        if error.unexplained:
            hint = ["here that is the option --reason TEXT"]
        return _refuse(args, error, str(error), *hint)
    except (SessionNotFound, JournalError, FlowError) as error:
        return _refuse(args, error, str(error))


def _run_part(args: argparse.Namespace) -> int:
    match args.part:
        case "run":
            from ...hosting.flow import run_flow

            return run_flow(args)
        case "resume":
            from ...hosting.flow import resume_run

            return resume_run(args)
        case "draw":
            from ...flows.draw import draw_flow

            return draw_flow(
                args.flow,
                out_file=args.out,
                live=args.live,
                database=lambda: database(args),
                out=sys.stdout,
            )
        case "list":
            from .flow_list import list_runs

            return list_runs(database(args), limit=args.limit or 50, out=sys.stdout)
        case _:
            from ...flows.check import check_flow

            return check_flow(args.flow, out=sys.stdout)


def _refuse(args: argparse.Namespace, error: Exception, *problems: str) -> int:
    for problem in problems:
        refuse(f"flow {args.part}", problem)
    if os.environ.get("INTERLOCK_DEBUG"):
        traceback.print_exception(error)
    return BAD_INPUT
