"""Interface of runtimes, which run commands and keep files for tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..turn.abort import AbortSignal
from .local.termination import check_call


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of a command.

    `exit_code` is 128 plus the number of `signal` when one killed the command (A-100). `truncated` says
    that output was left out (A-102).
    """

    stdout: str
    stderr: str
    exit_code: int
    truncated: bool = False
    signal: int | None = None


class Runtime(Protocol):
    """A place to run commands and keep files; relative paths start at `cwd` (A-107)."""

    @property
    def cwd(self) -> Path: ...

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - part of what a command means, not of waiting
        abort: AbortSignal | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        """Run a shell command. `timeout` is in seconds; `None` and 0 mean none.

        `on_data` sees output as it comes. Raises `RuntimeTimeoutError`, `RuntimeAbortError`, or
        `AgentRuntimeError` when the command cannot be started; an exit code is a value (A-100).
        """
        ...

    async def read_file(self, path: str) -> str:
        """A file's text. Raises `FileNotFoundError` (A-106)."""
        ...

    async def write_file(self, path: str, content: str) -> None:
        """Write a file, making its directories (A-106)."""
        ...


@dataclass(frozen=True, slots=True)
class CheckedCommand:
    """Arguments of `Runtime.exec` that may run."""

    text: str
    cwd: str | None
    timeout: float | None
    abort: AbortSignal | None
    on_data: Callable[[bytes], None] | None


class RuntimeBase(ABC):
    """Checks a command before anything of it runs; each runtime says how it runs."""

    _cwd: Path

    @property
    def cwd(self) -> Path:
        return self._cwd

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - part of what a command means, not of waiting
        abort: AbortSignal | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        """See `Runtime.exec`. Raises `ValueError` for a negative or undefined timeout."""
        check_call(command, timeout, abort)
        return await self._run(CheckedCommand(command, cwd, timeout, abort, on_data))

    @abstractmethod
    async def _run(self, command: CheckedCommand) -> ExecResult: ...
