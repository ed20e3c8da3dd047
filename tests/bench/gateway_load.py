"""Servers in processes of their own, and many connections to them that ask as fast as they are answered.

The clients are the bare library's, for the echo and for the gate: what they cost is the same for both.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect

from interlock.engine.gateway.server.admission import SUBPROTOCOL

AT_ONCE = 50
"""Connections that are opened side by side."""

_numbers = count(1)


@dataclass(frozen=True)
class Server:
    """A server that runs, and what it lets in."""

    process: subprocess.Popen[str]
    port: int
    agent: str = ""
    operator: str = ""

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def worked(self) -> float:
        """Seconds of a processor it has had."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in threads) / 1e9

    def memory(self) -> int:
        """Bytes it has in memory."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def server(module: str, *arguments: str, loop: str = "asyncio") -> Generator[Server, None, None]:
    """A server of this package while the block lasts."""
    command = [sys.executable, "-m", f"tests.bench.{module}", loop, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Server(process, **json.loads(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.wait(60)


@dataclass
class Client:
    """A connection that asks one thing at a time; `session` is its own at the gate, none at the echo."""

    socket: ClientConnection
    session: str | None = None

    async def ask(self, method: str, **params: object) -> str:
        """One round trip."""
        number = next(_numbers)
        asked = {"jsonrpc": "2.0", "method": method, "id": number, "params": params}
        await self.socket.send(json.dumps(asked))
        answer = await self.socket.recv(decode=True)
        assert '"error"' not in answer, answer
        return answer

    async def call(self, tool: str = "work") -> str:
        """A tool call; its id is new."""
        return await self.ask(
            "tool.call",
            session=self.session or "session-of-an-echo",
            call=f"call-{next(_numbers)}",
            tool=tool,
            input={"path": "src/report.py", "text": "a line of a report"},
        )

    async def call_and_result(self) -> None:
        """A tool call, and how it ended."""
        call = f"call-{next(_numbers)}"
        session = self.session or "session-of-an-echo"
        given = {"path": "src/report.py", "text": "a line of a report"}
        await self.ask("tool.call", session=session, call=call, tool="work", input=given)
        await self.ask("tool.result", session=session, call=call, output="done", seconds=0.1)


@asynccontextmanager
async def clients(to: Server, number: int) -> AsyncGenerator[list[Client], None]:
    """Connected agents, each with a session of its own where the server has such."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one() -> Client:
        async with room:
            client = Client(await stack.enter_async_context(_dialled(to.port, "/agent", to.agent)))
            if to.agent:
                await client.ask("hello", versions=[1])
                name = f"bench-{next(_numbers)}"
                opened = json.loads(await client.ask("session.open", agent="bench", session=name))
                client.session = opened["result"]["session"]
            return client

    allow_files()
    async with AsyncExitStack() as stack:
        yield await asyncio.gather(*(one() for _ in range(number)))


@asynccontextmanager
async def console(port: int, token: str) -> AsyncGenerator[ClientConnection, None]:
    """A console that is told everything from now on."""
    async with _dialled(port, "/console", token) as socket:
        client = Client(socket)
        await client.ask("hello", versions=[1])
        await client.ask("events.subscribe")
        yield socket


def _dialled(port: int, path: str, token: str) -> connect:
    headers = {"Authorization": f"Bearer {token}"} if token else None
    return connect(
        f"ws://127.0.0.1:{port}{path}",
        additional_headers=headers,
        subprotocols=[SUBPROTOCOL] if token else None,
        compression=None,
        max_size=None,
        proxy=None,
    )


async def rate(
    every: list[Client], round_trips: int, *, settled: bool = False, tool: str = "work"
) -> float:
    """Round trips a second, of all clients together; with `settled` half of them are results."""
    trips = 2 if settled else 1
    each = max(1, round_trips // len(every) // trips)

    async def work(client: Client) -> None:
        for _ in range(each):
            if settled:
                await client.call_and_result()
            else:
                await client.call(tool)

    begun = time.perf_counter()
    await asyncio.gather(*(work(client) for client in every))
    return each * trips * len(every) / (time.perf_counter() - begun)


def allow_files() -> None:
    """As many open sockets as this user may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
