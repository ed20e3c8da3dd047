"""Shared by the tools' tests: running a tool without a session, and a runtime without a shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interlock.engine.agents import (
    AbortSignal,
    AgentRuntimeError,
    ExecResult,
    LocalRuntime,
    Runtime,
    Tool,
    ToolContext,
    ToolOutput,
)


async def output(tool: Tool, place: Path | Runtime, **args: object) -> ToolOutput:
    """Return the tool's output in a directory of this machine, or in a runtime."""
    runtime = LocalRuntime(place) if isinstance(place, Path) else place
    made = await tool.execute(dict(args), ToolContext(runtime, AbortSignal(), call_id="c1"))
    return ToolOutput(made) if isinstance(made, str) else made


async def text(tool: Tool, place: Path | Runtime, **args: object) -> str:
    """Return the tool's text."""
    return (await output(tool, place, **args)).text


class Shelf:
    """A runtime with files in memory whose shell knows no command, or raises."""

    cwd = Path("/shelf")

    def __init__(self, files: dict[str, str], *, raises: bool = False) -> None:
        self.files = files
        self._raises = raises

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's
        abort: AbortSignal | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        if self._raises:
            raise AgentRuntimeError("there is no shell here")
        return ExecResult("", "command not found", 127)

    async def read_file(self, path: str) -> str:
        try:
            return self.files[path]
        except KeyError as error:
            raise FileNotFoundError(path) from error

    async def write_file(self, path: str, content: str) -> None:
        self.files[path] = content
