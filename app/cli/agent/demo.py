"""`interlock demo`: a real agent, or a release flow, in a real repository, stopped and approved."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ....engine.agents import Agent, BashTool, LocalRuntime, ScriptedModel
from ....engine.hub.hub import Hub
from ....rules import library_rules, load_rules
from ...config.arguments import in_terminal
from ...demo.agent import TASK, next_move
from ...demo.project import create_project
from ...hosting.host import host

OFF_AT_FIRST = "block-deploy"
SECONDS_PER_WORD = 0.04


def demo(args: argparse.Namespace, database: Path, operator: str) -> int:
    """Run the demo on a screen, or without one. Returns the exit code."""
    headless = bool(args.headless)
    if not headless and not in_terminal():
        print(
            "interlock demo: not a terminal, so it runs headless; "
            f"requests are answered with '{args.answer or 'approve'}'.",
            file=sys.stderr,
        )
        headless = True
    pace = 0.0 if headless else SECONDS_PER_WORD
    if args.flow:
        from ...demo.release import host_release

        return host_release(args, database, operator, pace=pace, headless=headless)

    async def start(hub: Hub) -> str:
        session = await open_demo(hub, by=operator, pace=pace)
        await hub.send(session, TASK, by=operator)
        return session

    return host(args, database, operator, start, headless=headless)


async def open_demo(
    hub: Hub, *, by: str, pace: float = 0.0, project: Path | None = None, session_id: str | None = None
) -> str:
    """Open the demo's session on `hub`; its task is not sent yet. Returns the session's id.

    `pace` is the scripted model's time for a word in seconds, `project` the directory of its shell.
    """
    project = project or create_project()
    rules = load_rules(library_rules("deploy"), library_rules("freeze"))
    registry = rules.registry
    agent = Agent(
        ScriptedModel(next_move, delay=pace),
        name="release-bot",
        system_prompt="You ship commits.",
        tools=[BashTool],
        runtime=LocalRuntime(cwd=project),
    )
    active = [key for key in registry if key != OFF_AT_FIRST]
    return await hub.open_session(agent, registry=registry, active=active, by=by, session_id=session_id)
