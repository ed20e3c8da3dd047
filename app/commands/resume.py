"""`interlock resume`: go on with a recorded session, or from a moment of it in a new one."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ...engine.history.errors import SessionNotFound
from ...engine.history.queries import open_reader
from ...engine.hub import Hub, JournalError, ResumeError
from ...engine.text import visible
from ..agent_spec import AgentSpecError
from ..hosting import host
from ..starting import go_on
from . import BAD_INPUT, in_terminal, needs_terminal


def resume(args: argparse.Namespace, database: Path, operator: str) -> int:
    """Resume the session, on a screen or without one. Returns the exit code."""
    headless = bool(args.headless)
    if not headless and not in_terminal():
        return needs_terminal("resume", "use --headless --answer approve|deny to run without one")
    if headless and args.task is None and args.at is not None:
        print(
            "interlock resume: a new session has nothing open to go on with, so without a screen it "
            "needs a task: what is it to do?",
            file=sys.stderr,
        )
        return BAD_INPUT
    if headless and args.answer is None:
        # Nobody can be asked, and nobody said what to answer: the safe answer.
        args.answer = "deny"
    # What interlock.toml says is for agents that leave their limit open; a record has settled that.
    limited = "max_cost" in args.typed or "INTERLOCK_MAX_COST" in os.environ
    try:
        # Before anything is opened for writing: a misspelt id is the likeliest mistake.
        session = open_reader(database).session(args.session).id

        async def start(hub: Hub) -> str:
            return await go_on(
                hub,
                session,
                operator,
                at=args.at,
                nets="changed" if args.changed_nets else "recorded",
                task=args.task,
                must_go_on=headless and args.task is None,
                max_cost=args.max_cost if limited else None,
                reason=args.reason,
            )

        return host(args, database, operator, start, headless=headless)
    except (SessionNotFound, ResumeError, AgentSpecError, JournalError) as error:
        print(f"interlock resume: {visible(str(error), keep_newlines=True)}", file=sys.stderr)
        if isinstance(error, ResumeError) and (error.missing or error.changed or error.forgetful):
            print("Here that is the option --changed-nets, with --reason TEXT.", file=sys.stderr)
        if isinstance(error, ResumeError) and error.unexplained:
            print("Here that is the option --reason TEXT.", file=sys.stderr)
        return BAD_INPUT
