"""The TypeScript example, run by Node against a server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.engine.history.model.events import CallDecided, CallResult

from ..mcp.proxy import proxy, through
from ..served import Served, served, until

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "agent.ts"
NEEDS = "runs TypeScript since Node 22.6: install a newer one from nodejs.org, or name it in NODE"


def node() -> list[str]:
    """Return the command that runs a TypeScript file; skip if Node is missing or too old."""
    program = os.environ.get("NODE") or shutil.which("node")
    if program is None:
        pytest.skip(f"there is no node here; the example {NEEDS}")
    found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(map(int, re.findall(r"\d+", found)[:2]))
    if version < (22, 6):
        pytest.skip(f"node is {found.strip()}, and {NEEDS}")
    return [program, "--experimental-strip-types", "--disable-warning=ExperimentalWarning"]


async def example(url: str, token: str, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *node(),
        EXAMPLE,
        *words,
        env={"INTERLOCK_URL": url, "INTERLOCK_TOKEN": token, "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def output_of(running: asyncio.subprocess.Process) -> tuple[int | None, str]:
    async with asyncio.timeout(60):
        out, err = await running.communicate()
    assert err == b""
    return running.returncode, out.decode()


async def decide(server: Served, *, approved: bool) -> None:
    request = (await until(server.hub.approvals))[0]
    await server.hub.decide(
        request.id, approved=approved, by="ada", reason=None if approved else "not now"
    )


class TestTypeScript:
    async def test_allowed_and_denied(self, tmp_path: Path) -> None:
        """The example runs and reports allowed calls, and prints the reason of every other one."""
        rules = "require test before deploy\nrequire human-approval before deploy"
        async with served(tmp_path, rules=rules) as server:
            running = await example(server.url, server.agent, "deploy")
            code, out = await output_of(running)
            assert code == 1
            assert out.startswith("deploy: blocked: ")
            running = await example(server.url, server.agent)
            await decide(server, approved=True)
            assert await output_of(running) == (0, "test: 12 passed\ndeploy: deployed to staging\n")
            running = await example(server.url, server.agent)
            await decide(server, approved=False)
            code, out = await output_of(running)
            assert code == 1
            assert "not now" in out
            assert await server.hub.sessions() == []

    async def test_a_lost_connection_and_a_new_server(self, tmp_path: Path) -> None:
        """The example reconnects, finds its session and waits for the same request."""
        rules = "require human-approval before deploy"
        async with proxy() as network:
            async with served(tmp_path, rules=rules, hosts=[network.name]) as server:
                through(network, server)
                address = server.address
                running = await example(network.url, server.agent, "deploy")
                first = (await until(server.hub.approvals))[0]
                network.cut()
                await asyncio.sleep(0.1)
                assert [each.id for each in await server.hub.approvals()] == [first.id]
            async with served(tmp_path, rules=rules, address=address, hosts=[network.name]) as server:
                await decide(server, approved=True)
                assert await output_of(running) == (0, "deploy: deployed to staging\n")
                events = await server.hub.recorded(first.session)
                bodies = [event.body for event in events]
                assert sum(isinstance(body, CallDecided) for body in bodies) == 1
                assert sum(isinstance(body, CallResult) for body in bodies) == 1
