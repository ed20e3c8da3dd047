"""`interlock resume`: resumes a recorded session, or branches from an event of it into a new one."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ...config.arguments import (
    BAD_INPUT,
    database,
    is_for_this_run,
    refuse,
    refuse_hosting,
    report_directory,
)
from ..options import add_agent, add_hosting, add_resumption, dollars, positive

if TYPE_CHECKING:
    from ....engine.history.model.state import SessionSummary
    from ....engine.hub.hub import Hub
    from ...agents.builder import Prepared


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("session", metavar="SESSION", help="its id or the beginning of it")
    parser.add_argument("task", metavar="TASK", nargs="?", help="the next task for the agent")
    parser.add_argument(
        "--at", metavar="EVENT", type=positive, help="start a new session that continues after this event"
    )
    add_resumption(parser)
    parser.add_argument(
        "--agent",
        metavar="AGENT",
        help="for an imported session, like the options below: agent.toml or package.module:agent",
    )
    add_agent(parser)
    parser.add_argument(
        "--max-cost",
        metavar="USD",
        type=dollars,
        help="maximum cost, counted from its first event (default: as before)",
    )
    add_hosting(parser)


def run(args: argparse.Namespace) -> int:
    """Resume the session, with or without a screen. Returns the exit code."""
    if (code := refuse_hosting(args, "resume")) is not None:
        return code
    if args.headless and args.task is None and args.at is not None:
        return refuse(
            "resume",
            "a new session has nothing open to continue, so without a screen it needs a task: what "
            "should it do?",
        )
    from ....engine.history.errors import JournalError, SessionNotFound
    from ....engine.history.journal.reader import open_reader
    from ....engine.hub.hub import ResumeError
    from ...agents.spec import AgentSpecError
    from ...config.trust import rule_texts
    from ...hosting.host import host
    from ...sessions.server_rules import ServerRules
    from ...sessions.start import resume_or_branch

    # A cost limit from interlock.toml is for agents without a limit of their own; a recorded agent has
    # one.
    limited = is_for_this_run(args, "max_cost")
    try:
        # Looked up before anything is opened for writing: a misspelt id is the most likely mistake.
        session = open_reader(database(args)).session(args.session)
        prepared = _named_agent(args, session)

        async def start(hub: Hub) -> str:
            return await resume_or_branch(
                hub,
                session.id,
                args.operator,
                at=args.at,
                nets="changed" if args.changed_nets else "recorded",
                task=args.task,
                must_go_on=bool(args.headless) and args.task is None,
                max_cost=args.max_cost if limited else None,
                reason=args.reason,
                prepared=prepared,
                server=ServerRules(texts=rule_texts(args)),
            )

        return host(args, start)
    except (SessionNotFound, ResumeError, AgentSpecError, JournalError) as error:
        refuse("resume", error)
        if isinstance(error, ResumeError) and (error.missing or error.changed or error.forgetful):
            print("Here that is the option --changed-nets, with --reason TEXT.", file=sys.stderr)
        if isinstance(error, ResumeError) and error.unexplained:
            print("Here that is the option --reason TEXT.", file=sys.stderr)
        return BAD_INPUT


def _named_agent(args: argparse.Namespace, session: SessionSummary) -> Prepared | None:
    """Print the record of an imported session, and return the agent that continues it.

    Returns `None` for a session of this journal, whose record includes the agent. Raises
    `AgentSpecError`.
    """
    from ....engine.history.model.state import Origin
    from ....rules import RuleError
    from ...agents.builder import prepare
    from ...agents.command_line import AGENT_OPTIONS, from_command_line
    from ...agents.spec import AgentSpecError
    from ...config.loader import SettingsError
    from ...config.operators import report_approvers
    from ...config.trust import rule_texts
    from ...sessions.imported_session import is_resumable, record_lines, remedy

    if not session.imported:
        names = [name for name in ("agent", *AGENT_OPTIONS) if name in args.typed]
        if names:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
            raise AgentSpecError(
                [
                    f"{options}: only for a session that was imported; '{session.id}' "
                    "continues as its record says. Leave it out, or start a new session: interlock run"
                ]
            )
        return None
    origin = Origin(session=session.id, source=session.source, imported=True)
    for line in record_lines(origin):
        print(f"interlock resume: {line}", file=sys.stderr)
    if not is_resumable(origin):
        raise AgentSpecError([remedy(origin, args.at, database(args))])
    args.target = args.agent
    try:
        prepared = prepare(from_command_line(args), rule_texts(args))
    except AgentSpecError as error:
        raise AgentSpecError([*error.problems, remedy(origin, args.at, database(args))]) from error
    report_directory(args, "resume", prepared.spec.rules)
    try:
        report_approvers("resume", prepared.rules.nets)
    except (RuleError, SettingsError) as error:
        raise AgentSpecError([str(error)]) from error
    return prepared
