"""An ACP agent as a child process: one message per line, standard error kept separately."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, cast

from pydantic import JsonValue

from ...agents.runtime.local.supervisor import (
    IS_POSSIBLE,
    CommandSession,
    end_all,
    end_sessions,
    is_stopped,
    supervise,
    terminate,
)
from ..protocol.address import TOKEN

MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a message; an agent that sends a larger one is ended."""
GRACE: Final = 2.0
"""Seconds for an agent to end by itself, again after a signal, and for reading its remaining output."""
PULSE: Final = 0.1
"""Seconds between checks that an agent is alive, because other processes may keep its output open."""
LAST_WORDS: Final = 2000
"""Bytes of its standard error that are kept to report how it ended."""

Message: TypeAlias = dict[str, JsonValue]


class AgentProcess:
    """Agent process below a supervisor; a transport for `acp.connection.Connection`.

    All processes that it has started end with it, see `supervisor`. Survivors may keep its pipes open,
    which are closed after `GRACE`.

    `log` receives its standard error and the lines that are not messages; `on_unreadable` is called with
    these lines.
    """

    def __init__(
        self,
        process: Process,
        pipes: asyncio.SubprocessTransport,
        session: CommandSession,
        log: BinaryIO | None,
        on_unreadable: Callable[[str], None],
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._pipes = pipes
        self._session = session
        self._stdin, self._stdout = process.stdin, process.stdout
        self._log = log
        self._on_unreadable = on_unreadable
        self._last = b""
        self._fault = ""
        self._end_of_output = asyncio.Event()
        self._stderr_task = asyncio.create_task(self._listen(process.stderr))

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        directory: Path,
        log: BinaryIO | None,
        on_unreadable: Callable[[str], None],
        environ: Mapping[str, str] = os.environ,
    ) -> AgentProcess:
        """Start `command` in `directory`. Raises `OSError`.

        The process does not receive the token with which other agents submit their calls to a gate.
        """
        if not _is_program(command[0], directory, environ):
            raise FileNotFoundError("there is no such program")
        loop = asyncio.get_running_loop()
        session = CommandSession()
        pipes, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=MOST_BYTES, loop=loop),
            *supervise(command, session),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=directory,
            env={name: value for name, value in environ.items() if name != TOKEN},
            pass_fds=session.pass_fds,
            start_new_session=True,
        )
        return cls(Process(pipes, protocol, loop), pipes, session, log, on_unreadable)

    # Methods of a transport

    async def send(self, message: Message) -> None:
        """Write a message. Does nothing if the agent has ended: `receive` then ends, too."""
        with suppress(OSError, RuntimeError):
            self._stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await self._stdin.drain()

    async def receive(self) -> Message | None:
        """Return the next message, `None` at the end. Lines that are not messages are skipped."""
        while True:
            try:
                line = await self._stdout.readline()
            except (ValueError, OSError):
                self._fault = f"it sent a message of more than {MOST_BYTES // 1024 // 1024} MiB"
                line = b""
            if not line:
                self._end_of_output.set()
                return None
            if not line.strip():
                continue
            message = _message(line)
            if message is not None:
                return message
            self._write_log(b"not a message: " + line)
            self._on_unreadable(line[:200].decode("utf-8", "replace").strip())

    async def close(self) -> None:
        """Do nothing: the connection is over, and `end` ends the process."""

    # End

    async def wait_ended(self) -> str:
        """Wait until the process has ended or can send nothing more; return how it ended."""
        exit_task = asyncio.create_task(self._exit())
        silent = asyncio.create_task(self._end_of_output.wait())
        try:
            await asyncio.wait({exit_task, silent}, return_when=asyncio.FIRST_COMPLETED)
            # Read what it wrote before it exited; a process that it started may keep the pipes open.
            await asyncio.wait({exit_task, silent}, timeout=GRACE, return_when=asyncio.ALL_COMPLETED)
            await self.end()
        finally:
            exit_task.cancel()
            silent.cancel()
        return self.last_words

    @property
    def last_words(self) -> str:
        """Exit status and the end of its standard error."""
        code, stderr_text = self._process.returncode, self._last.decode("utf-8", "replace").strip()
        exit_text = "" if code is None else f" (exit code {code})" if code >= 0 else f" (signal {-code})"
        fault_text = f": {self._fault}" if self._fault else ""
        return f"the agent ended{exit_text}{fault_text}" + (
            f". Its last output:\n{stderr_text}" if stderr_text else ""
        )

    async def end(self) -> None:
        """End the process and all that it has started: by closing its input, then by signals."""
        # Without a supervisor, the agent would exit once its input is closed, and leave its children
        # behind.
        await self._end_sessions()
        with suppress(OSError, RuntimeError):
            self._stdin.close()
        if not await self._ends():
            terminate(self._process.pid)
        if not await self._ends():
            self.kill()
        await self._ends()
        if not IS_POSSIBLE:
            self.kill()
        await self._end_sessions()
        await asyncio.wait({self._stderr_task}, timeout=GRACE)
        self._stderr_task.cancel()
        self._pipes.close()

    def kill(self) -> None:
        """Kill the process and all that it has started at once, without waiting."""
        if self._process.returncode is None or not IS_POSSIBLE:
            end_all(self._process.pid)

    async def _end_sessions(self) -> None:
        """End the processes that are left if the supervisor was killed."""
        command = self._session.number()
        if IS_POSSIBLE and self._process.returncode == -signal.SIGKILL:
            await asyncio.to_thread(end_sessions, self._process.pid, command)

    async def _ends(self) -> bool:
        """Wait up to the grace period; return whether the process has ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exit(), GRACE)
        return self._process.returncode is not None

    async def _exit(self) -> None:
        # `Process.wait()` would wait for every process that keeps its pipes open.
        while self._process.returncode is None:
            if is_stopped(self._process.pid):
                self.kill()
            await asyncio.sleep(PULSE)

    # Standard error

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while piece := await stderr.read(65_536):
            self._last = (self._last + piece)[-LAST_WORDS:]
            self._write_log(piece)

    def _write_log(self, piece: bytes) -> None:
        if self._log is not None:
            with suppress(OSError, ValueError):
                self._log.write(piece)
                self._log.flush()


def _is_program(name: str, directory: Path, environ: Mapping[str, str]) -> bool:
    """Return whether the program exists: a supervisor could report this only in its last words."""
    program = str(directory / name) if os.sep in name else name
    return shutil.which(program, path=environ.get("PATH", os.defpath)) is not None


def _message(line: bytes) -> Message | None:
    """Parse a JSON-RPC message that a connection can handle; return `None` for anything else."""
    try:
        document: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    message = cast("Message", document)
    if not isinstance(message.get("id"), int | str | None) or not isinstance(
        message.get("method", ""), str
    ):
        return None
    error = message.get("error")
    return message if error is None or _is_error(error) else None


def _is_error(error: JsonValue) -> bool:
    return (
        isinstance(error, dict)
        and isinstance(error.get("message", ""), str)
        and isinstance(error.get("code", 0), int)
    )
