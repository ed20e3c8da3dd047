"""`interlock mcp -- COMMAND…`: an MCP server as a child process, with its tools behind the gate."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from ..protocol.address import TOKEN
from .gate import McpGate
from .proxy import McpProxy, ProxySession, report
from .stdio import OwnOutput, lines_of, own_lines

GRACE: Final = 5.0
"""Seconds in which a server ends by itself, and again after a signal."""
LAST_WORDS: Final = 2.0
"""Seconds to read a server's remaining output after its end."""
PULSE: Final = 0.25
"""Seconds between checks that a server is alive, because other processes may keep its output open."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def run_child(
    command: Sequence[str], gate: McpGate, session: ProxySession, *, wait: float | None = None
) -> int:
    """Proxy a command until it or the client ends. Returns its exit code. `wait` is as in `McpProxy`.

    Raises `OSError` for a command that cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env=environment(os.environ)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout, output = process.stdin, process.stdout, OwnOutput()

    async def to_server(line: bytes) -> None:
        with suppress(OSError):
            stdin.write(line)
            await stdin.drain()

    proxy = McpProxy(gate, session, output.send, to_server, wait=wait)

    async def read_client() -> None:
        async for line in own_lines():
            await proxy.handle_client(line)

    async def read_server() -> None:
        async for line in lines_of(stdout):
            await proxy.handle_server(line)

    ending = asyncio.Event()
    _pass_signals(process, ending)
    front, back = asyncio.create_task(read_client()), asyncio.create_task(read_server())
    output_closed = asyncio.create_task(output.wait_closed())
    stop = asyncio.create_task(_set(ending))
    exit_task = asyncio.create_task(_exit(process, PULSE))
    try:
        await asyncio.wait(
            {front, back, output_closed, stop, exit_task}, return_when=asyncio.FIRST_COMPLETED
        )
        await proxy.withdraw_all()
        stdin.close()
        code = await _end(process)
        # Read its last output, with a time limit: a grandchild may keep the pipe open forever.
        await asyncio.wait({back}, timeout=LAST_WORDS)
    finally:
        for task in (front, back, output_closed, stop):
            task.cancel()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        await proxy.close()
        exit_task.cancel()
        results = await asyncio.gather(
            front, back, output_closed, stop, exit_task, return_exceptions=True
        )
        for fault in results:
            if isinstance(fault, Exception):
                report(f"{type(fault).__name__}: {fault}")
    return code if code >= 0 else 128 - code


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a server: this process's, without the agent token."""
    return {name: value for name, value in own.items() if name != TOKEN}


async def _set(event: asyncio.Event) -> None:
    await event.wait()


def _pass_signals(process: Process, ending: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def pass_signal(number: signal.Signals) -> None:
        ending.set()
        with suppress(ProcessLookupError):
            process.send_signal(number)

    for each in SIGNALS:
        loop.add_signal_handler(each, pass_signal, each)


async def _end(process: Process) -> int:
    """Wait for a server whose stdin is closed; then terminate it, then kill it. Returns its exit code."""
    for stop in (process.terminate, process.kill):
        with suppress(TimeoutError):
            return await asyncio.wait_for(_exit(process, 0.01), GRACE)
        with suppress(ProcessLookupError):
            stop()
    return await _exit(process, 0.01)


async def _exit(process: Process, pulse: float) -> int:
    # `process.wait()` would wait for every process that keeps its pipes open.
    while process.returncode is None:  # noqa: ASYNC110 - asyncio has no public event for it
        await asyncio.sleep(pulse)
    return process.returncode
