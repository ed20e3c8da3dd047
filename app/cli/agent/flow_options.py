"""Parts of `interlock flow` and their options. Imports nothing heavy, so that help is fast."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from ..options import Parts, add_reason

Command: TypeAlias = Callable[[Parts, str, str], argparse.ArgumentParser]
Options: TypeAlias = Callable[[argparse.ArgumentParser], None]
Number: TypeAlias = Callable[[str], int]

LONGEST = 365 * 86_400


def add_flow(
    commands: Parts, command: Command, hosting: Options, journal: Options, positive: Number
) -> None:
    """Add `interlock flow`; `command` makes a parser, the others its usual options."""
    flow = command(commands, "flow", "run a flow step by step; go on with a run, draw and check flows")
    parts = flow.add_subparsers(dest="part", metavar="PART", required=True)

    run = command(parts, "run", "run a flow, each step recorded before the next begins")
    _name(run)
    run.add_argument("--input", metavar="JSON", help="what it begins with (default: {})")
    run.add_argument(
        "--input-file", metavar="FILE", type=Path, help="the same from a file; - is standard input"
    )
    run.add_argument("--workdir", metavar="DIR", type=Path, help="where it works (default: here)")
    run.add_argument(
        "--allow-command",
        metavar="NAME",
        action="append",
        help="a command that its functions may run; may be given again",
    )
    _terms(run, positive)
    hosting(run)

    resume = command(parts, "resume", "go on with a run after its last recorded step")
    resume.add_argument("session", metavar="RUN", help="its id, or the first letters of it")
    resume.add_argument(
        "--changed-nets",
        action="store_true",
        default=None,
        help="go on although its rules have changed: nets that differ start fresh",
    )
    add_reason(resume)
    _terms(resume, positive)
    hosting(resume)

    listed = command(parts, "list", "list recorded runs of flows, and where each stands")
    listed.add_argument("--limit", metavar="N", type=positive, help="how many at most (default: 50)")
    journal(listed)

    draw = command(parts, "draw", "draw a flow: its states, and the steps between them")
    _name(draw)
    draw.add_argument(
        "-o", "--out", metavar="OUT", type=Path, help="an .svg or .mmd file (default: Mermaid, printed)"
    )
    draw.add_argument("--live", metavar="RUN", help="mark where this recorded run stands")
    journal(draw)

    check = command(parts, "check", "say what can go wrong with a flow, and the shortest way there")
    _name(check)


def _name(command: argparse.ArgumentParser) -> None:
    command.add_argument("flow", metavar="FLOW", help="package.module:FlowClass")


def _terms(command: argparse.ArgumentParser, positive: Number) -> None:
    command.add_argument(
        "--rules", metavar="FILE", nargs="+", action="extend", help="rules files; all of them apply"
    )
    command.add_argument("--mode", choices=("enforce", "shadow"), help="enforce (default) or shadow")
    command.add_argument("--max-steps", metavar="N", type=positive, help="steps at most, from here on")
    command.add_argument(
        "--max-turns", metavar="N", type=positive, help="model calls at most, from here on"
    )
    command.add_argument(
        "--max-time", metavar="TIME", type=_time, help="how long at most, as 90s, 10m or 2h"
    )
    command.add_argument(
        "--fill",
        metavar="KEY=JSON",
        action="append",
        help="without a screen, what is answered where step KEY waits for a person; may be given again",
    )


def _time(text: str) -> int:
    from ....engine.core.durations import parse_time

    seconds = parse_time(text)
    if not seconds or seconds > LONGEST:
        raise argparse.ArgumentTypeError(f"a time such as 90s, 10m or 2h, not '{text}'")
    return seconds
