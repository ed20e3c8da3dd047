"""Commands and files in a sandbox at Vercel, through the vercel package.

The package finds credentials itself: an OIDC token in `VERCEL_OIDC_TOKEN`, or `VERCEL_TOKEN` with
`VERCEL_TEAM_ID` and `VERCEL_PROJECT_ID`.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import secrets
import subprocess
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TextIO, TypeVar, cast

from ..errors import AgentRuntimeError, RuntimeFileNotFoundError
from .base import CheckedCommand, ExecResult, RuntimeBase
from .local.termination import wait_bounded
from .output import FLOOD_LIMIT, OUTPUT_LIMIT, Output, OutputLimits

if TYPE_CHECKING:
    from vercel.sandbox import CompletedProcess, Process, Sandbox, SandboxClient

T = TypeVar("T")
log = logging.getLogger(__name__)

DIRECTORY = "/vercel/sandbox"
KILL_SECONDS = 10.0
POLL_SECONDS = 0.1
KILLED = 9

# Everything that a command starts inherits a mark in its environment. The mark identifies these processes
# when the command has ended or must end, because the service tracks only one process and nothing may
# outlive its call. A process that is just starting a program briefly shows no mark, so one search is not
# enough.
_SWEEP = """
missed=0
for round in 1 2 3 4 5 6 7 8 9; do
  found=
  for file in $(grep -ls "INTERLOCK_CALL=$mark" /proc/[0-9]*/environ); do
    process=${file%/environ}
    kill -KILL "${process#/proc/}" && found=yes
  done
  [ "$found" ] && missed=0 || missed=$((missed + 1))
  [ $missed -lt 2 ] || break
done 2>/dev/null
"""
_SCRIPT = f"""
mark=$3
cd -- "$2" 2>/dev/null || {{ echo "$mark" >&2; exit 1; }}
unset OLDPWD
shell=$(command -v bash || echo sh)
exec 3>&2 2>/dev/null
(export INTERLOCK_CALL="$mark"; exec "$shell" -c "$1" </dev/null 2>&3 3>&-)
code=$?
{_SWEEP}
exit $code
"""


class VercelSandboxRuntime(RuntimeBase):
    """Runs commands with `sh -c` in a sandbox at Vercel, without standard input (A-108, A-109).

    The sandbox is created on first use, which does not count towards a command's timeout. It is stopped
    by `aclose()` or by leaving `async with`, and its files are lost. `time_limit` is its maximum lifetime
    in seconds, by default the service's; `env` is added to each command's environment. `base_url` is
    another URL of the service.

    Processes that a command leaves running under its own user are killed at its end. A killing signal
    shows only in the exit code, and bytes that are not UTF-8 arrive as the service replaces them (A-100,
    A-103). Output is limited as in `LocalRuntime`.

    Raises `AgentRuntimeError` if the service refuses a request, in addition to the errors of every
    runtime.
    """

    def __init__(
        self,
        cwd: str = DIRECTORY,
        *,
        time_limit: float | None = None,
        env: Mapping[str, str] | None = None,
        base_url: str | None = None,
        output_limit: int = OUTPUT_LIMIT,
        flood_limit: int = FLOOD_LIMIT,
    ) -> None:
        self._cwd = Path(cwd)
        if not self._cwd.is_absolute():
            raise ValueError(f"cwd must start with /, got {cwd!r}")
        self._time_limit = time_limit
        self._env = dict(env or {})
        self._base_url = base_url
        self._limits = OutputLimits(output_limit, flood_limit)
        self._creation: asyncio.Task[tuple[SandboxClient, Sandbox]] | None = None
        self._is_closed = False

    async def _run(self, command: CheckedCommand) -> ExecResult:
        sandbox = await wait_bounded(self._sandbox(), None, command.abort)
        directory = str(self._cwd / (command.cwd or "."))
        running = _Command(sandbox, command.text, directory, self._env, self._limits, command.on_data)
        result = await wait_bounded(running.result(command.timeout), command.timeout, command.abort)
        if result.exit_code == 1 and result.stderr == f"{running.mark}\n":
            raise AgentRuntimeError(f"Working directory does not exist: {directory}")
        return result

    async def read_file(self, path: str) -> str:
        """See `Runtime.read_file`; bytes that are not UTF-8 become U+FFFD."""
        sandbox = await self._sandbox()
        from vercel.sandbox import SandboxPathNotFoundError

        with _refusals(f"Cannot read {path}"):
            try:
                content = await sandbox.fs.read_bytes(str(self._cwd / path))
            except SandboxPathNotFoundError as error:
                raise RuntimeFileNotFoundError(path) from error
        return content.decode(errors="replace")

    async def write_file(self, path: str, content: str) -> None:
        """See `Runtime.write_file`."""
        target = self._cwd / path
        sandbox = await self._sandbox()
        with _refusals(f"Cannot write {path}"):
            await sandbox.fs.mkdir(str(target.parent))
            await sandbox.fs.write_bytes(str(target), content.encode())

    async def aclose(self) -> None:
        """Stop the sandbox, if there is one; nothing can run afterwards. Repeating this does nothing."""
        self._is_closed = True
        if self._creation is None:
            return
        try:
            client, sandbox = await asyncio.shield(self._creation)
        except AgentRuntimeError:
            return
        with _refusals("Cannot stop the sandbox"):
            await sandbox.stop()
        self._creation = None
        await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _sandbox(self) -> Sandbox:
        """The sandbox, created even if a caller is cancelled: an unknown sandbox could not be stopped."""
        if self._is_closed:
            raise AgentRuntimeError("The sandbox was stopped: make another runtime")
        if self._creation is None or _has_failed(self._creation):
            self._creation = asyncio.get_running_loop().create_task(self._create())
        _, sandbox = await asyncio.shield(self._creation)
        return sandbox

    async def _create(self) -> tuple[SandboxClient, Sandbox]:
        try:
            from vercel.sandbox import SandboxClient, SandboxServiceOptions
        except ImportError as error:
            raise AgentRuntimeError(
                "vercel is not installed: pip install 'interlock[vercel]', or the package vercel"
            ) from error
        client = SandboxClient.create(options=SandboxServiceOptions(base_url=self._base_url))
        try:
            with _refusals("Cannot make a sandbox"):
                sandbox = await client.create_sandbox(
                    execution_time_limit=self._time_limit, persistent=False
                )
        except BaseException:
            await client.aclose()
            raise
        return client, sandbox


class _Sink(io.TextIOBase):
    """Receives one stream of a command from the package."""

    def __init__(self, name: Literal["stdout", "stderr"], output: Output) -> None:
        self._name: Literal["stdout", "stderr"] = name
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._output.feed(self._name, text.encode(errors="replace"))
        return len(text)


class _Command:
    """A command that runs in the sandbox."""

    def __init__(
        self,
        sandbox: Sandbox,
        command: str,
        directory: str,
        env: Mapping[str, str],
        limits: OutputLimits,
        on_data: Callable[[bytes], None] | None,
    ) -> None:
        self.mark = secrets.token_hex(16)
        self._sandbox = sandbox
        self._args = ["-c", _SCRIPT, "sh", command, directory, self.mark]
        self._env = env
        self._output = Output(limits, on_data, self._stop)
        self._too_much: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._started: asyncio.Future[Process] = asyncio.get_running_loop().create_future()

    async def result(self, timeout: float | None) -> ExecResult:  # noqa: ASYNC109 - only told the service
        """Run the command to its end. Cancelling this ends it."""
        work = asyncio.ensure_future(
            self._sandbox.run_process(
                "sh",
                self._args,
                env=self._env,
                # The service's own timeout, in case this process ends before it can stop the command.
                kill_after=timeout + KILL_SECONDS if timeout else None,
                stdout=cast("TextIO", _Sink("stdout", self._output)),
                stderr=cast("TextIO", _Sink("stderr", self._output)),
                on_start=self._started.set_result,
            )
        )
        try:
            await asyncio.wait({work, self._too_much}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not work.done():
                await self._kill(work)
        if self._too_much.done():
            return self._output.result(128 + KILLED, KILLED)
        with _refusals("Cannot run the command"):
            code = work.result().returncode
        return self._output.result(code)

    def _stop(self) -> None:
        if not self._too_much.done():
            self._too_much.set_result(None)

    async def _kill(self, work: asyncio.Task[CompletedProcess]) -> None:
        """Kill the command and everything that has its mark."""
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await asyncio.wait({work, self._started}, return_when=asyncio.FIRST_COMPLETED)
                if self._started.done():
                    with contextlib.suppress(Exception):
                        await self._started.result().kill()
                # A process that was just starting may not have had the mark yet; it keeps the output
                # open.
                while not work.done():
                    await self._sandbox.run_process(
                        "sh",
                        ["-c", f"mark={self.mark}\n{_SWEEP}"],
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                    await asyncio.wait({work}, timeout=POLL_SECONDS)
        except Exception:
            log.exception("What a command started in a Vercel sandbox may still be running")
        finally:
            work.cancel()
            work.add_done_callback(_has_failed)


def _has_failed(task: asyncio.Task[T]) -> bool:
    """Return whether a task has ended without a result."""
    return task.done() and (task.cancelled() or task.exception() is not None)


@contextlib.contextmanager
def _refusals(operation: str) -> Generator[None]:
    """Raise errors of the package as `AgentRuntimeError`."""
    try:
        yield
    except AgentRuntimeError:
        raise
    except Exception as error:
        raise AgentRuntimeError(f"{operation}: Vercel's service says: {error}") from error
