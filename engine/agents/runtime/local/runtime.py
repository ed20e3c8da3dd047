"""Commands and files on this machine, with this program's own rights."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import BinaryIO, Literal

from ....core.condition import Shell, shell_named
from ...errors import AgentRuntimeError
from ..base import CheckedCommand, ExecResult, RuntimeBase
from ..output import FLOOD_LIMIT, OUTPUT_LIMIT, OutputLimits
from .environment import environment_without_secrets
from .process import Launch, run, shell_program


class LocalRuntime(RuntimeBase):
    """Runs commands with `bash -c`, or `sh -c` if bash is not installed, without standard input.

    See A-101 and A-109. Rules parse the commands for that shell (G-51), which is `shell`.

    Commands do not get Interlock's own variables, those named like a provider's key (`…_API_KEY`,
    `…_TOKEN`, `AWS_SECRET_…`), or those that `secrets` names; they always get those in `env`. This keeps
    a key out of their output, but does not protect it from a command that searches for it: commands have
    this program's rights.

    Up to `output_limit` bytes each of stdout and stderr are kept; the rest is read and dropped. A command
    that exceeds the limit of both, or writes more than `flood_limit`, is killed (A-102). A background
    process may write for a second after the shell ended; then it is killed. So are processes that left
    the shell's session, but only on Linux (`supervisor`).
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
        output_limit: int = OUTPUT_LIMIT,
        flood_limit: int = FLOOD_LIMIT,
    ) -> None:
        self._cwd = Path.cwd() if cwd is None else Path(cwd).absolute()
        self._env = dict(env or {})
        self._secrets = frozenset(secrets)
        self._limits = OutputLimits(output_limit, flood_limit)
        self._shell = shell_program()

    @property
    def shell(self) -> Shell | None:
        return shell_named(self._shell)

    async def _run(self, command: CheckedCommand) -> ExecResult:
        directory = self._cwd if command.cwd is None else self._cwd / command.cwd
        if not directory.is_dir():
            raise AgentRuntimeError(f"Working directory does not exist: {directory}")
        environment = environment_without_secrets(os.environ, self._secrets) | self._env
        launch = Launch([self._shell, "-c", command.text], directory, environment, has_supervisor=True)
        return await run(
            launch, self._limits, timeout=command.timeout, abort=command.abort, on_data=command.on_data
        )

    async def read_file(self, path: str) -> str:
        """See `Runtime.read_file`; bytes that are not UTF-8 become U+FFFD.

        Raises `AgentRuntimeError` for a path that is not a regular file.
        """

        def read() -> bytes:
            with _regular(self._cwd / path, "rb") as file:
                return file.read()

        return (await asyncio.to_thread(read)).decode(errors="replace")

    async def write_file(self, path: str, content: str) -> None:
        """See `Runtime.write_file`. Raises `AgentRuntimeError` for a path that is not a regular file."""

        def write() -> None:
            target = self._cwd / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with _regular(target, "wb") as file:
                file.write(content.encode())

        await asyncio.to_thread(write)


@contextlib.contextmanager
def _regular(path: Path, mode: Literal["rb", "wb"]) -> Generator[BinaryIO]:
    """Open a regular file, never a pipe: a thread could wait forever for a pipe's other end."""
    try:
        with open(path, mode, opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise AgentRuntimeError(f"{path} is not a regular file")
            yield file
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise AgentRuntimeError(f"{path} is not a regular file") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o666)
