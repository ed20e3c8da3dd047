"""`interlock mcp --self-test`: the proxy in front of a real server blocks the probe."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from interlock.engine.history.model.events import CallDecided

from ..served import Served, served

SERVER = Path(__file__).parent / "mcp_server.py"


async def self_test(directory: Path, server: Served | None, *line: str) -> tuple[int | None, str]:
    """Return the exit code and the output of the command in front of the shop's server."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "interlock.app.cli", "mcp", "--self-test", *line),
        *("--", sys.executable, str(SERVER)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=directory,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")},
            "INTERLOCK_URL": server.url if server else "ws://127.0.0.1:9",
            "INTERLOCK_TOKEN": server.agent if server else "t",
            "MCP_RAN": str(directory / "ran"),
        },
    )
    async with asyncio.timeout(90):
        out, _ = await process.communicate()
    return process.returncode, out.decode()


@pytest.mark.slow
class TestSelfTest:
    async def test_blocks_the_probe(self, tmp_path: Path) -> None:
        """The gate's server records the probe, no tool of the server runs, and the output lists them."""
        async with served(tmp_path) as server:
            code, out = await self_test(tmp_path, server, "--prefix", "shop_")
            assert code == 0, out
            assert "ok: the probe was blocked" in out
            assert "deploy" in out
            assert "note: not seen: " in out
            assert not (tmp_path / "ran").exists()
            sessions = [each.id for each in await server.hub.history()]
            events = [event.body for each in sessions for event in await server.hub.recorded(each)]
            [decided] = [each for each in events if isinstance(each, CallDecided)]
            assert decided.tool == "shop_interlock_probe"

    async def test_shadow_mode_note_says_other_calls_run(self, tmp_path: Path) -> None:
        """In shadow mode the probe is blocked, and a note says that no other call is blocked."""
        async with served(tmp_path, mode="shadow") as server:
            code, out = await self_test(tmp_path, server)
        assert code == 0, out
        assert "note: The server is in shadow mode: it records decisions, and blocks no other call" in out

    async def test_fails_without_a_server(self, tmp_path: Path) -> None:
        """Without a server the self-test fails, because a refused call proves nothing."""
        code, out = await self_test(tmp_path, None)
        assert code == 1
        assert "FAULT: " in out
