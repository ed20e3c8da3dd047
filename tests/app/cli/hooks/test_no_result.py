"""Calls that Interlock allowed and the agent's user then refused: no hook reports a result."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from interlock.app.cli.hooks.command_line import HookLine
from interlock.app.cli.hooks.install import hook_command
from interlock.engine.history.model.events import CallResult
from tests.engine.gateway.served import Served, served

from .running import Hook, Ran, recorded
from .test_starting import servers, started

SESSION = "claude-6f1c6c7e-9d0c-4a57-8d62-1f6a2c2b9f10"
RULES = "require test before deploy\nlimit push to 1 per session\n"


def call(tool: str, number: str) -> dict[str, object]:
    return recorded("pre_bash", tool_name=tool, tool_input={}, tool_use_id=number)


async def results(server: Served) -> list[CallResult]:
    return [e.body for e in await server.hub.recorded(SESSION) if isinstance(e.body, CallResult)]


class TestStop:
    async def test_call_without_result_becomes_unknown(self, tmp_path: Path) -> None:
        """At the turn's end the call is recorded as unknown, and no net waits for it."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            assert (await hook.run(call("test", "t1"))).out == ""
            assert (await server.hub.session(SESSION)).pending
            assert await hook.run(recorded("stop")) == Ran(0, "", "")
            state = await server.hub.session(SESSION)
            assert (state.pending, state.calls["t1"].status) == ([], "unknown")
            assert "successful call to test" in (await hook.run(call("deploy", "d1"))).out

    @pytest.mark.slow
    async def test_next_call_within_the_turn_closes_nothing(self, tmp_path: Path) -> None:
        """A next call within the turn closes nothing, because calls may run in parallel."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(call("test", "t1"))
            await hook.run(call("ls", "l1"))
            assert (await hook.run(recorded("post_bash", tool_name="test", tool_use_id="t1"))).code == 0
            assert (await hook.run(call("deploy", "d1"))).out == ""

    async def test_unknown_session_is_accepted(self, tmp_path: Path) -> None:
        """The end of a turn without calls is accepted silently."""
        async with served(tmp_path, rules=RULES) as server:
            assert await Hook.at(tmp_path / "home", server).run(recorded("stop")) == Ran(0, "", "")
            assert await server.hub.sessions() == []

    async def test_restarted_server_closes_earlier_calls(self, tmp_path: Path) -> None:
        """A restarted server closes calls that were allowed before the restart."""
        async with served(tmp_path, rules=RULES) as server:
            await Hook.at(tmp_path / "home", server).run(call("test", "t1"))
        async with served(tmp_path, rules=RULES) as server:
            assert (await Hook.at(tmp_path / "home", server).run(recorded("stop"))).code == 0
            assert (await server.hub.session(SESSION)).pending == []

    async def test_starts_no_server(self) -> None:
        """The end of a turn starts no server."""
        async with started() as hook:
            assert await hook.run(recorded("stop")) == Ran(0, "", "")
            assert servers(hook) == []

    async def test_failure_has_exit_code_1(self, tmp_path: Path) -> None:
        """The Stop hook's line fails with exit code 1: at 2 Claude Code would continue for ever."""
        line = hook_command("claude-code", (str(tmp_path / "none"),), HookLine(), "Stop")
        process = await asyncio.create_subprocess_shell(
            line, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        await process.communicate(json.dumps(recorded("stop")).encode())
        assert process.returncode == 1


class TestBackground:
    async def test_background_call_meets_no_requirement(self, tmp_path: Path) -> None:
        """A background call meets no requirement; at the turn's end it is unknown."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            begun = recorded("claude_2.1.330_background_bash", tool_name="test", tool_use_id="t1")
            assert (await hook.run(call("test", "t1"))).out == ""
            assert await hook.run(begun) == Ran(0, "", "")
            assert (await server.hub.session(SESSION)).calls["t1"].status == "running"
            assert "successful call to test" in (await hook.run(call("deploy", "d1"))).out
            await hook.run(recorded("stop", background_tasks=[{"id": "b1", "type": "shell"}]))
            assert (await server.hub.session(SESSION)).calls["t1"].status == "unknown"

    @pytest.mark.slow
    async def test_turn_end_closes_nothing_while_subagents_work(self, tmp_path: Path) -> None:
        """The end of a turn closes nothing while subagents work: their results are still to come."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(call("test", "t1"))
            assert await hook.run(recorded("claude_2.1.330_stop_at_work")) == Ran(0, "", "")
            await hook.run(recorded("post_bash", tool_name="test", tool_use_id="t1"))
            assert (await hook.run(call("deploy", "d1"))).out == ""


class TestSessionEnd:
    async def test_call_without_result_becomes_unknown(self, tmp_path: Path) -> None:
        """At the session's end the call is closed as unknown, and then the session is closed."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(call("test", "t1"))
            assert await hook.run(recorded("session_end_clear")) == Ran(0, "", "")
            [result] = await results(server)
            assert (result.call_id, result.unknown) == ("t1", True)
            assert await server.hub.sessions() == []
