"""Interface of runtimes, which run commands and store files for tools."""

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

    `exit_code` is 128 plus the number of the `signal` that killed the command (A-100). `truncated` means
    that output was left out (A-102).
    """

    stdout: str
    stderr: str
    exit_code: int
    truncated: bool = False
    signal: int | None = None


class Runtime(Protocol):
    """Environment to run commands and store files; relative paths start at `cwd` (A-107)."""

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
        """Run a shell command. `timeout` is in seconds; `None` and 0 mean no limit.

        `on_data` receives output as it arrives. Raises `RuntimeTimeoutError`, `RuntimeAbortError`, or
        `AgentRuntimeError` if the command cannot be started; an exit code is not an error (A-100).
        """
        ...

    async def read_file(self, path: str) -> str:
        """Read a file as text. Raises `FileNotFoundError` (A-106)."""
        ...

    async def write_file(self, path: str, content: str) -> None:
        """Write a file, and create its directories (A-106)."""
        ...


@dataclass(frozen=True, slots=True)
class CheckedCommand:
    """Validated arguments of `Runtime.exec`."""

    text: str
    cwd: str | None
    timeout: float | None
    abort: AbortSignal | None
    on_data: Callable[[bytes], None] | None


class RuntimeBase(ABC):
    """Validates a command before any part of it runs; each runtime implements how it runs."""

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
