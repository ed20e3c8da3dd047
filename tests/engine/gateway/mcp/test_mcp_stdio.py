"""The bytes, the signals and the end of a server behind `interlock mcp -- COMMAND`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from ..served import Served, served, until

RECORDER = Path(__file__).parent / "mcp_recorder.py"
SAID = (
    b'{"jsonrpc":"2.0", "id":4, "result":{"x":1.0e2}}\n'
    b"no JSON \xff\xfe\n"
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"a":1,"b":2}}\r\n'
    b'{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"n":1E0}}\n'
    + b"["
    * 5000
    + b"\n"
    b'{"big":"' + b"x" * 300_000 + b'"}\n'
    b"no end"
)
SENT = (
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a://b"}}\n'
    b'  {"params" : {"x":1.0e2,"y":"\\u00e9\xc3\xa9\xe2\x80\xa8"} , "method":"future/thing"}\r\n'
    b'{"jsonrpc":"2.0","id":"s1","result":{"content":{"type":"text","text":"hi"}}}\n'
    b'[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]\n'
    b"\n"
    b'{"jsonrpc":"2.0","method":"x","params":{"big":"' + b"y" * 300_000 + b'"}}\n'
)


@asynccontextmanager
async def recorder(
    directory: Path, *words: str, server: Served | None = None, say: bytes = b""
) -> AsyncGenerator[Process]:
    """Yield `interlock mcp` in front of a recorder that is ready."""
    (directory / "say").write_bytes(say)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "interlock.app.cli", "mcp", "--"),
        *(sys.executable, str(RECORDER), *words),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=1 << 24,
        cwd=directory,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")},
            "INTERLOCK_URL": server.url if server else "ws://127.0.0.1:9",
            "INTERLOCK_TOKEN": server.agent if server else "t",
            "RECORD": str(directory / "record"),
            "SAY": str(directory / "say"),
            "TOOLS": "rm test deploy",
        },
    )
    try:
        assert process.stderr is not None
        assert await process.stderr.readline() == b"ready\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def listens(process: Process, directory: Path) -> None:
    """Wait until the gate forwards its input; an earlier signal would end the gate itself."""
    assert process.stdin is not None
    process.stdin.write(b'{"method":"x"}\n')

    async def passed() -> bool:
        record = directory / "record"
        return record.exists() and record.read_bytes() != b""

    await until(passed)


async def answer(process: Process, *lines: bytes) -> list[object]:
    """Send lines and return one answer for each."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(lines))
    return [json.loads(await process.stdout.readline()) for _ in lines]


class TestBytes:
    async def test_pass_unchanged(self, tmp_path: Path) -> None:
        """Only calls are changed, and the server ends with the client."""
        async with recorder(tmp_path, say=SAID) as process:
            said, _ = await process.communicate(SENT)
            assert said == SAID
            assert (tmp_path / "record").read_bytes() == SENT
            assert process.returncode == 0

    @pytest.mark.slow
    async def test_disguised_calls_do_not_reach_the_server(self, tmp_path: Path) -> None:
        """Disguised and blocked calls do not reach the server; an allowed call reaches it once."""
        call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{}}}'
        allowed = call.replace(b"rm", b"test").replace(b":1,", b":2,")
        async with (
            served(tmp_path) as server,
            recorder(tmp_path, server=server) as process,
        ):
            answers = await answer(
                process,
                call.replace(b'"method"', b'"Method"') + b"\n",
                b'{"method":"x","params":\r' + call + b"\r}\n",
                b"[" + call + b"]\n",
                call.replace(b'"id":1,', b"") + b"\n",
                b'{"method":"' + b"z" * (33 << 20) + b'"}\n',
                call + b"\n",
            )
            assert all("error" in json.dumps(each) or "isError" in json.dumps(each) for each in answers)
            assert process.stdin is not None
            process.stdin.write(allowed + b"\n")

            async def made() -> bool:
                return (tmp_path / "record").exists() and (tmp_path / "record").read_bytes() != b""

            await until(made)
            await process.communicate(b'{"method":"ping"}\n')
            first, second = (tmp_path / "record").read_bytes().splitlines()
            assert json.loads(first) == json.loads(allowed)
            assert second == b'{"method":"ping"}'


class TestTheEnd:
    @pytest.mark.slow
    async def test_exit_code_is_the_servers(self, tmp_path: Path) -> None:
        """The gate ends with its server, with the same exit code."""
        async with recorder(tmp_path) as process:
            assert process.stdin is not None
            process.stdin.write(b'{"method":"END"}\n')
            assert await asyncio.wait_for(process.wait(), 30) == 3

    @pytest.mark.slow
    async def test_signals_and_stderr_pass(self, tmp_path: Path) -> None:
        """A signal reaches the server, and the server's stderr reaches the gate's."""
        async with recorder(tmp_path, "trap") as process:
            await listens(process, tmp_path)
            process.send_signal(signal.SIGTERM)
            _, said = await process.communicate()
            assert said == b"got 15\n"
            assert process.returncode == 7

    @pytest.mark.slow
    async def test_child_holding_output_does_not_block_end(self, tmp_path: Path) -> None:
        """The gate ends with its server although a child of the server holds the output."""
        async with recorder(tmp_path, "child") as process:
            assert process.stdin is not None
            process.stdin.write(b'{"method":"END"}\n')

            async def ended() -> bool:
                return process.returncode is not None

            try:
                await until(ended)
                assert process.returncode == 3
            finally:
                os.kill(int((tmp_path / "record.pid").read_text()), signal.SIGKILL)
            await process.communicate()

    @pytest.mark.slow
    async def test_signal_exit_code_is_128_plus_signal(self, tmp_path: Path) -> None:
        """The exit code of a server that a signal ended is 128 plus the signal."""
        async with recorder(tmp_path) as process:
            await listens(process, tmp_path)
            process.send_signal(signal.SIGTERM)
            await process.communicate()
            assert process.returncode == 128 + signal.SIGTERM

    @pytest.mark.slow
    async def test_session_ends_with_the_client(self, tmp_path: Path) -> None:
        """The session ends with the client, and its waiting request is withdrawn."""
        call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy"}}\n'
        async with (
            served(tmp_path, rules="require human-approval before deploy") as server,
            recorder(tmp_path, server=server) as process,
        ):
            assert process.stdin is not None
            process.stdin.write(call)
            await until(server.hub.approvals)
            await process.communicate(b"")
            assert process.returncode == 0
            assert await server.hub.approvals() == []
            assert await server.hub.sessions() == []
            assert (tmp_path / "record").read_bytes() == b""
