"""A process of this machine, run to its end.

At its end, whatever the cause, everything that it has started is killed: nothing outlives the approved
call (A-104). `supervisor` describes how, and the limits on each platform.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import AgentRuntimeError, RuntimeAbortError
from ...turn.abort import AbortSignal
from ..base import ExecResult
from ..output import Output, OutputLimits
from .subreaper import END_SECONDS
from .supervisor import IS_POSSIBLE, CommandSession, end_all, end_grace, end_sessions, supervise
from .termination import timeout_errors

_SHELLS = ("/bin/bash", "/usr/bin/bash")


def shell_program() -> str:
    """Return the shell that runs commands on this machine: bash if installed, else `/bin/sh`."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")


LAST_WORDS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Launch:
    """Command line, directory and environment of a process to start.

    `env` of `None` means this process's own environment. `stdin` is a file descriptor; without one,
    standard input is empty (A-109). `pass_fds` stay open in the process. Without `has_supervisor` only
    the process group is killed at the end.
    """

    argv: Sequence[str]
    directory: Path
    env: Mapping[str, str] | None = None
    stdin: int = subprocess.DEVNULL
    pass_fds: tuple[int, ...] = ()
    has_supervisor: bool = False


async def run(
    launch: Launch,
    limits: OutputLimits,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - part of what a command means, not of waiting
    abort: AbortSignal | None = None,
    on_data: Callable[[bytes], None] | None = None,
) -> ExecResult:
    """Run a process to its end; see `Runtime.exec` for the errors raised after `check_call`.

    A background process may write for a second after the main process ended; then it is killed.
    """
    running = _Process(launch, limits, on_data)
    watch = abort or AbortSignal()
    forget = watch.on_abort(running.stop)
    timer = asyncio.timeout(timeout or None)
    try:
        with timeout_errors(timer, timeout):
            async with timer:
                await running.start()
                if watch.aborted:
                    running.stop()
                code = await running.wait()
    finally:
        forget()
        await running.clean_up()
    if watch.aborted:
        raise RuntimeAbortError
    if code < 0:
        return running.output.result(128 - code, -code)
    return running.output.result(code)


class _Pipe(asyncio.Protocol):
    """One of a process's output streams."""

    def __init__(self, name: Literal["stdout", "stderr"], output: Output) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self._name: Literal["stdout", "stderr"] = name
        self._output = output

    def data_received(self, data: bytes) -> None:
        self._output.feed(self._name, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class _Process:
    """A running process.

    This process owns the pipes, so that a stray child cannot delay the end. Starting has no await point,
    so no cancellation can occur between the process's start and its registration. Its exit is observed
    before it is reaped; until then, no other process can get its process group.
    """

    def __init__(
        self, launch: Launch, limits: OutputLimits, on_data: Callable[[bytes], None] | None
    ) -> None:
        self._launch = launch
        self.output = Output(limits, on_data, self.stop)
        self._out = _Pipe("stdout", self.output)
        self._err = _Pipe("stderr", self.output)
        self._process: subprocess.Popen[bytes] | None = None
        self._exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._session = CommandSession() if launch.has_supervisor else None
        self._may_reap = threading.Event()
        self._pipes: list[asyncio.ReadTransport] = []

    async def start(self) -> None:
        """Start the process. Raises `AgentRuntimeError` if that is impossible."""
        launch = self._launch
        argv, pass_fds = launch.argv, launch.pass_fds
        if self._session is not None:
            argv = supervise(argv, self._session, LAST_WORDS_SECONDS)
            pass_fds += self._session.pass_fds
        with contextlib.ExitStack() as ours:
            out = await self._pipe(self._out, ours)
            err = await self._pipe(self._err, ours)
            try:
                self._process = subprocess.Popen(  # noqa: ASYNC220 - see the class; asyncio's own blocks too
                    argv,
                    cwd=launch.directory,
                    env=launch.env,
                    stdin=launch.stdin,
                    stdout=out,
                    stderr=err,
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
            except OSError as error:
                problem = f"Cannot start {launch.argv[0]} in {launch.directory}: {error}"
                raise AgentRuntimeError(problem) from error
        for pipe in (self._out, self._err):
            pipe.closed.add_done_callback(self._on_silence)
        waiter = functools.partial(self._watch, asyncio.get_running_loop(), self._process)
        threading.Thread(target=waiter, name=f"pid {self._process.pid}", daemon=True).start()

    async def _pipe(self, pipe: _Pipe, own_ends: contextlib.ExitStack) -> int:
        """Connect `pipe` to a new OS pipe; return the write end, which `own_ends` closes."""
        read, write = os.pipe()
        own_ends.callback(os.close, write)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: pipe, os.fdopen(read, "rb", 0)
        )
        self._pipes.append(transport)
        return write

    def _watch(self, loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes]) -> None:
        """Report the exit, then reap once the process group is no longer needed; runs in a thread."""
        code = self._code(process) if hasattr(os, "waitid") else process.wait()
        if self._session is not None:
            self._session.close()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._on_exit, code)
        self._may_reap.wait()
        process.wait()

    def _code(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the exit without reaping; no supervised process is left then."""
        options = os.WEXITED | os.WNOWAIT
        if self._launch.has_supervisor and IS_POSSIBLE:
            options |= os.WSTOPPED
        while True:
            exit_info = os.waitid(os.P_PID, process.pid, options)
            assert exit_info is not None
            match exit_info.si_code:
                case os.CLD_EXITED:
                    return exit_info.si_status
                case os.CLD_STOPPED:
                    end_all(process.pid)  # only its command can have stopped it
                case _:
                    if self._session is not None and exit_info.si_status == signal.SIGKILL:
                        end_sessions(process.pid, self._session.number())
                    return -exit_info.si_status

    def _on_exit(self, code: int) -> None:
        if not self._exited.done():
            self._exited.set_result(code)

    def _on_silence(self, _: asyncio.Future[None]) -> None:
        """End the grace period once both streams have ended: no more output can follow."""
        is_silent = self._out.closed.done() and self._err.closed.done()
        if is_silent and self._pid is not None and self._launch.has_supervisor:
            end_grace(self._pid)

    @property
    def _pid(self) -> int | None:
        """The process's id, as long as no other process can get it."""
        return None if self._process is None or self._may_reap.is_set() else self._process.pid

    async def wait(self) -> int:
        """Wait for the process and its remaining output; return its exit code, negative for a signal."""
        code = await asyncio.shield(self._exited)
        await asyncio.wait({self._out.closed, self._err.closed}, timeout=LAST_WORDS_SECONDS)
        return code

    def stop(self) -> None:
        """Kill the process and everything it has started."""
        if self._pid is None:
            return
        if self._launch.has_supervisor:
            end_all(self._pid)
        else:
            self._kill_group()

    def _kill_group(self) -> None:
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    async def clean_up(self) -> None:
        """Kill what is left, close the pipes and wait for the end.

        A supervisor that is still killing processes that fork faster continues by itself.
        """
        self.stop()
        for pipe in self._pipes:
            pipe.close()
        try:
            if self._process is not None:
                await asyncio.wait({self._exited}, timeout=2 * END_SECONDS)
                if not self._launch.has_supervisor:
                    self._kill_group()
        finally:
            self._may_reap.set()
        if self._process is not None and not self._launch.has_supervisor:
            await asyncio.shield(self._exited)
