"""The adapter for the Claude Agent SDK, with the bundled Claude Code and a fake API."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("claude_agent_sdk", reason="178 MB: make adapters ADAPTERS=claude-agent")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    ResultMessage,
    ToolPermissionContext,
    create_sdk_mcp_server,
    query,
    tool,
)

from interlock.adapters.backends import Gates
from interlock.adapters.claude_agent import ask_again, check_coverage, gate_options
from interlock.adapters.coverage import Coverage, CoverageError
from interlock.engine import create_gate
from interlock.engine.gate import ApprovalAnswer
from interlock.rules import compile_rules

from ..docs.blocks import ROOT, blocks_of
from .anthropic_server import AnthropicServer
from .contract import RULES, AdapterContract, Call, Driver, Run, Setup, Tools, place

PREFIX = "mcp__own__"


def gate_of(rules: str = RULES) -> Any:
    return create_gate(compile_rules(rules).registry)


def options_of(tools: Tools, directory: Path) -> ClaudeAgentOptions:
    """Return options with the tools in an MCP server of this program."""

    def made(function: Any) -> Any:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]

        @tool(function.__name__, function.__doc__, dict.fromkeys(names, str))
        async def run(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": function(**given)}]}

        return run

    server = create_sdk_mcp_server("own", tools=[made(each) for each in tools.functions()])
    return ClaudeAgentOptions(
        mcp_servers={"own": server},
        allowed_tools=["mcp__own"],
        setting_sources=[],
        cwd=directory,
        max_turns=6,
    )


def environment(server: AnthropicServer, directory: Path) -> dict[str, str]:
    """Return the variables that make Claude Code use the fake API and a directory for its files."""
    return {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "test",
        "CLAUDE_CONFIG_DIR": str(directory / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


class ClaudeDriver(Driver):
    """Runs and resumes sessions of Claude Code."""

    pauses = True
    directory: Path

    async def run(self, setup: Setup) -> Run:
        options = gate_options(
            options_of(setup.tools, self.directory),
            setup.gate,
            thread=setup.thread,
            pause_after=setup.pause_after,
            short_names=True,
        )
        return await self._query("go", options, AnthropicServer(setup.calls, PREFIX))

    async def resume(self, setup: Setup, paused: Any) -> Run:
        options = gate_options(
            options_of(setup.tools, self.directory),
            setup.gate,
            thread=setup.thread,
            pause_after=0.0,
            short_names=True,
        )
        if not await ask_again(options, paused.deferred_tool_use, paused.session_id):
            return Run({}, paused)
        options = replace(options, resume=paused.session_id)
        return await self._query("", options, AnthropicServer((), PREFIX))

    async def _query(self, prompt: str, options: ClaudeAgentOptions, server: AnthropicServer) -> Run:
        paused: object = None
        with server.running():
            env = environment(server, self.directory)
            async for message in query(prompt=prompt, options=replace(options, env=env)):
                if isinstance(message, ResultMessage) and message.deferred_tool_use is not None:
                    paused = message
        return Run(server.results(), paused)

    async def coverage(self, tools: Tools, gate: Gates) -> Coverage:
        return await check_coverage(gate_options(options_of(tools, self.directory), gate))


class TestContract(AdapterContract):
    driver: ClassVar[ClaudeDriver] = ClaudeDriver()  # type: ignore[misc]

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory = tmp_path / "claude"
        directory.mkdir()
        monkeypatch.setattr(self.driver, "directory", directory, raising=False)
        for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
            monkeypatch.delenv(name)

    async def test_coverage(self) -> None:  # type: ignore[override]
        """The probe is blocked; the report names no tools, because Claude Code is not started."""
        found = await self.driver.coverage(Tools(), Gates(gate_of()))
        assert found.gated == ("every tool of Claude Code",)
        assert found.unseen == {}

    async def test_two_calls_wait(self, tmp_path: Path) -> None:
        """Of two waiting calls Claude Code resumes with the last one and drops the other."""
        tools = Tools()
        calls = [Call("c1", "push", {"branch": "a"}), Call("c2", "push", {"branch": "b"})]
        async with place("at a server", tmp_path) as where:
            run = await self.driver.run(Setup(tools, where.gates(), calls, pause_after=0.0))
            assert run.paused is not None
            assert tools.ran == []
            where.operator.answers["push"] = ApprovalAnswer(True)
            while run.paused is not None:
                run = await self.driver.resume(Setup(tools, where.gates(), calls), run.paused)
        assert tools.ran == [("push", {"branch": "b"})]
        assert list(run.outputs) == ["c2"]


class TestPage:
    async def test_its_program_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The page's program gates Claude Code's own tools; other pages' run in `test_blocks.py`."""
        page = ROOT / "docs" / "how-to" / "adapters" / "claude-agent.md"
        program = ""
        for block in blocks_of(page):
            if block.title is not None:
                (tmp_path / block.title).write_text(block.text)
            elif block.language == "python":
                program += block.text
        monkeypatch.chdir(tmp_path)
        server = AnthropicServer([Call("c1", "Bash", {"command": "rm -r x"})], "")
        with server.running():
            for name, value in environment(server, tmp_path).items():
                monkeypatch.setenv(name, value)
            await asyncio.to_thread(exec, compile(program, str(page), "exec"), {"__name__": "page"})
        assert "blocked" in server.results()["c1"]
        assert "as it should be" in capsys.readouterr().out


class TestOptions:
    def test_other_hooks_before_calls(self) -> None:
        """Another hook before calls is refused, because it could change an approved input."""
        options = ClaudeAgentOptions(hooks={"PreToolUse": [HookMatcher(hooks=[])]})
        with pytest.raises(ValueError, match="could change an input"):
            gate_options(options, gate_of())

    async def test_permission_callback_cannot_change_the_input(self) -> None:
        """A callback may allow or deny a judged call, but not change its input."""
        changes = [None, {"env": "a"}, {"env": "b"}]

        async def can_use(_: str, __: Any, ___: Any) -> Any:
            return PermissionResultAllow(updated_input=changes.pop(0))

        options = gate_options(ClaudeAgentOptions(can_use_tool=can_use), gate_of())
        assert options.can_use_tool is not None
        context = ToolPermissionContext()
        found = [await options.can_use_tool("deploy", {"env": "a"}, context) for _ in range(3)]
        assert [each.behavior for each in found] == ["allow", "allow", "deny"]

    async def test_missing_hooks_are_reported(self) -> None:
        """Options without the hooks are reported."""
        with pytest.raises(CoverageError, match="not because of the gate"):
            await check_coverage(ClaudeAgentOptions())

    async def test_hook_that_fails_open_is_reported(self) -> None:
        """A hook whose failure would allow a call is reported."""
        options = gate_options(ClaudeAgentOptions(), gate_of())
        assert options.hooks is not None
        options.hooks["PreToolUse"][0].on_failure = "continue"
        with pytest.raises(CoverageError, match="does not block when it fails"):
            await check_coverage(options)

    async def test_settings_files_are_named(self) -> None:
        """The report mentions hooks in settings files, which may change an input after the gate."""
        found = await check_coverage(gate_options(ClaudeAgentOptions(), gate_of()))
        assert "hooks in settings files" in found.unseen["setting_sources"]
