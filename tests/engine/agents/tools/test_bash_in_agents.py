"""The `bash` tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.agents import (
    AbortSignal,
    BashTool,
    C,
    LocalRuntime,
    T,
    ToolContext,
    ToolOutput,
    ToolResultEvent,
)

from ..script import watched


async def run(args: dict[str, object], cwd: Path | None = None) -> ToolOutput:
    """Return the tool's output without a session."""
    return await BashTool.execute(args, ToolContext(LocalRuntime(cwd), AbortSignal()))


class TestInterface:
    def test_schema(self) -> None:
        """A-120: the schema has a command, an optional timeout, and nothing else."""
        assert BashTool.name == "bash"
        assert BashTool.description == "Execute a shell command and return the output."
        parameters = BashTool.parameters
        assert list(parameters["properties"]) == ["command", "timeout"]
        assert parameters["required"] == ["command"]
        assert parameters["additionalProperties"] is False


class TestOutput:
    @pytest.mark.parametrize(
        ("command", "text"),
        [
            ("echo hello", "hello\n"),
            ("true", "(no output)"),
            ("exit 42", "[exit code: 42]"),
            ("echo e >&2", "[stderr] e\n"),
            ("echo out; echo err >&2; exit 3", "out\n\n[stderr] err\n\n[exit code: 3]"),
        ],
    )
    async def test_text(self, command: str, text: str) -> None:
        """A-121: the text has stdout, stderr and exit code, as far as present."""
        assert (await run({"command": command})).text == text

    async def test_exit_code_is_no_error(self) -> None:
        """A-122: a failed command is a normal result; its exit code is in the metadata."""
        w = await watched(C(bash={"command": "exit 4"}), T("ok"))
        await w.say("go")
        [result] = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert (result.is_error, result.metadata["exit_code"]) == (False, 4)


class TestFailure:
    async def test_timeout(self) -> None:
        """A-120, A-123: a command that exceeds its timeout is an error result."""
        w = await watched(C(c1=("bash", {"command": "sleep 1000", "timeout": 0.1})), T("ok"))
        assert 'result c1 err "Command timed out after 0.1s"' in await w.say("go")

    async def test_directory(self, tmp_path: Path) -> None:
        """A-123: a removed directory is an error result."""
        w = await watched(
            C(c1=("bash", {"command": "true"})), T("ok"), runtime=LocalRuntime(tmp_path / "gone")
        )
        seen = await w.say("go")
        assert f'result c1 err "Working directory does not exist: {tmp_path}/gone"' in seen

    @pytest.mark.parametrize("seconds", [-1, "soon"])
    async def test_invalid_timeout(self, seconds: object) -> None:
        """An invalid timeout is refused before anything runs."""
        w = await watched(C(c1=("bash", {"command": "true", "timeout": seconds})), T("ok"))
        await w.say("go")
        assert w.prompt(2)[-1].startswith('result c1 err "Invalid arguments for bash: timeout')
