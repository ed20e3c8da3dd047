"""Runtime for tests: files in memory, and commands with scripted behaviour."""

from __future__ import annotations

import inspect
import posixpath
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ..errors import AgentRuntimeError, RuntimeFileNotFoundError
from .base import CheckedCommand, ExecResult, RuntimeBase
from .local.termination import wait_bounded
from .output import FLOOD_LIMIT, OUTPUT_LIMIT, Output, OutputLimits

DIRECTORY = "/home/user"
KILLED = 9


class FakeCall:
    """One command as its script sees it.

    `files` are the runtime's own, by absolute path; `stdin` is always empty (A-109).
    """

    stdin = ""

    def __init__(self, command: str, cwd: Path, files: dict[str, str], output: Output) -> None:
        self.command = command
        self.cwd = cwd
        self.files = files
        self._output = output

    def write(self, data: str | bytes) -> None:
        """Write to stdout. Does not return if the command has exceeded its output limit."""
        self._feed(data, is_error=False)

    def write_error(self, data: str | bytes) -> None:
        """Write to stderr. Does not return if the command has exceeded its output limit."""
        self._feed(data, is_error=True)

    def _feed(self, data: str | bytes, *, is_error: bool) -> None:
        content = data.encode() if isinstance(data, str) else data
        self._output.feed("stderr" if is_error else "stdout", content)
        if self._output.is_too_much or self._output.problem is not None:
            raise _Killed


FakeReply = ExecResult | str | int | None
FakeScript = Callable[[FakeCall], FakeReply | Awaitable[FakeReply]]


class FakeRuntime(RuntimeBase):
    """Files in memory and scripted commands, for tests of agents and tools (A-108).

    `commands` maps each exact command to its behaviour: a text is its stdout, a number its exit code, and
    an `ExecResult` its whole result. A function is called with a `FakeCall` and returns one of these, or
    `None` for success. `otherwise` answers every other command; without it they exit with 127, as in a
    shell. Limits, timeout and abort apply to a command's output as in other runtimes. `calls` are the
    commands so far. `files` maps paths to texts; a directory exists if it is `cwd` or contains a file.
    """

    def __init__(
        self,
        commands: Mapping[str, FakeReply | FakeScript] | None = None,
        *,
        cwd: str = DIRECTORY,
        files: Mapping[str, str] | None = None,
        otherwise: FakeScript | None = None,
        output_limit: int = OUTPUT_LIMIT,
        flood_limit: int = FLOOD_LIMIT,
    ) -> None:
        if not cwd.startswith("/"):
            raise ValueError(f"cwd must start with /, got {cwd!r}")
        self._cwd = Path(posixpath.normpath(cwd))
        self._commands = dict(commands or {})
        self._otherwise = otherwise or _not_found
        self._limits = OutputLimits(output_limit, flood_limit)
        self.files = {self._path(path): text for path, text in (files or {}).items()}
        self.calls: list[str] = []

    async def _run(self, command: CheckedCommand) -> ExecResult:
        directory = self._path(command.cwd or ".")
        if not self._is_directory(directory):
            raise AgentRuntimeError(f"Working directory does not exist: {directory}")
        self.calls.append(command.text)
        script = self._commands.get(command.text, self._otherwise)
        output = Output(self._limits, command.on_data)
        call = FakeCall(command.text, Path(directory), self.files, output)
        return await wait_bounded(_play(script, call, output), command.timeout, command.abort)

    async def read_file(self, path: str) -> str:
        """See `Runtime.read_file`."""
        full_path = self._path(path)
        if self._is_directory(full_path):
            raise IsADirectoryError(f"Is a directory: {path}")
        if full_path not in self.files:
            raise RuntimeFileNotFoundError(path)
        return self.files[full_path]

    async def write_file(self, path: str, content: str) -> None:
        """See `Runtime.write_file`."""
        full_path = self._path(path)
        if self._is_directory(full_path):
            raise IsADirectoryError(f"Is a directory: {path}")
        self.files[full_path] = content

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(str(self._cwd), path))

    def _is_directory(self, path: str) -> bool:
        inside = (self._cwd, *map(PurePosixPath, self.files))
        return path == str(self._cwd) or any(PurePosixPath(path) in each.parents for each in inside)


class _Killed(BaseException):
    """Ends a script that exceeded the output limit; the script's `except Exception` does not catch it."""


async def _play(script: FakeReply | FakeScript, call: FakeCall, output: Output) -> ExecResult:
    """Return the result of a script's reply, and feed its output to `output`."""
    try:
        reply = script(call) if callable(script) else script
        if inspect.isawaitable(reply):
            reply = await reply
        match reply:
            case ExecResult():
                call.write(reply.stdout)
                call.write_error(reply.stderr)
                result = output.result(reply.exit_code, reply.signal)
                return replace(result, truncated=result.truncated or reply.truncated)
            case str():
                call.write(reply)
                return output.result(0)
            case _:
                return output.result(reply or 0)
    except _Killed:
        return output.result(128 + KILLED, KILLED)


def _not_found(call: FakeCall) -> int:
    words = call.command.split()
    call.write_error(f"sh: {words[0] if words else ''}: not found\n")
    return 127
