"""Bytes that the console writes to a real pty of 120x40, idle and with 30 requests waiting."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from interlock.app.console.app import InterlockConsole
from interlock.engine.agents import Agent, C, ScriptedModel, ToolContext, tool
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .terminal import Terminal

REQUESTS = 30
SETTLING = 3.0
SECONDS = 10.0


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure the live screen's panes, and the queue's ages and deadlines each second."""
    for requests, name, goal in ((0, "nothing waiting", 1), (REQUESTS, f"{REQUESTS} waiting", 3)):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.bench.traffic", folder, str(requests)]
            with Terminal(command) as terminal:
                terminal.wait_for(f"{requests} waiting")
                terminal.count_bytes(SETTLING)
                if requests:
                    terminal.send("\x1b")  # The first request is in the dialog.
                    terminal.count_bytes(SETTLING)
                written = terminal.count_bytes(SECONDS)
        yield f"console writes, {name}", written / SECONDS / 1000, f"kB/s (goal ≤ {goal})"


def _child(folder: Path, requests: int) -> None:
    @tool
    async def deploy(ctx: ToolContext, ticket: str) -> str:
        """Deploy."""
        return "ok"

    async def start(hub: Hub) -> None:
        rules = compile_rules("require human-approval before deploy within 10m")
        for number in range(max(1, requests)):
            reply = C(deploy={"ticket": f"ticket-{number:04d}"})
            agent = Agent(ScriptedModel([reply]), name=f"bench-{number}", tools=[deploy])
            session = await hub.open_session(agent, SessionConfig(rules.registry))
            if requests:
                await hub.send(session, "go")

    async def run() -> None:
        hub = Hub.open(folder / "bench.db")
        await InterlockConsole(hub, operator="bench", start=start).run_async()

    asyncio.run(run())


if __name__ == "__main__":
    _child(Path(sys.argv[1]), int(sys.argv[2]))
