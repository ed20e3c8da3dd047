"""`interlock resume`: resumes a recorded session, or branches from an event of it into a new one."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ....engine.core.sanitize import visible
from ....engine.history.errors import SessionNotFound
from ....engine.history.journal.reader import open_reader
from ....engine.history.model.state import Origin, SessionSummary
from ....engine.hub.hub import Hub, JournalError, ResumeError
from ...agents.builder import Prepared, prepare
from ...agents.command_line import from_command_line
from ...agents.spec import AgentSpecError
from ...config.arguments import BAD_INPUT, in_terminal, needs_terminal
from ...config.trust import added, rule_texts
from ...hosting.host import host
from ...sessions.imported_session import goes_on, recorded_words, remedy
from ...sessions.server_rules import ServerRules
from ...sessions.start import go_on
from ..agent_options import AGENT


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
        # No operator, and no `--answer`: the safe answer.
        args.answer = "deny"
    # interlock.toml applies to agents without a limit; a recorded one has its own.
    limited = "max_cost" in args.typed or "INTERLOCK_MAX_COST" in os.environ
    try:
        # Before anything is opened for writing: a misspelt id is the likeliest mistake.
        line = open_reader(database).session(args.session)
        session, given, texts = line.id, _given(args, line, database), rule_texts(args)

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
                given=given,
                server=ServerRules(texts=texts),
            )

        return host(args, database, operator, start, headless=headless)
    except (SessionNotFound, ResumeError, AgentSpecError, JournalError) as error:
        print(f"interlock resume: {visible(str(error), keep_newlines=True)}", file=sys.stderr)
        if isinstance(error, ResumeError) and (error.missing or error.changed or error.forgetful):
            print("Here that is the option --changed-nets, with --reason TEXT.", file=sys.stderr)
        if isinstance(error, ResumeError) and error.unexplained:
            print("Here that is the option --reason TEXT.", file=sys.stderr)
        return BAD_INPUT


def _given(args: argparse.Namespace, line: SessionSummary, database: Path) -> Prepared | None:
    """The agent that continues an imported session, after the record's account of it was printed.

    `None` for a session of this journal's own, whose record has it. Raises `AgentSpecError`.
    """
    if not line.imported:
        named = [f"--{name.replace('_', '-')}" for name in AGENT if name in args.typed]
        if named:
            raise AgentSpecError(
                [
                    f"{', '.join(named)}: only for a session that was imported; '{line.id}' goes on as "
                    "its record says. Leave it out, or start a new session: interlock run"
                ]
            )
        return None
    origin = Origin(line.id, line.source, imported=True)
    for said in recorded_words(origin):
        print(f"interlock resume: {said}", file=sys.stderr)
    if not goes_on(origin):
        raise AgentSpecError([remedy(origin, args.at, database)])
    args.target = args.agent
    try:
        prepared = prepare(from_command_line(args), rule_texts(args))
    except AgentSpecError as error:
        raise AgentSpecError([*error.problems, remedy(origin, args.at, database)]) from error
    if told := added(args, prepared.spec.rules):
        print(f"interlock resume: {told}", file=sys.stderr)
    return prepared
