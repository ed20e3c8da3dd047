"""`interlock acp`: host an agent that speaks the Agent Client Protocol."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ....engine.core.labels import checked_labels
from ...config.arguments import refuse, refuse_hosting, refuse_read_only, report_directory
from ..options import EPILOG, add_hosting, add_labels, add_mode, add_rules

if TYPE_CHECKING:
    from ....engine.hub.hub import Hub

NOT_INSTALLED = (
    "the library for the Agent Client Protocol is not installed; install Interlock with its extra 'acp': "
    "pip install 'interlock[acp]'"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = EPILOG.replace("Every option", "Every option but --log and --unasked")
    parser.add_argument("agent", metavar="COMMAND", nargs="*", help="the agent's command, after --")
    add_rules(parser)
    parser.add_argument("--task", metavar="TEXT", help="the first task for the agent")
    parser.add_argument(
        "--resume",
        metavar="SESSION",
        help="resume a recorded session of this agent, if it offers that: its id or the beginning of it",
    )
    parser.add_argument(
        "--cwd", metavar="DIR", type=Path, help="the agent's working directory (default: here)"
    )
    add_mode(parser)
    add_labels(parser)
    parser.add_argument(
        "--unasked",
        choices=("cancel", "note"),
        help="if it runs what the rules do not allow without asking: end its turn and say "
        "so in the transcript (default), or only say so",
    )
    parser.add_argument(
        "--log", metavar="FILE", type=Path, help="file for its standard error (default: none)"
    )
    add_hosting(parser)


def run(args: argparse.Namespace) -> int:
    """Host the agent, with or without a screen. Returns the exit code."""
    if args.read_only:
        return refuse_read_only("acp")
    if problem := _problem(args):
        return refuse("acp", problem)
    if (code := refuse_hosting(args, "acp")) is not None:
        return code
    from ....engine.gateway.acp.agent import AcpAgent, AcpError
    from ....engine.history.errors import SessionNotFound
    from ....engine.hub.hub import ResumeError, SessionConfig
    from ....rules import RuleError
    from ...config.loader import SettingsError
    from ...config.operators import report_approvers
    from ...config.trust import rule_texts
    from ...hosting.host import host

    # Accepted on the command line only: a settings file that comes with the directory could write to any
    # file, or permit agents that run tools without a permission request.
    typed = {name: getattr(args, name) if name in args.typed else None for name in ("log", "unasked")}
    try:
        rules = rule_texts(args).compile(*args.rules)
        config = SessionConfig(
            rules.registry, mode=args.mode, by=args.operator, labels=tuple(args.labels or ())
        )
        report_directory(args, "acp")
        report_approvers("acp", rules.nets)
        with ExitStack() as files:
            path = typed["log"]
            log = None if path is None else files.enter_context(path.expanduser().open("ab"))

            async def start(hub: Hub) -> str:
                agent = AcpAgent(
                    hub, args.agent, _directory(args), unasked=typed["unasked"] or "cancel", log=log
                )
                session = await agent.open(config, resume=args.resume)
                if args.task is not None:
                    await hub.send(session, args.task, by=args.operator)
                return session

            return host(args, start)
    except (RuleError, SettingsError, AcpError, ResumeError, SessionNotFound, OSError) as error:
        return refuse("acp", error)


def _problem(args: argparse.Namespace) -> str | None:
    """First missing argument or package, with the remedy; `None` if there is none."""
    if not args.agent:
        return "which agent? Give its command after --: interlock acp --rules my.rules -- my-agent --acp"
    if not args.rules:
        from ...agents.builder import NO_RULES

        return NO_RULES
    if args.headless and args.task is None:
        return "without a screen nobody can tell the agent anything, so it needs a --task"
    if not _directory(args).is_dir():
        from ....engine.core.sanitize import visible

        return f"--cwd: expected a directory, found none at '{visible(str(_directory(args)))}'"
    try:
        checked_labels(args.labels or ())
    except ValueError as error:
        return f"--label: {error}"
    return NOT_INSTALLED if find_spec("acp") is None else None


def _directory(args: argparse.Namespace) -> Path:
    return (args.cwd or Path()).expanduser()
