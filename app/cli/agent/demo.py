"""`interlock demo`: a real agent or a release flow in a real repository, blocked and then approved."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.arguments import database, in_terminal, own_journal, refuse_read_only
from ..options import add_hosting, add_switch

if TYPE_CHECKING:
    from ....engine.hub.hub import Hub

SECONDS_PER_WORD = 0.04


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_switch(parser, "--flow", "run a release flow instead, with steps for agents and people")
    add_hosting(parser)


def run(args: argparse.Namespace) -> int:
    """Run the demo, with or without a screen. Returns the exit code."""
    if args.read_only:
        return refuse_read_only("demo")
    if not args.headless and not in_terminal():
        print(
            "interlock demo: not a terminal, so it runs headless; "
            f"requests are answered with '{args.answer or 'approve'}'.",
            file=sys.stderr,
        )
        args.headless = True
    if args.answer is None:
        args.answer = "approve"
    _use_own_journal(args)
    pace = 0.0 if args.headless else SECONDS_PER_WORD
    if args.flow:
        from ...demo.release import host_release

        return host_release(args, pace=pace)
    from ...demo.agent import TASK, open_demo
    from ...hosting.host import host

    async def start(hub: Hub) -> str:
        session = await open_demo(hub, by=args.operator, pace=pace)
        await hub.send(session, TASK, by=args.operator)
        return session

    return host(args, start)


def _use_own_journal(args: argparse.Namespace) -> None:
    """Record in a journal next to the user's own, unless the command line names one.

    While a console has a journal open, hooks of other agents that record in it are refused.
    """
    if "db" in args.typed:
        return
    found = database(args)
    usual = found if isinstance(found, Path) else own_journal()
    args.db = usual.with_name(f"{usual.stem}-demo{usual.suffix}")
    args.typed |= {"db"}
    args.journal_notice = f"The demo has a journal of its own: {args.db}"
    if args.headless:
        print(
            f"interlock demo: {args.journal_notice[0].lower()}{args.journal_notice[1:]}", file=sys.stderr
        )
