"""Servers in separate processes, and many connections to them that send as fast as they get answers.

The clients use the bare library, both for the echo and for the gate, so their cost is the same.
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
"""Number of connections that are opened concurrently."""

_numbers = count(1)


@dataclass(frozen=True)
class Server:
    """A running server, and the credentials that it accepts."""

    process: subprocess.Popen[str]
    port: int
    agent: str = ""
    operator: str = ""

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def worked(self) -> float:
        """Return the processor time of the server in seconds."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in threads) / 1e9

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def server(module: str, *arguments: str, loop: str = "asyncio") -> Generator[Server, None, None]:
    """Run a server of this package while the context is open."""
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
    """A connection with one request at a time; `session` is its own at the gate, `None` at the echo."""

    socket: ClientConnection
    session: str | None = None

    async def ask(self, method: str, **params: object) -> str:
        """Make one round trip."""
        number = next(_numbers)
        asked = {"jsonrpc": "2.0", "method": method, "id": number, "params": params}
        await self.socket.send(json.dumps(asked))
        answer = await self.socket.recv(decode=True)
        assert '"error"' not in answer, answer
        return answer

    async def call(self, tool: str = "work") -> str:
        """Make a tool call with a new id."""
        return await self.ask(
            "tool.call",
            session=self.session or "session-of-an-echo",
            call=f"call-{next(_numbers)}",
            tool=tool,
            input={"path": "src/report.py", "text": "a line of a report"},
        )

    async def call_and_result(self) -> None:
        """Make a tool call, and report its outcome."""
        call = f"call-{next(_numbers)}"
        session = self.session or "session-of-an-echo"
        given = {"path": "src/report.py", "text": "a line of a report"}
        await self.ask("tool.call", session=session, call=call, tool="work", input=given)
        await self.ask("tool.result", session=session, call=call, output="done", seconds=0.1)


@asynccontextmanager
async def clients(to: Server, number: int) -> AsyncGenerator[list[Client], None]:
    """Provide connected agents, each with its own session if the server has sessions."""
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
    """Provide a console that receives all events from now on."""
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
    """Return round trips per second, of all clients together; with `settled` half of them are results."""
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
    """Raise the limit of open sockets to this user's maximum."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
