"""The options of `interlock acp`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..options import EPILOG

Options = Callable[[argparse.ArgumentParser], None]


def add_acp(commands: object, command: Callable[..., argparse.ArgumentParser], hosting: Options) -> None:
    """`acp`, which hosts an agent that speaks the Agent Client Protocol."""
    acp = command(commands, "acp", "host an agent that speaks the Agent Client Protocol, under rules")
    acp.epilog = EPILOG.replace("Every option", "Every option but --log and --unasked")
    acp.add_argument("agent", metavar="COMMAND", nargs="*", help="the agent's command, after --")
    acp.add_argument(
        "--rules", metavar="FILE", nargs="+", action="extend", help="rules files; all of them apply"
    )
    acp.add_argument("--task", metavar="TEXT", help="what the agent is told first")
    acp.add_argument(
        "--resume",
        metavar="SESSION",
        help="go on with a recorded session of this agent, where it offers that: its id, or the first "
        "letters of it",
    )
    acp.add_argument("--cwd", metavar="DIR", type=Path, help="where the agent works (default: here)")
    acp.add_argument("--mode", choices=("enforce", "shadow"), help="enforce (default) or shadow")
    acp.add_argument(
        "--unasked",
        choices=("cancel", "note"),
        help="when it runs, without asking, what the rules do not allow: end its turn and say so in the "
        "transcript (default), or only say so",
    )
    acp.add_argument(
        "--log", metavar="FILE", type=Path, help="where its standard error goes (default: nowhere)"
    )
    hosting(acp)
