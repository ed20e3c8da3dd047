"""Signals to a command that hosts a session without a screen."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from interlock.engine.history.journal.reader import open_reader
from tests.app.cli.server.test_serve import surroundings
from tests.support.forked import COMMANDS, python_with

AGENT = """
import asyncio
from interlock.engine.agents import Agent, C, ScriptedModel, T, tool

@tool
async def build() -> str:
    \"\"\"Build.\"\"\"
    print("building", flush=True)
    await asyncio.sleep(60)
    return "built"

agent = Agent(ScriptedModel([C(b1=("build", {})), T("done")], name="m"), name="bot", tools=[build])
"""


class TestHeadless:
    @pytest.mark.slow
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
    async def test_ends_its_session_in_order(self, tmp_path: Path, number: signal.Signals) -> None:
        """The end of the call and of the session is recorded, and no traceback is printed."""
        (tmp_path / "team.py").write_text(AGENT)
        (tmp_path / "a.rules").write_text("")
        line = ("run", "team:agent", "go", "--rules", "a.rules", "--headless", "--answer", "deny")
        process = await asyncio.create_subprocess_exec(
            *python_with(*COMMANDS),
            *("-m", "interlock.app.cli", *line),
            cwd=tmp_path,
            env=surroundings(tmp_path) | {"PYTHONUNBUFFERED": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while b"building" not in (said := await process.stdout.readline()):
                assert said
            process.send_signal(number)
            _, err = await process.communicate()
        assert (process.returncode, err.decode()) == (128 + number, "")
        reader = open_reader(tmp_path / "journal.db")
        [session] = reader.sessions()
        assert session.status == "done"
        assert [each.body.type for each in reader.events(session.id)].count("call.result") == 1
