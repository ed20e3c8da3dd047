"""Commands and files on this machine.

Each command has a process group of its own. When it ends, for whatever reason, the group is killed:
nothing outlives the call that was approved, except what moved itself to another session (A-104).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path

from ..abort import AbortSignal
from ..errors import AgentRuntimeError, RuntimeAbortError, RuntimeTimeoutError
from .base import ExecResult

OUTPUT_LIMIT = 1_048_576
FLOOD_LIMIT = 256 * OUTPUT_LIMIT
LAST_WORDS_SECONDS = 1.0


class LocalRuntime:
    """Runs commands with `/bin/sh -c`, without standard input (A-101, A-109).

    stdout and stderr are each kept up to `output_limit` bytes and the rest is read and dropped; a command
    that fills both, or writes more than `flood_limit`, is killed (A-102). A background process may write
    for a second after the shell ended, then it is killed.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        output_limit: int = OUTPUT_LIMIT,
        flood_limit: int = FLOOD_LIMIT,
    ) -> None:
        self._cwd = Path.cwd() if cwd is None else Path(cwd).absolute()
        self._output_limit = output_limit
        self._flood_limit = flood_limit

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
        if timeout is not None and (math.isnan(timeout) or timeout < 0):
            raise ValueError(f"timeout must be seconds from 0, got {timeout:g}")
        directory = self._cwd if cwd is None else self._cwd / cwd
        if abort is not None and abort.aborted:
            raise RuntimeAbortError
        if not directory.is_dir():
            raise AgentRuntimeError(f"Working directory does not exist: {directory}")
        running = _Command(self._output_limit, self._flood_limit, on_data)
        watch = abort or AbortSignal()
        forget = watch.on_abort(running.stop)
        timer = asyncio.timeout(timeout or None)
        try:
            async with timer:
                await running.start(command, directory)
                if watch.aborted:
                    running.stop()
                code = await running.ended()
        except TimeoutError:
            if timeout and timer.expired():
                raise RuntimeTimeoutError(timeout) from None
            raise
        finally:
            forget()
            await running.clean_up()
        if watch.aborted:
            raise RuntimeAbortError
        return ExecResult(
            stdout=running.out.text(),
            stderr=running.err.text(),
            exit_code=128 - code if code < 0 else code,
            truncated=running.out.truncated or running.err.truncated,
            signal=-code if code < 0 else None,
        )

    async def read_file(self, path: str) -> str:
        """See `Runtime.read_file`; bytes that are no UTF-8 become U+FFFD."""
        return await asyncio.to_thread((self._cwd / path).read_text, "utf-8", "replace")

    async def write_file(self, path: str, content: str) -> None:
        """See `Runtime.write_file`."""

        def write() -> None:
            target = self._cwd / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, "utf-8")

        await asyncio.to_thread(write)


class _Output(asyncio.Protocol):
    """One of a command's output streams: keeps what fits, counts the rest."""

    def __init__(self, limit: int, received: Callable[[bytes], None]) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self.total = 0
        self._kept = bytearray()
        self._limit = limit
        self._received = received

    def data_received(self, data: bytes) -> None:
        room = self._limit - len(self._kept)
        self.total += len(data)
        self._kept += data[:room]
        self._received(data[:room])

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def truncated(self) -> bool:
        return self.total > self._limit

    def text(self) -> str:
        return self._kept.decode(errors="replace")


class _Command:
    """A running command with pipes of our own, so that a stray child cannot keep us waiting."""

    def __init__(
        self, output_limit: int, flood_limit: int, on_data: Callable[[bytes], None] | None
    ) -> None:
        self.out = _Output(output_limit, self._received)
        self.err = _Output(output_limit, self._received)
        self._flood_limit = flood_limit
        self._on_data = on_data
        self._problem: Exception | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._pipes: list[asyncio.ReadTransport] = []

    async def start(self, command: str, directory: Path) -> None:
        """Start the shell. A cancellation that comes meanwhile waits until it can be killed."""
        out = await self._pipe(self.out)
        try:
            err = await self._pipe(self.err)
        except BaseException:
            os.close(out)
            raise
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                command,
                cwd=directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        )
        try:
            self._process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                self._process = await starting
            raise
        except OSError as error:
            raise AgentRuntimeError(f"Cannot start /bin/sh in {directory}: {error}") from error
        finally:
            os.close(out)
            os.close(err)

    async def _pipe(self, output: _Output) -> int:
        """Connect `output` to a new pipe; returns the end to write to."""
        read, write = os.pipe()
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: output, os.fdopen(read, "rb", 0)
            )
        except BaseException:
            os.close(write)
            raise
        self._pipes.append(transport)
        return write

    async def ended(self) -> int:
        """Wait for the shell and its last words; its return code, negative for a signal."""
        assert self._process is not None
        code = await self._process.wait()
        await asyncio.wait({self.out.closed, self.err.closed}, timeout=LAST_WORDS_SECONDS)
        if self._problem is not None:
            raise self._problem
        return code

    def stop(self) -> None:
        """Kill the whole process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def clean_up(self) -> None:
        """Kill what is left and close the pipes."""
        self.stop()
        for pipe in self._pipes:
            pipe.close()
        if self._process is not None:
            await self._process.wait()

    def _received(self, data: bytes) -> None:
        both_full = self.out.truncated and self.err.truncated
        if both_full or self.out.total + self.err.total > self._flood_limit:
            self.stop()
        if data and self._on_data is not None and self._problem is None:
            try:
                self._on_data(data)
            except Exception as error:
                self._problem = error
                self.stop()
