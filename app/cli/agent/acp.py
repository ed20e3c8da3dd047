"""`interlock acp`: host an agent that speaks the Agent Client Protocol."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from ....engine.core.sanitize import visible
from ....engine.history.journal.reader import SessionNotFound
from ....engine.hub.hub import Hub, ResumeError
from ....rules import RuleError
from ...agents.builder import NO_RULES
from ...config.arguments import BAD_INPUT, in_terminal, needs_terminal
from ...config.trust import added, rule_texts
from ...hosting.host import host

NOT_INSTALLED = (
    "the library for the Agent Client Protocol is not installed; install Interlock with its extra 'acp': "
    "pip install 'interlock[acp]'"
)


def acp(args: argparse.Namespace, database: Path, operator: str) -> int:
    """Host the agent on a screen, or without one. Returns the exit code."""
    headless = bool(args.headless)
    if problem := _problem(args, headless=headless):
        print(f"interlock acp: {problem}", file=sys.stderr)
        return BAD_INPUT
    if not headless and not in_terminal():
        return needs_terminal("acp", "use --headless --answer approve|deny to run without one")
    if headless and args.answer is None:
        # No operator, and no `--answer`: the safe answer.
        args.answer = "deny"
    from ....engine.gateway.acp.agent import AcpAgent, AcpError

    # From the line alone: a file that comes with the directory could have any file written, or wink at
    # what runs without having been asked about.
    typed = {name: getattr(args, name) if name in args.typed else None for name in ("log", "unasked")}
    try:
        rules = rule_texts(args).compiled(*args.rules)
        if told := added(args):
            print(f"interlock acp: {told}", file=sys.stderr)
        with ExitStack() as files:
            path = typed["log"]
            log = None if path is None else files.enter_context(path.expanduser().open("ab"))

            async def start(hub: Hub) -> str:
                agent = AcpAgent(
                    hub,
                    args.agent,
                    (args.cwd or Path()).expanduser(),
                    unasked=typed["unasked"] or "cancel",
                    log=log,
                )
                session = await agent.open(
                    registry=rules.registry, mode=args.mode, by=operator, resume=args.resume
                )
                if args.task is not None:
                    await hub.send(session, args.task, by=operator)
                return session

            return host(args, database, operator, start, headless=headless)
    except (RuleError, AcpError, ResumeError, SessionNotFound, OSError) as error:
        print(f"interlock acp: {visible(str(error), keep_newlines=True)}", file=sys.stderr)
        return BAD_INPUT


def _problem(args: argparse.Namespace, *, headless: bool) -> str | None:
    """First missing argument or package, with the remedy; `None` if there is none."""
    if not args.agent:
        return "which agent? Give its command after --: interlock acp --rules my.rules -- my-agent --acp"
    if not args.rules:
        return NO_RULES
    if headless and args.task is None:
        return "without a screen nobody can tell the agent anything, so it needs a --task"
    directory = (args.cwd or Path()).expanduser()
    if not directory.is_dir():
        return f"--cwd: expected a directory, found none at '{visible(str(directory))}'"
    return NOT_INSTALLED if find_spec("acp") is None else None
