"""Commands and files on this machine.

Each command has a process group of its own. When it ends, for whatever reason, the group is killed:
nothing outlives the call that was approved, except what moved itself to another session (A-104).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import signal
import subprocess
import threading
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
    """A running command.

    Its pipes are ours, so that a stray child cannot keep us waiting, and it is started without a pause in
    between: no cancellation can come when the process exists and is not known. Its exit is seen before
    it is reaped; until then its process group cannot be somebody else's.
    """

    def __init__(
        self, output_limit: int, flood_limit: int, on_data: Callable[[bytes], None] | None
    ) -> None:
        self.out = _Output(output_limit, self._received)
        self.err = _Output(output_limit, self._received)
        self._flood_limit = flood_limit
        self._on_data = on_data
        self._problem: Exception | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._may_reap = threading.Event()
        self._pipes: list[asyncio.ReadTransport] = []

    async def start(self, command: str, directory: Path) -> None:
        """Start the shell. Raises `AgentRuntimeError` when that is impossible."""
        with contextlib.ExitStack() as ours:
            out = await self._pipe(self.out, ours)
            err = await self._pipe(self.err, ours)
            try:
                self._process = subprocess.Popen(  # noqa: ASYNC220 - see the class; asyncio's own blocks too
                    ["/bin/sh", "-c", command],
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:
                raise AgentRuntimeError(f"Cannot start /bin/sh in {directory}: {error}") from error
        waiter = functools.partial(self._watch, asyncio.get_running_loop(), self._process)
        threading.Thread(target=waiter, name=f"pid {self._process.pid}", daemon=True).start()

    async def _pipe(self, output: _Output, ours: contextlib.ExitStack) -> int:
        """Connect `output` to a new pipe; the end to write to, which `ours` closes."""
        read, write = os.pipe()
        ours.callback(os.close, write)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: output, os.fdopen(read, "rb", 0)
        )
        self._pipes.append(transport)
        return write

    def _watch(self, loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes]) -> None:
        """In a thread: report the exit, then reap once nobody needs the process group any more."""
        if hasattr(os, "waitid"):
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        else:
            code = process.wait()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._on_exit, code)
        self._may_reap.wait()
        process.wait()

    def _on_exit(self, code: int) -> None:
        if not self._exited.done():
            self._exited.set_result(code)

    async def ended(self) -> int:
        """Wait for the shell and its last words; its return code, negative for a signal."""
        code = await asyncio.shield(self._exited)
        await asyncio.wait({self.out.closed, self.err.closed}, timeout=LAST_WORDS_SECONDS)
        if self._problem is not None:
            raise self._problem
        return code

    def stop(self) -> None:
        """Kill the whole process group."""
        if self._process is not None and not self._may_reap.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def clean_up(self) -> None:
        """Kill what is left, close the pipes and wait for the end."""
        self.stop()
        self._may_reap.set()
        for pipe in self._pipes:
            pipe.close()
        if self._process is not None:
            await asyncio.shield(self._exited)

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
