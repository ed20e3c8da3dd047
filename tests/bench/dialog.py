"""Time from an approval request to the dialog that shows it, in the console on a real pty.

A bare interpreter is started before each request.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from interlock.app.console.app import InterlockConsole
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool
from interlock.engine.gate import ApprovalAnswer, ApprovalRequest
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.engine.sessions.hosted import HostedSession
from interlock.rules import compile_rules

from .interpreter import bare_start
from .terminal import Terminal

REQUESTS = 40
AWAKE = 0.6
RAISED = "raised.txt"


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure requests, each with its own number: from the gate's request to the painted number."""
    with tempfile.TemporaryDirectory() as folder:
        with Terminal([sys.executable, "-m", "tests.bench.dialog", folder]) as terminal:
            painted, starts = [], []
            for number in range(REQUESTS):
                # It is quoted in the dialog; the queue and the transcript show it unquoted.
                painted.append(terminal.wait_for(f'"ticket-{number:04d}"'))
                starts.append(bare_start())
                time.sleep(AWAKE)
                terminal.send("a")
            terminal.wait_for("all asked")
        raised = [float(line) for line in (Path(folder) / RAISED).read_text().split()]
    delays = sorted((p - r) * 1000 for p, r in zip(painted, raised, strict=True))
    cuts = quantiles(delays, n=20, method="inclusive")
    yield "request raised → dialog painted, p50", cuts[9], "ms"
    yield "request raised → dialog painted, p95", cuts[18], "ms (goal ≤ 50)"
    start = median(starts) * 1000
    yield "python -c pass", start, "ms"
    yield "dialog painted, p50 / python -c pass", cuts[9] / start, "ratio of medians (goal ≤ 1)"


def _child(folder: Path) -> None:
    ask = HostedSession._confirm

    async def timed(self: HostedSession, request: ApprovalRequest) -> ApprovalAnswer:
        with (folder / RAISED).open("a") as file:
            file.write(f"{time.monotonic()}\n")
        return await ask(self, request)

    HostedSession._confirm = timed

    @tool
    async def deploy(ctx: ToolContext, ticket: str) -> str:
        """Deploy."""
        return "ok"

    replies = [C(deploy={"ticket": f"ticket-{n:04d}"}) for n in range(REQUESTS)]

    async def start(hub: Hub) -> str:
        await asyncio.sleep(1.0)
        agent = Agent(ScriptedModel([*replies, T("all asked")]), name="bench", tools=[deploy])
        rules = compile_rules("require human-approval before deploy")
        session = await hub.open_session(agent, SessionConfig(rules.registry))
        await hub.send(session, "go")
        return session

    async def run() -> None:
        hub = Hub.open(folder / "bench.db")
        await InterlockConsole(hub, operator="bench", start=start).run_async()

    asyncio.run(run())


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
